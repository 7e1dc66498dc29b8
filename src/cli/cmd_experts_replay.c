// cli/cmd_experts_replay.c - `prestage experts replay`: what policies would have hit.
#include "cli/commands.h"
#include "cli/replay_report.h"
#include "cli/routes_source.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)
#define WORD_BYTES 24u

typedef struct request {
    ps_expert_policy_kind policies[PS_REPLAY_COLUMNS_MAX];
    uint32_t policy_count;
    uint32_t slots[PS_REPLAY_SIZES_MAX];
    uint32_t size_count;
} request;

// The next word of a list with commas, from *rest on; false behind the last. What is longer than a
// word can be is cut, and so no word of any list.
static bool next_word(const char **rest, char word[WORD_BYTES])
{
    if (*rest == NULL) {
        return false;
    }
    const size_t length = strcspn(*rest, ",");
    (void)snprintf(word, WORD_BYTES, "%.*s", length < WORD_BYTES ? (int)length : (int)WORD_BYTES,
                   *rest);
    *rest = (*rest)[length] == ',' ? *rest + length + 1 : NULL;
    return true;
}

static void add_policy(request *r, ps_expert_policy_kind kind)
{
    for (uint32_t i = 0; i < r->policy_count; i++) {
        if (r->policies[i] == kind) {
            return;
        }
    }
    r->policies[r->policy_count++] = kind;
}

static ps_status parse_policies(const char *text, request *r)
{
    char word[WORD_BYTES];
    for (const char *rest = text; next_word(&rest, word);) {
        const bool is_all = strcmp(word, "all") == 0;
        bool is_known = is_all;
        for (uint32_t kind = 0; kind <= PS_REPLAY_BELADY; kind++) {
            const bool is_it = strcmp(word, ps_replay_policy_name((ps_expert_policy_kind)kind)) ==
                               0;
            if (is_it || (is_all && kind != PS_REPLAY_BELADY)) {
                add_policy(r, (ps_expert_policy_kind)kind);
                is_known = true;
            }
        }
        if (!is_known) {
            return ps_fail(PS_INVALID,
                           "--policies '%s': auto, lru, lfu, hotset, heat, all and belady would be "
                           "right, with commas between them",
                           text);
        }
    }
    return PS_OK;
}

// "2000", or "16.3%" of `keys`. 0: neither.
static uint32_t parse_size(const char *word, uint32_t keys)
{
    char *end = NULL;
    const double value = strtod(word, &end);
    const bool is_number = end != word && word[strspn(word, "0123456789.%")] == '\0';
    const bool is_part = is_number && strcmp(end, "%") == 0;
    const double size = is_part ? value / 100 * keys : value;
    const bool is_good = is_number && (is_part || (*end == '\0' && value == floor(value)));
    return is_good && size <= keys ? (uint32_t)lround(size) : 0;
}

static ps_status parse_sizes(const char *text, const ps_routes_shape *shape, request *r)
{
    char word[WORD_BYTES];
    const uint32_t keys = shape->layers * shape->experts;
    for (const char *rest = text; next_word(&rest, word);) {
        const uint32_t size = parse_size(word, keys);
        if (size == 0 || r->size_count == PS_REPLAY_SIZES_MAX) {
            return ps_fail(PS_INVALID,
                           "--sizes '%s': up to %u numbers from %u to %u, or parts as in 16.3%%, "
                           "with commas between them would be right",
                           text, PS_REPLAY_SIZES_MAX, 2 * shape->top_k, keys);
        }
        r->slots[r->size_count++] = size;
    }
    return PS_OK;
}

static ps_status choose_learn_steps(const ps_cli_routes *routes, const ps_expert_calls *calls,
                                    uint64_t *out)
{
    if (routes->learn >= 0) {
        *out = (uint64_t)routes->learn;
        return PS_OK;
    }
    uint64_t steps = 0;
    PS_TRY(ps_replay_count_steps(calls, &steps));
    *out = steps / 2;
    return PS_OK;
}

static ps_status write_svg(const char *path, const ps_replay_report *report)
{
    ps_buffer text = {0};
    const ps_status status = ps_replay_report_svg(report, &text);
    return ps_cli_write_made(path, status, &text);
}

static ps_status play(const ps_cli_options *options, const ps_cli_routes_source *source,
                      ps_arena *arena)
{
    request r = {0};
    const ps_cli_routes *routes = &options->routes;
    PS_TRY(parse_policies(routes->policies, &r));
    PS_TRY(parse_sizes(routes->sizes, &source->calls.shape, &r));
    ps_replay_report report = {.source = source->synth != NULL ? routes->synth : options->model,
                               .shape = source->calls.shape,
                               .options = {.policies = r.policies,
                                           .policy_count = r.policy_count,
                                           .slots = r.slots,
                                           .size_count = r.size_count},
                               .expert_bytes = routes->expert_bytes};
    PS_TRY(choose_learn_steps(routes, &source->calls, &report.options.learn_steps));
    PS_TRY(ps_replay(&source->calls, &report.options, arena, &report.result));
    if (options->svg != NULL) {
        PS_TRY(write_svg(options->svg, &report));
    }
    if (options->json) {
        return ps_replay_report_json(&report);
    }
    ps_replay_report_print(&report);
    return PS_OK;
}

ps_status ps_cli_experts_replay(const ps_cli_options *options)
{
    const ps_cli_routes *routes = &options->routes;
    ps_cli_routes_source source;
    if ((options->model == NULL) == (routes->synth == NULL)) {
        return ps_fail(PS_INVALID, "a route log or --synth NAME would be right, %s",
                       routes->synth == NULL ? "and neither is given" : "and not both");
    }
    if (options->svg != NULL) {
        const ps_status status = ps_new_file_check(options->svg, true);
        if (status != PS_OK) {
            return ps_file_name_error(options->svg, status);
        }
    }
    PS_TRY(routes->synth != NULL ? ps_cli_routes_make(routes->synth, routes, &source)
                                 : ps_cli_routes_read(options->model, routes, &source));
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = play(options, &source, &arena);
    ps_arena_deinit(&arena);
    ps_cli_routes_close(&source);
    return status;
}
