// cli/cmd_simulate.c - `prestage simulate`: a workload under several policies, in simulated time.
#include "cli/commands.h"
#include "cli/simulate_report.h"
#include "engine/machine_open.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)

// Without several ranks there are no sums and nothing to hide behind them.
static const char *default_sides(const ps_cli_options *options)
{
    return options->ranks <= 1          ? "serial,ratio,auto"
           : options->sequence_parallel ? "serial,preserve,ratio,auto"
                                        : "serial,fused,preserve,ratio,auto";
}

static ps_status open_machine(const ps_cli_options *options, ps_machine *out)
{
    const ps_machine_use use = {.threads = options->threads,
                                .ranks = options->ranks,
                                .link = options->comm_link,
                                .measure = !options->no_measure};
    return ps_machine_open(options->machine, &use, NULL, NULL, out);
}

static ps_workload workload_of(const ps_cli_options *options, const ps_cli_side *side)
{
    const ps_cli_simulate_options *own = &options->simulate;
    return (ps_workload){.batch = options->rows == 0 ? 1 : options->rows,
                         .context_tokens = options->context,
                         .prompt_tokens = own->prompt_tokens,
                         .ranks = options->ranks == 0 ? 1 : options->ranks,
                         .context_shards = options->context_shards,
                         .weight_bits = options->weight_bits,
                         .kv_bits = options->kv_bits,
                         .k_type = (ps_kv_type)options->k_type,
                         .v_type = (ps_kv_type)options->v_type,
                         .prefetch = side->prefetch,
                         .comm_schedule = side->comm_schedule,
                         .sequence_parallel = options->sequence_parallel,
                         .best_logits = ps_sampler_best_logits(&options->sampler),
                         .ratios = options->ratios,
                         .experts_kept = own->experts_kept,
                         .coverage = own->coverage,
                         .slo_ns = own->slo_ns};
}

static ps_status note_what(const ps_simulation *simulation, const ps_workload *workload,
                           ps_trace *trace)
{
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(simulation->machine, workload->ranks, rates);
    PS_TRY(ps_trace_note(trace, "model", simulation->name));
    return ps_trace_note(trace, "machine", rates);
}

// The operators of its last step, and with --trace *out_trace.
static ps_status look_into(const ps_simulation *simulation, bool traces, uint32_t number,
                           ps_arena *arena, ps_simulate_side *side, ps_trace **out_trace)
{
    ps_design_step step;
    ps_operator_row *rows = NULL;
    PS_TRY(ps_simulation_step(simulation, &side->workload, arena, &step));
    PS_TRY(ps_operators_list(step.plan, &step.played, arena, &rows, &side->row_count));
    side->rows = rows;
    if (!traces) {
        return PS_OK;
    }
    PS_TRY(ps_design_step_trace(&step, number, side->name, out_trace));
    return number > 0 ? PS_OK : note_what(simulation, &side->workload, *out_trace);
}

// traces: [sides], NULL where none has been made.
static ps_status play_sides(const ps_cli_options *options, ps_simulate_report *report,
                            ps_arena *arena, ps_trace **traces)
{
    const bool has_trace = options->trace != NULL;
    for (uint32_t i = 0; i < report->side_count; i++) {
        ps_simulate_side *side = &report->sides[i];
        PS_TRY(ps_simulation_play(report->simulation, &side->workload, &side->point));
        if (i == 0 || has_trace || (options->operators && options->json)) {
            PS_TRY(look_into(report->simulation, has_trace, i, arena, side, &traces[i]));
        }
    }
    return has_trace ? ps_trace_write_all((const ps_trace *const *)traces, report->side_count,
                                          options->trace)
                     : PS_OK;
}

static ps_status play_and_print(const ps_cli_options *options, ps_simulate_report *report)
{
    ps_trace *traces[PS_SIMULATE_SIDES_MAX] = {NULL};
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = play_sides(options, report, &arena, traces);
    if (status == PS_OK && options->json) {
        status = ps_simulate_report_json(report);
    } else if (status == PS_OK) {
        ps_simulate_report_print(report);
    }
    for (uint32_t i = 0; i < report->side_count; i++) {
        ps_trace_destroy(traces[i]);
    }
    ps_arena_deinit(&arena);
    return status;
}

static ps_status simulate(const ps_cli_options *options, const ps_cli_side *sides,
                          ps_simulate_report *report)
{
    bool meets_slo = false;
    const ps_cli_simulate_options *own = &options->simulate;
    if (report->simulation->model.config->experts == 0 && own->experts_kept + own->coverage > 0) {
        return ps_fail(
            PS_INVALID, "%s: %s, but this model has no experts; without it would be right",
            report->simulation->name, own->experts_kept > 0 ? "--experts-kept" : "--coverage");
    }
    for (uint32_t i = 0; i < report->side_count; i++) {
        ps_simulate_side *side = &report->sides[i];
        side->name = sides[i].name;
        side->workload = workload_of(options, &sides[i]);
        if (side->workload.context_tokens == 0) {
            side->workload.context_tokens = ps_simulation_context(report->simulation);
        }
        PS_TRY(ps_workload_complete(&side->workload));
    }
    PS_TRY(play_and_print(options, report));
    for (uint32_t i = 0; i < report->side_count; i++) {
        meets_slo |= report->sides[i].point.meets_slo > 0;
    }
    if (!meets_slo) {
        ps_cli_result_is_bad();
    }
    return PS_OK;
}

ps_status ps_cli_simulate(const ps_cli_options *options)
{
    ps_cli_side sides[PS_SIMULATE_SIDES_MAX];
    ps_machine machine;
    ps_simulation simulation;
    ps_simulate_report report = {.simulation = &simulation, .has_operators = options->operators};
    PS_TRY(ps_cli_model_check(options));
    PS_TRY(ps_cli_sides_parse(options->compare == NULL ? default_sides(options) : options->compare,
                              sides, PS_SIMULATE_SIDES_MAX, &report.side_count));
    PS_TRY(open_machine(options, &machine));
    PS_TRY(ps_simulation_open(options->model, &machine, &simulation));
    const ps_status status = simulate(options, sides, &report);
    ps_simulation_close(&simulation);
    return status;
}
