// engine/model_experts.h - what routers of an open model choose: counted, and written to files.
#ifndef PS_ENGINE_MODEL_EXPERTS_H
#define PS_ENGINE_MODEL_EXPERTS_H

#include "engine/counts_file.h"
#include "exec/exec.h"

#include <prestage/prestage.h>

typedef struct ps_model_experts {
    ps_counts_file file;        // counts since the model was opened or since they were written
    ps_routes_writer *log;      // NULL: none
    ps_route_observer observer; // its context is the ps_model_experts
    // The call at hand, as counts and logs take it.
    ps_routes_row *rows; // [PS_BATCH_ROWS_MAX]
    uint16_t *ids;       // [PS_BATCH_ROWS_MAX][top_k]
} ps_model_experts;

// Starts to count the experts of a model that has been opened for running, in model->experts with
// memory of the model; not where it has none, or where another rank counts.
PS_MUST_USE ps_status ps_model_experts_start(ps_model *model);
void ps_model_experts_end(ps_model_experts *experts); // a log under way is lost; NULL is allowed

// Whether what is counted can be added to `path`, to be asked before the work: fails as
// ps_model_record_experts would.
PS_MUST_USE ps_status ps_model_record_check(const ps_model *model, const char *path);

// Writes the counts to a new file, or one that `replace` allows to replace; _check tells before the
// work whether that is possible.
PS_MUST_USE ps_status ps_model_write_check(const ps_model *model, const char *path, bool replace);
PS_MUST_USE ps_status ps_model_write_experts(ps_model *model, const char *path, bool replace);

#endif
