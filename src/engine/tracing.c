// engine/tracing.c - the lanes of a model's trace, and its file.
#include "base/log.h"
#include "engine/model_internal.h"

#include <stdio.h>
#include <string.h>

#define EVENTS_MAX (1u << 17) // of a lane, 8 MiB

static ps_status add_lane(ps_model *model, const char *what, uint32_t number, ps_trace_lane **out)
{
    char name[40];
    (void)snprintf(name, sizeof name, "%s %u", what, number);
    return ps_trace_lane_add(model->trace, name, EVENTS_MAX, out);
}

static ps_status add_lanes(ps_model *model)
{
    const uint32_t workers = ps_team_workers(model->team);
    for (uint32_t w = 0; w < workers; w++) {
        PS_TRY(add_lane(model, "worker", w, &model->lanes.worker[w]));
    }
    const bool is_alone = ps_ranks_size(model->ranks) == 1;
    // One worker of one rank waits for nobody.
    for (uint32_t w = 0; w < workers && (workers > 1 || !is_alone); w++) {
        PS_TRY(add_lane(model, "prefetch", w, &model->lanes.prefetch[w]));
    }
    return is_alone
               ? PS_OK
               : ps_trace_lane_add(model->trace, "collectives", EVENTS_MAX, &model->lanes.comm);
}

ps_status ps_model_trace_side(ps_model *model)
{
    if (model->trace == NULL || model->lanes.side[0] != NULL) {
        return PS_OK;
    }
    for (uint32_t w = 0; w < ps_team_workers(model->team); w++) {
        PS_TRY(add_lane(model, "side", w, &model->lanes.side[w]));
    }
    return PS_OK;
}

ps_status ps_model_start_trace(ps_model *model, const char *path)
{
    if (path == NULL) {
        return PS_OK;
    }
    const uint32_t rank = ps_ranks_rank(model->ranks);
    char name[24];
    (void)snprintf(name, sizeof name, "rank %u", rank);
    model->trace_file = rank == 0 ? ps_arena_printf(&model->arena, "%s", path)
                                  : ps_arena_printf(&model->arena, "%s.rank%u", path, rank);
    if (model->trace_file == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_trace_create(rank, name, &model->trace));
    PS_TRY(ps_trace_note(model->trace, "model", model->path));
    return add_lanes(model);
}

static ps_status note_machine(const ps_model *model)
{
    const ps_machine *m = &model->machine;
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "%s, %u threads, %s: l2_bytes %llu, read_gbs %.2f, fill_gbs %.2f, cache_read_gbs %.1f, "
        "linear_share %.2f, int8_gops %.1f, f32_gops %.1f, barrier_ns %.0f, comm_ns %.0f, comm_gbs "
        "%.3f",
        m->name, m->threads, m->source, (unsigned long long)m->l2_bytes, m->read_gbs, m->fill_gbs,
        m->cache_read_gbs, m->linear_share, m->int8_gops, m->f32_gops, m->barrier_ns, m->comm_ns,
        m->comm_gbs);
    return ps_trace_note(model->trace, "calibration", text);
}

static ps_status note_plan(const ps_model *model, const ps_plan *plan)
{
    char key[64];
    ps_buffer text = {0};
    (void)snprintf(key, sizeof key, "plan for %u rows at %u", plan->rows_max, plan->context_max);
    ps_status status = ps_plan_print(plan, &text);
    if (status == PS_OK) {
        status = ps_trace_note(model->trace, key, text.data);
    }
    ps_buffer_deinit(&text);
    return status;
}

ps_status ps_model_trace_plans(const ps_model *model, const ps_session_config *config)
{
    if (model->trace == NULL) {
        return PS_OK;
    }
    ps_status status = note_machine(model);
    for (uint32_t i = 0; i < config->program_count && status == PS_OK; i++) {
        status = note_plan(model, ps_program_plan(config->programs[i]));
    }
    if (status == PS_EXHAUSTED) { // of many sessions the first ones are enough
        ps_log(PS_LOG_INFO, "%s", ps_error_message());
        return PS_OK;
    }
    return status;
}

void ps_model_end_trace(ps_model *model)
{
    if (model->trace != NULL && ps_trace_write(model->trace, model->trace_file) != PS_OK) {
        ps_log(PS_LOG_WARNING, "%s", ps_error_message());
    }
    ps_trace_destroy(model->trace);
}
