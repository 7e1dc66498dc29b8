// cli/cmd_tune.c - `prestage tune`: measures the machine, says what it found, and keeps it.
//
// All ranks measure; rank 0 speaks and writes. For a model it also finds prefetch ratios: by steps
// on this machine, or, where --machine names another one, in simulated time.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/tune_report.h"
#include "engine/machine_file.h"
#include "engine/machine_open.h"
#include "engine/model_source.h"
#include "engine/simulate.h"
#include "engine/tune_machine.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <stdio.h>
#include <string.h>

static const ps_prefetch_policy POLICIES[] = {PS_PREFETCH_OFF, PS_PREFETCH_AUTO};
#define POLICY_COUNT 2
#define LIMIT_S 60u

_Static_assert(PS_CLI_SEQUENCES_MAX <= PS_STEP_BATCH_MAX && PS_CLI_LIST_MAX <= PS_TUNE_BATCHES_MAX,
               "all batches of a command line can be timed");

static const ps_cli_list BATCHES = {.count = 5, .values = {1, 4, 16, 72, 144}};

// What was found for a model.
typedef struct outlook {
    bool has_model;
    double step_ns[POLICY_COUNT]; // what the planner makes of the numbers: a decode step
    ps_tuned_ratios ratios;
    ps_tune_report report;
} outlook;

#define VLLM_RANKS 4u // where nothing is said of them: of its own examples for these models

static bool emits_vllm(const ps_cli_options *options)
{
    return options->emit != NULL && strcmp(options->emit, "vllm-ascend") == 0;
}

// Those that were started, or that are simulated.
static uint32_t ranks_of(const ps_cli_options *options)
{
    const uint32_t planned = options->ranks > 0    ? options->ranks
                             : emits_vllm(options) ? VLLM_RANKS
                                                   : 1;
    return options->started == NULL ? planned : ps_ranks_size(options->started);
}

// What vLLM-Ascend prefetches for has weights and activations of 8 bits.
static uint32_t weight_bits(const ps_cli_options *options)
{
    return options->weight_bits == 0 && emits_vllm(options) &&
                   ps_model_source_is_architecture(options->model)
               ? 8
               : options->weight_bits;
}

// ---- what it found

static void print_workers(const ps_worker_rates *r)
{
    (void)printf(
        "# a worker alone reads %.1f GB/s; KV %.1f GB/s, attention %.0f Gmac/s; linears hide "
        "%.0f %% of what takes them less; vector operators %.0f GB/s, %.0f ns each; "
        "barriers in use %.0f ns\n",
        r->read_gbs, r->kv_gbs, r->attention_gops, r->overlap * 100, r->vector_gbs, r->step_ns,
        r->meet_ns);
}

static void print_fills(const ps_tuned *tuned)
{
    (void)printf(
        "| fill by    | pace         | L2 GB/s | again GB/s | kept | LLC GB/s | again GB/s |\n"
        "| ---------- | ------------ | ------: | ---------: | ---: | -------: | ---------: |\n");
    for (uint32_t i = 0; i < tuned->fill_count; i++) {
        const ps_fill_rates *f = &tuned->fills[i];
        (void)printf("| %-10s | %-12s | %7.1f | %10.1f | %4.2f |",
                     ps_fill_name((ps_fill)f->primitive), f->is_paced ? "paced" : "back to back",
                     f->l2_gbs, f->l2_again_gbs, ps_fill_kept(&tuned->fills[0], f));
        if (f->llc_gbs > 0) {
            (void)printf(" %8.1f | %10.1f |\n", f->llc_gbs, f->llc_again_gbs);
        } else {
            (void)printf(" %8s | %10s |\n", "", "");
        }
    }
}

static void print_collectives(const ps_tuned *tuned)
{
    if (tuned->collective_count == 0) {
        return;
    }
    (void)printf("| all_reduce bytes |   took us |\n| ---------------: | --------: |\n");
    for (uint32_t i = 0; i < tuned->collective_count; i++) {
        (void)printf("| %16llu | %9.1f |\n", (unsigned long long)tuned->collectives[i].bytes,
                     tuned->collectives[i].ns / 1e3);
    }
}

static void print_outlook(const outlook *o)
{
    for (uint32_t i = 0; i < POLICY_COUNT && o->has_model; i++) {
        (void)printf("a step should take %.3f ms with --prefetch %s\n", o->step_ns[i] / 1e6,
                     ps_prefetch_policy_name(POLICIES[i]));
    }
}

