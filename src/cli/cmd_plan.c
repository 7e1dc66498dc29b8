// cli/cmd_plan.c - `prestage plan`: the plan of one step, as text, JSON or a graph; or a plan file;
// or a graph of somebody else with prefetches.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <inttypes.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)

static ps_status check_options(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    if (options->dot && (options->json || options->output != NULL)) {
        return ps_fail(PS_INVALID, "--dot and %s together; one of them would be right",
                       options->json ? "--json" : "-o");
    }
    return options->output == NULL ? PS_OK : ps_cli_output_check(options);
}

static ps_status write_file(const ps_cli_options *options, ps_str text)
{
    // From here on there is a temporary file to remove.
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_KEEPS);
    ps_cli_interrupt_add_terminate();
    ps_new_file file;
    ps_status status = ps_new_file_create(&file, options->output, options->force);
    if (status == PS_OK) {
        status = ps_new_file_finish(&file, ps_new_file_write(&file, text.data, text.length, 0));
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(options->output, status);
}

// What the file holds, of each rank the same.
static ps_status print_result(const ps_cli_options *options, const ps_plan_set *set)
{
    const ps_plan_key *key = &set->key;
    char fingerprint[20];
    char ranks[32] = "";
    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, key->fingerprint);
    if (key->ranks > 1) {
        (void)snprintf(ranks, sizeof ranks, ", for each of %u ranks", key->ranks);
    }
    if (!options->json) {
        (void)printf("%s: %u plans for %u thread%s of %s%s, fingerprint %s, layout %u\n",
                     options->output, set->plan_count, key->threads, key->threads == 1 ? "" : "s",
                     key->machine, ranks, fingerprint, key->layout);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "model", options->model);
    ps_json_text(&json, "file", options->output);
    ps_json_text(&json, "fingerprint", fingerprint);
    ps_json_integer(&json, "layout", key->layout);
    ps_json_text(&json, "machine", key->machine);
    ps_json_integer(&json, "threads", key->threads);
    ps_json_integer(&json, "ranks", key->ranks);
    ps_json_text(&json, "policy", key->policy);
    ps_json_text(&json, "schedule", key->schedule);
    ps_json_begin(&json, "plans", '[');
    for (uint32_t i = 0; i < set->plan_count; i++) {
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_integer(&json, "rows_max", set->plans[i]->rows_max);
        ps_json_integer(&json, "logits_max", set->plans[i]->logits_max);
        ps_json_integer(&json, "context_max", set->plans[i]->context_max);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_plans_write(const ps_cli_options *options, ps_str text,
                             ps_status (*then)(const ps_cli_options *options,
                                               const ps_plan_set *set))
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_plan_set *first = NULL;
    ps_status status = ps_plan_set_parse(text, 0, &arena, &first);
    for (uint32_t rank = 1; status == PS_OK && rank < first->key.ranks; rank++) {
        ps_plan_set *set = NULL;
        ps_arena other;
        ps_arena_init(&other, ARENA_BYTES);
        status = ps_plan_set_parse(text, rank, &other, &set);
        ps_arena_deinit(&other);
    }
    if (status == PS_OK) {
        status = write_file(options, text);
    }
    if (status == PS_OK && then != NULL) {
        status = then(options, first);
    }
    ps_arena_deinit(&arena);
    return status;
}

static void print_plan(ps_str text)
{
    (void)fwrite(text.data, 1, text.length, stdout);
    if (text.length > 0 && text.data[text.length - 1] != '\n') {
        (void)putchar('\n');
    }
}

// A graph that somebody wrote, and no model file.
static bool is_graph(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcmp(dot, ".txt") == 0 || strcmp(dot, ".graph") == 0);
}

static ps_plan_format format_of(const ps_cli_options *options)
{
    return options->output != NULL ? PS_PLAN_SESSION
           : options->json         ? PS_PLAN_JSON
           : options->dot          ? PS_PLAN_DOT
                                   : PS_PLAN_TEXT;
}

ps_status ps_cli_plan(const ps_cli_options *options)
{
    PS_TRY(check_options(options));
    if (is_graph(options->model) && (options->json || options->dot)) {
        return ps_fail(PS_INVALID,
                       "a graph has prefetches put in and stays a text; %s would not be right",
                       options->json ? "--json" : "--dot");
    }
    if (is_graph(options->model) && options->prefetch_threads > 0) {
        return ps_fail(PS_INVALID,
                       "a graph says nothing of threads; --prefetch-threads would not be right");
    }
    ps_plan_options plan_options = ps_cli_plan_options(options);
    plan_options.expert_bytes = options->expert_bytes;
    PS_TRY(ps_cli_memory_given(options, &plan_options.memory_bytes));
    char *text = NULL;
    size_t length = 0;
    ps_status status = PS_OK;
    if (is_graph(options->model)) {
        PS_TRY(ps_plan_graph(options->model, &plan_options, &text, &length));
        status = options->output == NULL ? PS_OK : write_file(options, (ps_str){text, length});
    } else {
        PS_TRY(ps_plan_file(options->model, &plan_options, format_of(options), &text, &length));
        status = options->output == NULL
                     ? PS_OK
                     : ps_cli_plans_write(options, (ps_str){text, length}, print_result);
    }
    if (options->output == NULL) {
        print_plan((ps_str){text, length});
    }
    ps_free(text);
    return status;
}
