// cli/cmd_experts_rank.c - `prestage experts rank`: hot sets of several sizes, and what they cover.
#include "base/log.h"
#include "cli/commands.h"
#include "cli/experts_input.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)
#define GIB 1073741824.0

// ---- the set

static int compare_sizes(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

// The sizes asked for, rising and each once.
static ps_status choose_sizes(const ps_cli_options *options, uint32_t keys, ps_cli_list *out)
{
    *out = options->set_sizes;
    for (uint32_t parts = 16; parts > 1 && options->set_sizes.count == 0; parts /= 2) {
        out->values[out->count++] = keys < parts ? 1 : keys / parts;
    }
    qsort(out->values, out->count, sizeof *out->values, compare_sizes);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        if (kept == 0 || out->values[i] != out->values[kept - 1]) {
            out->values[kept++] = out->values[i];
        }
    }
    out->count = kept;
    const uint32_t largest = out->values[kept - 1];
    return largest <= keys
               ? PS_OK
               : ps_fail(PS_INVALID, "--sizes %u: the model has %u experts", largest, keys);
}

// The hottest `size`, packed; NaN: not known.
static double gib_of(const ps_counts_file *file, const ps_hot_ranking *ranking, uint32_t size)
{
    double bytes = 0;
    for (uint32_t i = 0; i < size && i < ranking->count && file->expert_bytes != NULL; i++) {
        bytes += (double)file->expert_bytes[ranking->ranked[i] / file->header.experts];
    }
    return file->expert_bytes == NULL ? NAN : bytes / GIB;
}

static ps_status make_set(const ps_cli_options *options, ps_arena *arena, ps_hot_set *out)
{
    ps_counts_file file;
    ps_hot_ranking ranking;
    ps_cli_list sizes;
    PS_TRY(ps_cli_counts_read(options->model, arena, &file));
    PS_TRY(ps_cli_phases_check(options->model, &file.counts, options->phases));
    PS_TRY(ps_hot_ranking_make(&file.counts, options->phases, arena, &ranking));
    PS_TRY(choose_sizes(options, ranking.keys, &sizes));
    ps_cli_counts_describe(&file, options->phases, out);
    out->size_count = sizes.count;
    for (uint32_t i = 0; i < sizes.count; i++) {
        const uint32_t size = sizes.values[i];
        out->sizes[i] = (ps_hot_set_size){.experts = size,
                                          .gib = gib_of(&file, &ranking, size),
                                          .coverage = ps_hot_coverage(&ranking, size),
                                          .held_out = ps_hot_coverage_held_out(&ranking, size)};
    }
    const uint32_t largest = sizes.values[sizes.count - 1];
    out->count = ranking.count < largest ? ranking.count : largest;
    out->keys = ranking.ranked;
    out->uses = PS_ARENA_NEW(arena, uint64_t, out->count);
    if (out->uses == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->uses[i] = ranking.uses[out->keys[i]];
    }
    return PS_OK;
}

// ---- results

// What its numbers do not say.
static void warn(const ps_hot_set *set)
{
    const uint32_t largest = set->sizes[set->size_count - 1].experts;
    if (set->count < largest) {
        ps_log(PS_LOG_WARNING, "only %u experts were ever chosen: larger sets hold no more",
               set->count);
    }
    if (isnan(set->sizes[0].held_out)) {
        ps_log(PS_LOG_WARNING,
               "too few tokens to test a set on others than it was made of: from %u on there are "
               "two halves",
               PS_ROUTE_BLOCK_TOKENS + 1);
    }
}

static void print_share(double share)
{
    char cell[16] = "";
    if (!isnan(share)) {
        (void)snprintf(cell, sizeof cell, "%.1f %%", 100 * share);
    }
    (void)printf(" %8s |", cell);
}

static void print_table(const ps_cli_options *options, const ps_hot_set *set)
{
    (void)printf("| experts |  share |      GiB | coverage | held out |\n"
                 "| ------: | -----: | -------: | -------: | -------: |\n");
    for (uint32_t i = 0; i < set->size_count; i++) {
        const ps_hot_set_size *size = &set->sizes[i];
        (void)printf("| %7u | %4.1f %% |", size->experts,
                     100.0 * size->experts / ((double)set->layers * set->experts));
        char gib[16] = "";
        if (!isnan(size->gib)) {
            (void)snprintf(gib, sizeof gib, "%.3f", size->gib);
        }
        (void)printf(" %8s |", gib);
        print_share(size->coverage);
        print_share(size->held_out);
        (void)putchar('\n');
    }
    (void)printf("%s: %u experts ranked by %" PRIu64 " tokens of prompts and %" PRIu64
                 " generated (%s)\n",
                 options->output, set->count, set->prompt_tokens, set->decode_tokens, set->phases);
}

static ps_status print_json(const ps_cli_options *options, const ps_hot_set *set)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "file", options->output);
    ps_json_text(&json, "fingerprint", set->fingerprint);
    ps_json_text(&json, "phases", set->phases);
    ps_json_integer(&json, "prompt_tokens", (int64_t)set->prompt_tokens);
    ps_json_integer(&json, "decode_tokens", (int64_t)set->decode_tokens);
    ps_json_integer(&json, "ranked", set->count);
    ps_json_begin(&json, "sizes", '[');
    for (uint32_t i = 0; i < set->size_count; i++) {
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_integer(&json, "experts", set->sizes[i].experts);
        ps_json_number(&json, "gib", set->sizes[i].gib);
        ps_json_number(&json, "coverage", set->sizes[i].coverage);
        ps_json_number(&json, "held_out", set->sizes[i].held_out);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status write_set(const ps_cli_options *options, const ps_hot_set *set)
{
    ps_buffer text = {0};
    ps_status status = ps_hot_set_print(set, &text);
    if (status == PS_OK) {
        status = ps_new_file_write_all(options->output, text.data, text.length, options->force);
    }
    ps_buffer_deinit(&text);
    return status == PS_OK ? PS_OK : ps_file_name_error(options->output, status);
}

ps_status ps_cli_experts_rank(const ps_cli_options *options)
{
    ps_arena arena;
    ps_hot_set set = {.size_count = 0};
    if (options->model == NULL) {
        return ps_fail(PS_INVALID, "no file given; a counts file or a route log would be right");
    }
    if (options->output == NULL) {
        return ps_fail(PS_INVALID, "no file to write; -o FILE.json would be right");
    }
    PS_TRY(ps_cli_output_check(options));
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = make_set(options, &arena, &set);
    if (status == PS_OK) {
        status = write_set(options, &set);
    }
    if (status == PS_OK) {
        warn(&set);
        if (options->json) {
            status = print_json(options, &set);
        } else {
            print_table(options, &set);
        }
    }
    ps_arena_deinit(&arena);
    return status;
}