static void print_text(const ps_tuned *tuned, const outlook *o, const char *path)
{
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(&tuned->machine, tuned->key.ranks, rates);
    (void)printf("# %s\n", rates);
    print_workers(&tuned->machine.workers);
    print_fills(tuned);
    print_collectives(tuned);
    print_outlook(o);
    if (o->has_model) {
        ps_tune_report_print(&o->report);
    }
    (void)printf("kept in %s\n", path);
}

static void add_outlook(ps_json_writer *json, const outlook *o)
{
    ps_json_begin(json, "steps", '[');
    for (uint32_t i = 0; i < POLICY_COUNT && o->has_model; i++) {
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "policy", ps_prefetch_policy_name(POLICIES[i]));
        ps_json_number(json, "step_ns", o->step_ns[i]);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
    if (o->has_model) {
        ps_tune_report_json(&o->report, json);
    }
}

static void add_rates(ps_json_writer *json, const ps_machine *machine)
{
    for (size_t i = 0; i < ps_machine_field_count; i++) {
        const ps_json_field *field = &ps_machine_fields[i];
        double rate;
        if (field->kind == PS_JSON_F64) {
            memcpy(&rate, (const char *)machine + field->offset, sizeof rate);
            ps_json_number(json, field->key, rate);
        }
    }
}

