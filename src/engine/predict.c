// engine/predict.c - finds the plan of a session's step and plays it.
#include "engine/predict.h"

#include "base/log.h"
#include "base/pages.h"
#include "engine/calibrate.h"
#include "engine/calibrate_steps.h"
#include "engine/model_internal.h"

// Memory that the caches do not hold, half of what is free at most.
static ps_status measure_steps(ps_model *model)
{
    ps_machine *machine = &model->machine;
    uint64_t bytes;
    void *memory;
    PS_TRY(ps_calibrate_fill_bytes(machine, ps_ranks_here(model->ranks), &bytes));
    PS_TRY(ps_pages_map(bytes, "calibration", &memory));
    ps_calibrate_steps(model->team, &model->kernels, memory, bytes, PS_CALIBRATE_QUICK_RUNS,
                       machine);
    ps_pages_unmap(memory, bytes);
    return PS_OK;
}

ps_status ps_predict_prepare(ps_model *model)
{
    if (model->is_tuned) {
        ps_model_measure_memory(model);
    }
    PS_TRY(ps_model_measure_rates(model));
    if (model->machine.workers.read_gbs <= 0) {
        if (ps_ranks_here(model->ranks) > 1) {
            ps_log(PS_LOG_WARNING,
                   "rank 0 measures alone what predictions go by; prestage tune --tp %u would be "
                   "right",
                   ps_ranks_size(model->ranks));
        }
        PS_TRY(measure_steps(model));
    }
    ps_model_describe_rates(model);
    return PS_OK;
}

double ps_predict_measure_read(const ps_model *model)
{
    return ps_weights_measure_fill(model->weights, model->team, &model->kernels,
                                   model->machine.llc_bytes);
}

// Attention reads KV at a rate of its own, as far as memory gives it.
static ps_machine machine_at(const ps_machine *machine, double read_gbs)
{
    ps_machine now = *machine;
    if (read_gbs > 0) {
        now.read_gbs = read_gbs;
        now.workers.kv_gbs = now.workers.kv_gbs < read_gbs ? now.workers.kv_gbs : read_gbs;
    }
    return now;
}

ps_status ps_predict_step(const ps_model *model, const ps_session *session, uint32_t rows,
                          uint32_t position, double read_gbs, ps_arena *arena, ps_prediction *out)
{
    const ps_machine machine = machine_at(&model->machine, read_gbs);
    const ps_program *program = ps_session_program_for(session, rows, rows, position);
    const ps_play_options options = {.rows = rows, .position = position, .records = true};
    ps_played played;
    ps_operator_row *ops;
    uint32_t op_count;
    if (model->streams_experts) {
        return ps_fail(PS_UNSUPPORTED, "steps whose experts are streamed are not predicted");
    }
    if (program == NULL) {
        return ps_fail(PS_INVALID, "no plan of the session holds %u rows at position %u", rows,
                       position);
    }
    const ps_plan *plan = ps_program_plan(program);
    PS_TRY(ps_play_plan(plan, &machine, &options, arena, &played));
    PS_TRY(ps_operators_list(plan, &played, arena, &ops, &op_count));
    *out = (ps_prediction){.play = played.sums, .ops = ops, .op_count = op_count};
    return PS_OK;
}
