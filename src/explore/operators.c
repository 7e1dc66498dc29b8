// explore/operators.c - spans of the lane of operators, added up.
#include "explore/operators.h"

#include <stdio.h>

#define ROWS_MAX (PS_OP_COUNT * PS_SITE_COUNT + 2)

const char *ps_bound_name(ps_bound bound)
{
    static const char *const NAMES[PS_BOUND_COUNT] = {"memory", "cache",   "compute",
                                                      "fixed",  "experts", "wait"};
    return (unsigned)bound < PS_BOUND_COUNT ? NAMES[bound] : NULL;
}

double ps_operator_intensity(const ps_play_span *sum)
{
    return sum->words > 0 ? sum->ops / sum->words : 0;
}

double ps_operator_roof(const ps_play_span *sum)
{
    return sum->compute_ns > 0 ? ps_operator_intensity(sum) * sum->cold_ns / sum->compute_ns : 0;
}

static void add(ps_play_span *sum, const ps_play_span *span)
{
    sum->memory_bytes += span->memory_bytes;
    sum->cache_bytes += span->cache_bytes;
    sum->ops += span->ops;
    sum->words += span->words;
    sum->memory_ns += span->memory_ns;
    sum->cache_ns += span->cache_ns;
    sum->cold_ns += span->cold_ns;
    sum->compute_ns += span->compute_ns;
    sum->miss_ns += span->miss_ns;
    sum->fixed_ns += span->fixed_ns;
}

ps_play_span ps_operators_sum(const ps_operator_row *rows, uint32_t count, ps_operator_kind kind)
{
    ps_play_span sum = {.step = 0};
    for (uint32_t i = 0; i < count; i++) {
        const bool is_linear = rows[i].sum.words > 0 && rows[i].sum.compute_ns > 0 &&
                               !ps_op_attends(rows[i].op);
        if (kind == PS_OPERATORS_ALL || (kind == PS_OPERATORS_LINEAR && is_linear) ||
            (kind == PS_OPERATORS_ATTENTION && ps_op_attends(rows[i].op))) {
            add(&sum, &rows[i].sum);
        }
    }
    return sum;
}

static void name_row(ps_operator_row *row, ps_play_lane lane)
{
    if (lane != PS_LANE_COMPUTE) {
        (void)snprintf(row->name, sizeof row->name, "%s",
                       lane == PS_LANE_WAIT ? "waits" : "barriers");
        return;
    }
    const bool has_site = row->site != PS_SITE_NONE;
    (void)snprintf(row->name, sizeof row->name, "%s%s%s", ps_op_get(row->op)->name,
                   has_site ? " " : "", has_site ? ps_site_name(row->site) : "");
}

// What the sum of its times is most of.
static ps_bound bound_of(const ps_operator_row *row)
{
    const ps_play_span *s = &row->sum;
    const double reads = s->memory_ns + s->cache_ns;
    const double own = reads > s->compute_ns ? reads : s->compute_ns;
    if (row->op == PS_OP_COUNT) {
        return PS_BOUND_WAIT;
    }
    if (s->miss_ns > own && s->miss_ns > s->fixed_ns) {
        return PS_BOUND_EXPERTS;
    }
    if (s->fixed_ns > own) {
        return PS_BOUND_FIXED;
    }
    return s->compute_ns > reads         ? PS_BOUND_COMPUTE
           : s->cache_ns >= s->memory_ns ? PS_BOUND_CACHE
                                         : PS_BOUND_MEMORY;
}

// Where the rows are, by operator and site.
typedef struct table {
    ps_operator_row *rows;
    uint32_t count;
    uint32_t at[ROWS_MAX]; // 1-based; 0: not yet
} table;

static ps_operator_row *row_of(table *t, const ps_plan *plan, const ps_play_span *span)
{
    const ps_plan_step *step = &plan->steps[span->step];
    const bool is_operator = span->lane == PS_LANE_COMPUTE;
    const uint32_t key = is_operator ? (uint32_t)step->op * PS_SITE_COUNT + step->attributes.site
                                     : ROWS_MAX - (span->lane == PS_LANE_WAIT ? 2 : 1);
    if (t->at[key] == 0) {
        ps_operator_row *row = &t->rows[t->count];
        *row = (ps_operator_row){.op = is_operator ? step->op : PS_OP_COUNT,
                                 .site = is_operator ? (ps_site)step->attributes.site
                                                     : PS_SITE_NONE};
        name_row(row, span->lane);
        t->at[key] = ++t->count;
    }
    return &t->rows[t->at[key] - 1];
}

static void add_lanes(table *t, const ps_plan *plan, const ps_played *played, bool are_operators)
{
    for (uint32_t i = 0; i < played->span_count; i++) {
        const ps_play_span *span = &played->spans[i];
        const bool stands = span->lane == PS_LANE_WAIT || span->lane == PS_LANE_BARRIER;
        if (are_operators ? span->lane == PS_LANE_COMPUTE : stands) {
            ps_operator_row *row = row_of(t, plan, span);
            row->count++;
            row->ns += span->end_ns - span->begin_ns;
            add(&row->sum, span);
        }
    }
}

ps_status ps_operators_list(const ps_plan *plan, const ps_played *played, ps_arena *arena,
                            ps_operator_row **out_rows, uint32_t *out_count)
{
    table *t = PS_ARENA_NEW(arena, table, 1);
    ps_operator_row *rows = PS_ARENA_NEW(arena, ps_operator_row, ROWS_MAX);
    if (t == NULL || rows == NULL) {
        return PS_NO_MEMORY;
    }
    t->rows = rows;
    add_lanes(t, plan, played, true);
    add_lanes(t, plan, played, false);
    for (uint32_t i = 0; i < t->count; i++) {
        rows[i].bound = bound_of(&rows[i]);
    }
    *out_rows = rows;
    *out_count = t->count;
    return PS_OK;
}