static ps_status print_json(const ps_tuned *tuned, const outlook *o, const char *path)
{
    ps_json_writer json = {0};
    const ps_machine *m = &tuned->machine;
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "file", path);
    ps_json_text(&json, "machine", m->name);
    ps_json_text(&json, "isa", tuned->key.isa);
    ps_json_text(&json, "rates_source", m->source);
    ps_json_integer(&json, "threads", m->threads);
    ps_json_integer(&json, "ranks", tuned->key.ranks);
    ps_json_text(&json, "comm", tuned->key.comm);
    add_rates(&json, m);
    ps_json_begin(&json, "fills", '[');
    for (uint32_t i = 0; i < tuned->fill_count; i++) {
        const ps_fill_rates *f = &tuned->fills[i];
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_text(&json, "primitive", ps_fill_name((ps_fill)f->primitive));
        ps_json_bool(&json, "paced", f->is_paced);
        ps_json_number(&json, "l2_gbs", f->l2_gbs);
        ps_json_number(&json, "l2_again_gbs", f->l2_again_gbs);
        ps_json_number(&json, "kept", ps_fill_kept(&tuned->fills[0], f));
        ps_json_number(&json, "llc_gbs", f->llc_gbs);
        ps_json_number(&json, "llc_again_gbs", f->llc_again_gbs);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_begin(&json, "collectives", '[');
    for (uint32_t i = 0; i < tuned->collective_count; i++) {
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_integer(&json, "bytes", (int64_t)tuned->collectives[i].bytes);
        ps_json_number(&json, "ns", tuned->collectives[i].ns);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    add_outlook(&json, o);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

// Of another machine.
static ps_status print_simulated(const ps_cli_options *options, const ps_machine *machine,
                                 const outlook *o)
{
    if (options->json) {
        ps_json_writer json = {0};
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "machine", machine->name);
        ps_json_text(&json, "rates_source", machine->source);
        ps_json_integer(&json, "threads", machine->threads);
        ps_json_integer(&json, "ranks", ranks_of(options));
        add_outlook(&json, o);
        ps_json_end(&json, '}');
        return ps_json_print(&json);
    }
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(machine, ranks_of(options), rates);
    (void)printf("# %s\n", rates);
    print_outlook(o);
    ps_tune_report_print(&o->report);
    return PS_OK;
}

// ---- the command

static ps_status measure(const ps_cli_options *options, ps_tuned *out)
{
    ps_cli_progress progress = {.verb = "measuring"};
    ps_tune_options tune = {.threads = options->threads, .cancel = ps_cli_interrupt_flag()};
    if (ps_ranks_rank(options->started) == 0 && ps_cli_progress_begin(&progress)) {
        tune.progress = ps_cli_progress_draw;
        tune.progress_context = &progress;
    }
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    const ps_status status = ps_tune(options->started, &tune, out);
    if (tune.progress != NULL) {
        ps_cli_progress_end(&progress);
    }
    return status;
}

// What the planner expects of the last step of a context.
static ps_status play_steps(const ps_cli_options *options, const ps_simulation *simulation,
                            outlook *out)
{
    for (uint32_t i = 0; i < POLICY_COUNT; i++) {
        const ps_workload workload = {.batch = 1,
                                      .context_tokens = ps_simulation_context(simulation),
                                      .ranks = ranks_of(options),
                                      .weight_bits = weight_bits(options),
                                      .prefetch = POLICIES[i]};
        ps_design_point point;
        PS_TRY(ps_simulation_play(simulation, &workload, &point));
        out->step_ns[i] = point.last_ns;
    }
    return PS_OK;
}

static ps_status look_ahead(const ps_cli_options *options, const ps_machine *machine, outlook *out)
{
    ps_simulation simulation;
    PS_TRY(ps_simulation_open(options->model, machine, &simulation));
    const ps_status status = play_steps(options, &simulation, out);
    ps_simulation_close(&simulation);
    return status;
}

// model: NULL for simulated time.
static ps_status search_ratios(const ps_cli_options *options, ps_model *model,
                               const ps_machine *machine, outlook *out)
{
    const ps_cli_list given = {.count = 1, .values = {options->max_num_seqs}};
    const ps_cli_list *batches = options->max_num_seqs > 0    ? &given
                                 : options->batches.count > 0 ? &options->batches
                                                              : &BATCHES;
    ps_cli_progress progress = {.verb = "finding ratios"};
    ps_tune_ratios_options tune = {.model = model,
                                   .machine = machine,
                                   .ranks = ranks_of(options),
                                   .weight_bits = weight_bits(options),
                                   .context_tokens = options->context,
                                   .session = ps_cli_session_options(options),
                                   .batches = batches->values,
                                   .batch_count = batches->count,
                                   .objective = out->report.objective,
                                   .limit_s = out->report.limit_s,
                                   .cancel = ps_cli_interrupt_flag()};
    if (ps_cli_progress_begin(&progress)) {
        tune.progress = ps_cli_progress_draw;
        tune.progress_context = &progress;
    }
    const ps_status status = ps_tune_ratios(options->model, &tune, &out->ratios);
    ps_cli_progress_end(&progress);
    return status;
}

static ps_status find_ratios(const ps_cli_options *options, const ps_machine *machine, outlook *out)
{
    out->has_model = true;
    out->report = (ps_tune_report){
        .tuned = &out->ratios,
        .limit_s = options->time_limit > 0 ? options->time_limit : LIMIT_S,
        .is_simulated = options->machine != NULL,
        .is_alone = options->machine == NULL && machine->threads * ranks_of(options) == 1,
        .objective = options->objective == PS_CLI_THROUGHPUT ? PS_TUNE_THROUGHPUT : PS_TUNE_LATENCY,
        .plan_file = options->output};
    if (out->report.is_alone) {
        return PS_OK;
    }
    if (options->machine != NULL) {
        return search_ratios(options, NULL, machine, out);
    }
    ps_model *model = NULL;
    PS_TRY(ps_cli_model_open(options, options->threads, NULL, &model));
    const ps_status status = search_ratios(options, model, machine, out);
    ps_model_close(model);
    return status;
}

static ps_status write_plans(const ps_cli_options *options, const ps_machine *machine,
                             const outlook *found)
{
    char *text = NULL;
    size_t length = 0;
    ps_plan_options plan = ps_cli_plan_options(options);
    if (options->output == NULL) {
        return PS_OK;
    }
    plan.ranks = ranks_of(options);
    plan.prefetch = PS_PREFETCH_RATIO;
    PS_TRY(ps_tuned_ratios_plans(options->model, &plan, machine, &found->ratios, &text, &length));
    const ps_status status = ps_cli_plans_write(options, (ps_str){text, length}, NULL);
    ps_free(text);
    return status;
}

// Rank 0, when all have measured.
static ps_status keep(const ps_cli_options *options, const ps_tuned *tuned)
{
    char path[PS_TUNED_PATH_BYTES];
    outlook found = {0};
    ps_machine machine = tuned->machine;
    const bool is_named = options->output != NULL && options->model == NULL;
    if (is_named) {
        (void)snprintf(path, sizeof path, "%s", options->output);
    } else {
        PS_TRY(ps_tuned_path(&tuned->key, path));
    }
    if (options->model != NULL) {
        PS_TRY(look_ahead(options, &machine, &found));
        PS_TRY(find_ratios(options, &machine, &found));
    }
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_KEEPS); // there is a temporary file to remove
    PS_TRY(ps_tuned_write(tuned, path, !is_named || options->force));
    if (options->model != NULL) {
        PS_TRY(write_plans(options, &machine, &found));
    }
    if (options->emit != NULL) {
        return ps_tune_report_config(&found.report);
    }
    if (options->json) {
        return print_json(tuned, &found, path);
    }
    print_text(tuned, &found, path);
    return PS_OK;
}

