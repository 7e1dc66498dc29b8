// cli/cmd_simulate.c - `prestage simulate`: a step under several policies, in simulated time.
#include "cli/commands.h"
#include "engine/simulate.h"

#include <stdio.h>
#include <string.h>

#define SIDES_MAX 8u

// The machine is measured once, by the first.
static ps_status simulate(const ps_cli_options *options, const ps_cli_side *side,
                          ps_machine *machine, ps_play *out)
{
    ps_plan_options plan = ps_cli_plan_options(options);
    plan.prefetch = side->prefetch;
    plan.comm_schedule = side->comm_schedule;
    return ps_simulate_file(options->model, &plan, machine, out);
}

static void print_header(const ps_machine *machine, uint32_t ranks)
{
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(machine, ranks, rates);
    (void)printf("# %s; L2 of %.1f MiB a core\n", rates, (double)machine->l2_bytes / (1 << 20));
    (void)printf(
        "| policy         | ms a step | work ms | waits ms | barriers ms | moved MB | vs first |\n"
        "| -------------- | --------: | ------: | -------: | ----------: | -------: | -------: "
        "|\n");
}

static void print_row(const char *policy, const ps_play *play, const ps_play *first)
{
    (void)printf("| %-14s | %9.3f | %7.3f | %8.3f | %11.3f | %8.2f | %8.3f |\n", policy,
                 play->total_ns / 1e6, play->work_ns / 1e6, play->wait_ns / 1e6,
                 play->barrier_ns / 1e6, play->moved_bytes / 1e6, first->total_ns / play->total_ns);
}

static void add_json(ps_json_writer *json, const char *policy, const ps_machine *machine,
                     const ps_play *play, const ps_play *first)
{
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "policy", policy);
    ps_json_text(json, "rates_source", machine->source);
    ps_json_number(json, "step_ns", play->total_ns);
    ps_json_number(json, "work_ns", play->work_ns);
    ps_json_number(json, "wait_ns", play->wait_ns);
    ps_json_number(json, "barrier_ns", play->barrier_ns);
    ps_json_number(json, "moved_bytes", play->moved_bytes);
    ps_json_number(json, "fillable_bytes", play->fillable_bytes);
    ps_json_number(json, "ratio", first->total_ns / play->total_ns);
    ps_json_end(json, '}');
}

static ps_status print_json(const ps_machine *machine, const ps_cli_side *sides,
                            const ps_play *plays, uint32_t count)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '[');
    for (uint32_t i = 0; i < count; i++) {
        add_json(&json, sides[i].name, machine, &plays[i], &plays[0]);
    }
    ps_json_end(&json, ']');
    return ps_json_print(&json);
}

ps_status ps_cli_simulate(const ps_cli_options *options)
{
    ps_cli_side sides[SIDES_MAX];
    ps_play plays[SIDES_MAX] = {0};
    uint32_t count = 0;
    ps_machine machine = {.threads = 0};
    PS_TRY(ps_cli_model_check(options));
    PS_TRY(ps_cli_sides_parse(options->compare == NULL ? "off,preserve,auto" : options->compare,
                              sides, SIDES_MAX, &count));
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(simulate(options, &sides[i], &machine, &plays[i]));
    }
    if (options->json) {
        return print_json(&machine, sides, plays, count);
    }
    print_header(&machine, options->ranks);
    for (uint32_t i = 0; i < count; i++) {
        print_row(sides[i].name, &plays[i], &plays[0]);
    }
    return PS_OK;
}
