// cli/cmd_tune.c - `prestage tune`: measures the machine, says what it found, and keeps it.
//
// All ranks measure; rank 0 speaks and writes.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "engine/simulate.h"
#include "engine/tune_machine.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <stdio.h>
#include <string.h>

static const ps_prefetch_policy POLICIES[] = {PS_PREFETCH_OFF, PS_PREFETCH_AUTO};
#define POLICY_COUNT 2

// What the planner makes of the numbers: a decode step of the model.
typedef struct outlook {
    bool has_model;
    ps_play plays[POLICY_COUNT];
} outlook;

// ---- what it found

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
        (void)printf("a step should take %.3f ms with --prefetch %s\n", o->plays[i].total_ns / 1e6,
                     ps_prefetch_policy_name(POLICIES[i]));
    }
}

static void print_text(const ps_tuned *tuned, const outlook *o, const char *path)
{
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(&tuned->machine, tuned->key.ranks, rates);
    (void)printf("# %s\n", rates);
    print_fills(tuned);
    print_collectives(tuned);
    print_outlook(o);
    (void)printf("kept in %s\n", path);
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
    ps_json_number(&json, "read_gbs", m->read_gbs);
    ps_json_number(&json, "cache_read_gbs", m->cache_read_gbs);
    ps_json_number(&json, "linear_share", m->linear_share);
    ps_json_number(&json, "fill_gbs", m->fill_gbs);
    ps_json_number(&json, "int8_gops", m->int8_gops);
    ps_json_number(&json, "f32_gops", m->f32_gops);
    ps_json_number(&json, "barrier_ns", m->barrier_ns);
    ps_json_number(&json, "comm_ns", m->comm_ns);
    ps_json_number(&json, "comm_gbs", m->comm_gbs);
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
    ps_json_begin(&json, "steps", '[');
    for (uint32_t i = 0; i < POLICY_COUNT && o->has_model; i++) {
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_text(&json, "policy", ps_prefetch_policy_name(POLICIES[i]));
        ps_json_number(&json, "step_ns", o->plays[i].total_ns);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
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

static ps_status look_ahead(const ps_cli_options *options, const ps_tuned *tuned, outlook *out)
{
    ps_machine machine = tuned->machine;
    out->has_model = options->model != NULL;
    for (uint32_t i = 0; i < POLICY_COUNT && out->has_model; i++) {
        const ps_plan_options plan = {.ranks = tuned->key.ranks, .prefetch = POLICIES[i]};
        PS_TRY(ps_simulate_file(options->model, &plan, &machine, &out->plays[i]));
    }
    return PS_OK;
}

static ps_status keep(const ps_cli_options *options, const ps_tuned *tuned)
{
    char path[PS_TUNED_PATH_BYTES];
    outlook ahead = {0};
    if (options->output == NULL) {
        PS_TRY(ps_tuned_path(&tuned->key, path));
    } else {
        (void)snprintf(path, sizeof path, "%s", options->output);
    }
    PS_TRY(look_ahead(options, tuned, &ahead));
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_KEEPS); // there is a temporary file to remove
    PS_TRY(ps_tuned_write(tuned, path, options->output == NULL || options->force));
    if (options->json) {
        return print_json(tuned, &ahead, path);
    }
    print_text(tuned, &ahead, path);
    return PS_OK;
}

// Before the measuring: alike on all ranks of a host.
static ps_status check_output(const ps_cli_options *options)
{
    if (options->output == NULL) {
        return PS_OK;
    }
    if (strlen(options->output) >= PS_TUNED_PATH_BYTES) {
        return ps_fail(PS_INVALID, "-o: a path of at most %u bytes would be right",
                       PS_TUNED_PATH_BYTES - 1);
    }
    const ps_status status = ps_new_file_check(options->output, options->force);
    return status == PS_OK ? PS_OK : ps_file_name_error(options->output, status);
}

static ps_status check_and_measure(const ps_cli_options *options, bool is_first, ps_tuned *out)
{
    PS_TRY(ps_ranks_agree(options->started, is_first ? check_output(options) : PS_OK));
    return measure(options, out);
}

ps_status ps_cli_tune(const ps_cli_options *options)
{
    ps_tuned tuned;
    const bool is_first = ps_ranks_rank(options->started) == 0;
    const ps_status status = check_and_measure(options, is_first, &tuned);
    if (is_first) {
        return status == PS_OK ? keep(options, &tuned) : status;
    }
    // until rank 0 has written
    return status == PS_LOST ? status : ps_ranks_follow(options->started, options->model, NULL);
}