// ---- another machine

static ps_status simulate(const ps_cli_options *options)
{
    outlook found = {0};
    ps_machine machine;
    const ps_machine_use use = {.threads = options->threads,
                                .ranks = ranks_of(options),
                                .link = options->comm_link,
                                .measure = true};
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    PS_TRY(ps_machine_open(options->machine, &use, NULL, NULL, &machine));
    PS_TRY(look_ahead(options, &machine, &found));
    PS_TRY(find_ratios(options, &machine, &found));
    PS_TRY(write_plans(options, &machine, &found));
    if (emits_vllm(options)) {
        ps_tune_report_vllm_ascend(&found.report, options->model, machine.name, ranks_of(options),
                                   options->ranks > 0 ? "" : " (assumed; --tp says otherwise)");
        return PS_OK;
    }
    return options->emit != NULL ? ps_tune_report_config(&found.report)
                                 : print_simulated(options, &machine, &found);
}

// ---- before the measuring, alike on all ranks of a host

static ps_status check_output(const ps_cli_options *options)
{
    if (options->output == NULL) {
        return PS_OK;
    }
    if (options->model != NULL) {
        return ps_cli_output_check(options);
    }
    if (strlen(options->output) >= PS_TUNED_PATH_BYTES) {
        return ps_fail(PS_INVALID, "-o: a path of at most %u bytes would be right",
                       PS_TUNED_PATH_BYTES - 1);
    }
    const ps_status status = ps_new_file_check(options->output, options->force);
    return status == PS_OK ? PS_OK : ps_file_name_error(options->output, status);
}

static ps_status check_emit(const ps_cli_options *options)
{
    if (options->emit == NULL) {
        return PS_OK;
    }
    if (strcmp(options->emit, "config") != 0 && !emits_vllm(options)) {
        return ps_fail(PS_INVALID, "--emit '%s': config or vllm-ascend would be right",
                       options->emit);
    }
    if (options->json) {
        return ps_fail(PS_INVALID, "--emit and --json, which holds the config, together; one of "
                                   "them would be right");
    }
    return !emits_vllm(options) || options->machine != NULL
               ? PS_OK
               : ps_fail(PS_INVALID, "--emit vllm-ascend is for another machine than this: "
                                     "--machine ascend-910b would be right");
}

static ps_status check_options(const ps_cli_options *options)
{
    const bool wants_ratios = options->objective != PS_CLI_UNSAID || options->emit != NULL ||
                              options->machine != NULL || options->time_limit > 0 ||
                              options->batches.count > 0 || options->max_num_seqs > 0;
    PS_TRY(wants_ratios ? ps_cli_model_check(options) : PS_OK);
    if (options->machine == NULL && options->model != NULL &&
        ps_model_source_is_architecture(options->model)) { // its steps cannot be run
        ps_model_file file;
        return ps_model_source_open_file(options->model, &file);
    }
    PS_TRY(check_emit(options));
    if (options->max_num_seqs > 0 && options->batches.count > 0) {
        return ps_fail(PS_INVALID, "--max-num-seqs and --batch together; one of them would be "
                                   "right");
    }
    if (options->machine != NULL && options->ranks_sim > 0) {
        return ps_fail(PS_INVALID, "--ranks-sim with --machine, which is simulated anyway; --tp "
                                   "would be right");
    }
    return check_output(options);
}

static ps_status check_and_measure(const ps_cli_options *options, bool is_first, ps_tuned *out)
{
    PS_TRY(ps_ranks_agree(options->started, is_first ? check_options(options) : PS_OK));
    return measure(options, out);
}

ps_status ps_cli_tune(const ps_cli_options *options)
{
    ps_tuned tuned;
    const bool is_first = ps_ranks_rank(options->started) == 0;
    if (options->machine != NULL) {
        PS_TRY(check_options(options));
        return simulate(options);
    }
    const ps_status status = check_and_measure(options, is_first, &tuned);
    if (is_first) {
        return status == PS_OK ? keep(options, &tuned) : status;
    }
    // until rank 0 has written
    return status == PS_LOST ? status : ps_ranks_follow(options->started, options->model, NULL);
}
