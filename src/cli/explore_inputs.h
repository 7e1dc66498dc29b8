// cli/explore_inputs.h - the specs, machines and models of `prestage explore`, opened once each.
#ifndef PS_CLI_EXPLORE_INPUTS_H
#define PS_CLI_EXPLORE_INPUTS_H

#include "cli/explore_run.h"
#include "engine/machine_open.h"
#include "engine/model_source.h"

#define PS_EXPLORE_FOLDER "paper" // of data/

// A spec by its name.
typedef struct ps_explore_source {
    const char *name; // without folder and ".json"
    json_t *json;
    ps_explore_spec spec;
} ps_explore_source;

typedef struct ps_explore_inputs {
    ps_arena arena;
    ps_explore_fields fields;
    ps_explore_source *sources; // [source_count]
    uint32_t source_count;
    ps_machine *machines; // [fields.machines.count]
    ps_machine_notes *notes;
    ps_model_source *models; // [fields.models.count]
    uint32_t model_count;    // that are open
    uint64_t key;            // of all that results depend on
} ps_explore_inputs;

// Reads specs, each a shipped name or a path. *out is to be closed either way.
//
// PS_NOT_FOUND  the message names the nearest shipped spec
// PS_INVALID    the message names spec and place
PS_MUST_USE ps_status ps_explore_inputs_read(const char *const *names, uint32_t count,
                                             ps_explore_inputs *out);

// Opens the machines and models that the specs name. Fails as ps_machine_open and
// ps_model_source_open do.
PS_MUST_USE ps_status ps_explore_inputs_open(ps_explore_inputs *inputs);

void ps_explore_inputs_close(ps_explore_inputs *inputs);

// Plays points of these machines and models. The inputs have to outlive it.
ps_explore_player ps_explore_inputs_player(ps_explore_inputs *inputs);

#endif
