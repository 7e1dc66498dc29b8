// engine/model_experts.h - what routers of an open model choose: counted, and written to files.
#ifndef PS_ENGINE_MODEL_EXPERTS_H
#define PS_ENGINE_MODEL_EXPERTS_H

#include "engine/counts_file.h"
#include "exec/exec.h"

// The counts of a model since it was opened or since they were written.
typedef struct ps_model_experts {
    ps_counts_file file;
    ps_route_observer observer; // counts for file.counts
} ps_model_experts;

// Starts to count the experts of a model that has been opened for running. *out: NULL where it has
// none, or where another rank counts. Memory is the model's.
PS_MUST_USE ps_status ps_model_experts_start(ps_model *model, ps_model_experts **out);

// Whether what is counted can be added to `path`, to be asked before the work: fails as
// ps_model_record_experts would.
PS_MUST_USE ps_status ps_model_record_check(const ps_model *model, const char *path);

// Writes the counts to a new file, or one that `replace` allows to replace.
PS_MUST_USE ps_status ps_model_write_experts(ps_model *model, const char *path, bool replace);

#endif
