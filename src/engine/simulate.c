// engine/simulate.c - design points of a model by its name.
#include "engine/simulate.h"

#include "engine/model_internal.h"

#define ARENA_BYTES ((size_t)4 << 30)
#define CONTEXT_DEFAULT 4096u

ps_status ps_simulation_open(const char *name, const ps_machine *machine, ps_simulation *out)
{
    ps_simulation s = {.name = name, .machine = machine};
    ps_arena_init(&s.arena, ARENA_BYTES);
    const ps_status status = ps_model_source_open(name, 0, &s.arena, &s.model);
    if (status != PS_OK) {
        ps_arena_deinit(&s.arena);
        return status;
    }
    *out = s;
    return PS_OK;
}

void ps_simulation_close(ps_simulation *simulation)
{
    ps_model_source_close(&simulation->model);
    ps_arena_deinit(&simulation->arena);
}

uint32_t ps_simulation_context(const ps_simulation *simulation)
{
    const uint32_t most = simulation->model.config->context_tokens;
    return most > 0 && most < CONTEXT_DEFAULT ? most : CONTEXT_DEFAULT;
}

ps_status ps_simulation_play(const ps_simulation *simulation, const ps_workload *workload,
                             ps_design_point *out)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_model_source *model = &simulation->model;
    const ps_status status = ps_design_point_play(model->config, model->file.gguf,
                                                  simulation->machine, workload, &arena, out);
    ps_arena_deinit(&arena);
    return ps_engine_name_file(simulation->name, status);
}

ps_status ps_simulation_step(const ps_simulation *simulation, const ps_workload *workload,
                             ps_arena *arena, ps_design_step *out)
{
    const ps_model_source *model = &simulation->model;
    return ps_engine_name_file(simulation->name,
                               ps_design_step_play(model->config, model->file.gguf,
                                                   simulation->machine, workload, arena, out));
}
