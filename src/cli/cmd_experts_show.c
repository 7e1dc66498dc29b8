// cli/cmd_experts_show.c - `prestage experts show`: which experts are used, as text and picture.
#include "cli/commands.h"
#include "cli/experts_input.h"
#include "cli/heatmap.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)4 << 30)
#define WIDTH_DEFAULT 80u

// ---- what is shown

static ps_status make_title(const char *path, const ps_hot_set *about, ps_arena *arena,
                            ps_heatmap *out)
{
    const char *comma = about->model[0] != '\0' ? ", " : "";
    out->title = ps_arena_printf(
        arena,
        "%s: %s%s%s%sfingerprint %s, %u of %u experts in %u layers, %" PRIu64
        " tokens of prompts and %" PRIu64 " generated, %s shown",
        path, about->model, comma, about->quantisation, comma, about->fingerprint, about->top_k,
        about->experts, about->layers, about->prompt_tokens, about->decode_tokens, about->phases);
    return out->title == NULL ? PS_NO_MEMORY : PS_OK;
}

static double even_share(const ps_hot_set *about)
{
    const bool is_all = strcmp(about->phases, "all") == 0;
    double tokens = 0;
    tokens += is_all || strcmp(about->phases, "prompt") == 0 ? (double)about->prompt_tokens : 0;
    tokens += is_all || strcmp(about->phases, "decode") == 0 ? (double)about->decode_tokens : 0;
    return tokens * about->top_k / about->experts;
}

static ps_status measure_spread(ps_heatmap *map, ps_arena *arena)
{
    uint64_t *scratch = PS_ARENA_NEW(arena, uint64_t, map->experts);
    map->entropy = PS_ARENA_NEW(arena, double, map->layers);
    map->gini = PS_ARENA_NEW(arena, double, map->layers);
    if (scratch == NULL || map->entropy == NULL || map->gini == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t l = 0; l < map->layers; l++) {
        const uint64_t *uses = map->uses + (uint64_t)l * map->experts;
        map->entropy[l] = ps_uses_entropy(uses, map->experts);
        map->gini[l] = ps_uses_gini(uses, map->experts, scratch);
    }
    return PS_OK;
}

static void add_points(const ps_hot_ranking *ranking, ps_heatmap *map)
{
    static const double SHARES[] = {0.02, 0.05, 0.1, 0.163, 0.25, 0.34, 0.5, 0.65, 0.8, 1};
    for (size_t i = 0; i < sizeof SHARES / sizeof SHARES[0]; i++) {
        const uint32_t size = (uint32_t)(SHARES[i] * ranking->keys + 0.5);
        if (size > 0 &&
            (map->point_count == 0 || size > map->points[map->point_count - 1].experts)) {
            map->points[map->point_count++] = (ps_coverage_point){
                .experts = size,
                .coverage = ps_hot_coverage(ranking, size),
                .held_out = ps_hot_coverage_held_out(ranking, size)};
        }
    }
}

static ps_status show_counts(const ps_cli_options *options, ps_arena *arena, ps_heatmap *out)
{
    ps_counts_file file;
    ps_hot_ranking ranking;
    ps_hot_set about;
    PS_TRY(ps_cli_counts_read(options->model, arena, &file));
    PS_TRY(ps_cli_phases_check(options->model, &file.counts, options->phases));
    PS_TRY(ps_hot_ranking_make(&file.counts, options->phases, arena, &ranking));
    ps_cli_counts_describe(&file, options->phases, &about);
    *out = (ps_heatmap){.layers = about.layers,
                        .experts = about.experts,
                        .uses = ranking.uses,
                        .even = even_share(&about),
                        .is_whole = true};
    add_points(&ranking, out);
    PS_TRY(measure_spread(out, arena));
    return make_title(options->model, &about, arena, out);
}

static ps_status show_hot_set(const ps_cli_options *options, ps_arena *arena, ps_heatmap *out)
{
    ps_hot_set set;
    PS_TRY(ps_hot_set_load(options->model, arena, &set));
    if (options->phases != PS_CLI_PHASES_ALL) {
        return ps_fail(PS_INVALID, "%s: --phase is for counts; this is a hot set of phase '%s'",
                       options->model, set.phases);
    }
    uint64_t *uses = PS_ARENA_NEW(arena, uint64_t, (uint64_t)set.layers * set.experts);
    if (uses == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < set.count; i++) {
        uses[set.keys[i]] = set.uses[i];
    }
    const double even = even_share(&set);
    *out = (ps_heatmap){.layers = set.layers,
                        .experts = set.experts,
                        .uses = uses,
                        .even = even > 0 ? even : 1,
                        .point_count = set.size_count};
    for (uint32_t i = 0; i < set.size_count; i++) {
        out->points[i] = (ps_coverage_point){.experts = set.sizes[i].experts,
                                             .coverage = set.sizes[i].coverage,
                                             .held_out = set.sizes[i].held_out};
    }
    return make_title(options->model, &set, arena, out);
}

// ---- how it is shown

static ps_status print_json(const ps_heatmap *map)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "title", map->title);
    ps_json_integer(&json, "experts", map->experts);
    ps_json_begin(&json, "layers", '[');
    for (uint32_t l = 0; l < map->layers; l++) {
        uint32_t used = 0;
        for (uint32_t e = 0; e < map->experts; e++) {
            used += map->uses[(uint64_t)l * map->experts + e] > 0;
        }
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_integer(&json, "layer", l);
        ps_json_integer(&json, "used", used);
        ps_json_number(&json, "entropy", map->is_whole ? map->entropy[l] : NAN);
        ps_json_number(&json, "gini", map->is_whole ? map->gini[l] : NAN);
        ps_json_begin_inline(&json, "uses", '[');
        for (uint32_t e = 0; e < map->experts; e++) {
            ps_json_integer(&json, NULL, (int64_t)map->uses[(uint64_t)l * map->experts + e]);
        }
        ps_json_end(&json, ']');
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_begin(&json, "coverage", '[');
    for (uint32_t i = 0; i < map->point_count; i++) {
        ps_json_begin_inline(&json, NULL, '{');
        ps_json_integer(&json, "experts", map->points[i].experts);
        ps_json_number(&json, "coverage", map->points[i].coverage);
        ps_json_number(&json, "held_out", map->points[i].held_out);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status write_svg(const char *path, const ps_heatmap *map)
{
    ps_buffer text = {0};
    const ps_status status = ps_heatmap_svg(map, &text);
    return ps_cli_write_made(path, status, &text);
}

// Of the terminal on stdout.
static uint32_t terminal_width(void)
{
    struct winsize size = {0};
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : WIDTH_DEFAULT;
}

ps_status ps_cli_experts_show(const ps_cli_options *options)
{
    ps_arena arena;
    ps_heatmap map;
    if (options->model == NULL) {
        return ps_fail(PS_INVALID,
                       "no file given; a counts file, a route log or a hot set would be right");
    }
    ps_cli_input_kind kind = PS_CLI_COUNTS;
    PS_TRY(ps_cli_input_kind_of(options->model, &kind));
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = kind == PS_CLI_HOT_SET ? show_hot_set(options, &arena, &map)
                                              : show_counts(options, &arena, &map);
    if (status == PS_OK && options->svg != NULL) {
        status = write_svg(options->svg, &map);
    }
    if (status == PS_OK && options->json) {
        status = print_json(&map);
    } else if (status == PS_OK) {
        ps_heatmap_text(&map, terminal_width(), stdout);
    }
    ps_arena_deinit(&arena);
    return status;
}
