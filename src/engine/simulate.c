// engine/simulate.c - plan and play.
#include "engine/simulate.h"

#include "engine/model_internal.h"

static ps_status simulate(const ps_model_source *source, const ps_plan_options *options,
                          ps_arena *arena, ps_machine *machine, ps_play *out)
{
    ps_plan *plan = NULL;
    ps_played played = {.span_count = 0};
    PS_TRY(ps_engine_plan_for(source, options, arena, machine, &plan));
    PS_TRY(
        ps_play_plan(plan, machine,
                     &(ps_play_options){.rows = plan->rows_max, .position = plan->context_max - 1},
                     arena, &played));
    *out = played.sums;
    return PS_OK;
}

ps_status ps_simulate_file(const char *path, const ps_plan_options *options, ps_machine *machine,
                           ps_play *out)
{
    ps_model_source source;
    if (options->machine_file != NULL) { // its faults are not the model's
        PS_TRY(ps_engine_open_machine(options, machine));
    }
    ps_arena arena;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_status status = ps_model_source_open(path, options->weight_bits, &arena, &source);
    if (status == PS_OK) {
        status = ps_engine_name_file(path, simulate(&source, options, &arena, machine, out));
        ps_model_source_close(&source);
    }
    ps_arena_deinit(&arena);
    return status;
}
