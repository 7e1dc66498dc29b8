// cli/explore_search.c - see explore_search.h. Points are places in a cube: 0..1 along each range.
#include "cli/explore_search.h"

#include "base/hash.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE_FIRST 0.25
#define STRIDE_LAST 1e-6

typedef struct place {
    double at[PS_EXPLORE_RANGES_MAX];
} place;

typedef struct search {
    const ps_explore_spec *spec;
    const ps_explore_fields *fields;
    uint32_t row;
    ps_explore_play_function play;
    void *context;
    ps_result_cell *cells; // of the best; [columns.count]
    ps_result_cell *trial; // of the one that is played
    uint32_t left;         // points
    bool has_failed;       // any of them
    place best;
    bool has_best;
} search;

// The field's value at a place along its range.
static double value_at(const ps_explore_range *range, bool is_whole, double at)
{
    const double value = range->is_log ? range->from * pow(range->to / range->from, at)
                                       : range->from + at * (range->to - range->from);
    const double inside = fmin(fmax(is_whole ? nearbyint(value) : value, range->from), range->to);
    return inside;
}

static ps_explore_value make_value(const ps_explore_field *field, double number)
{
    ps_explore_value value = {.cell = {.number = number}};
    if (field->json.kind == PS_JSON_F64) {
        memcpy(&value.raw, &number, sizeof number);
    } else if (field->json.kind == PS_JSON_U64) {
        value.raw = (uint64_t)number;
    } else {
        const uint32_t whole = (uint32_t)number;
        memcpy(&value.raw, &whole, sizeof whole);
    }
    return value;
}

static bool is_better(const search *s)
{
    const ps_explore_search *spec = &s->spec->search;
    const double trial = s->trial[spec->column].number;
    const double best = s->cells[spec->column].number;
    if (isnan(trial) || !ps_explore_where_holds(s->spec->columns, &spec->where, s->trial)) {
        return false;
    }
    return !s->has_best || (spec->is_least ? trial < best : trial > best);
}

// Plays a place unless its values are those of the best.
static ps_status try_place(search *s, const place *p)
{
    const ps_explore_search *spec = &s->spec->search;
    ps_explore_setting settings[PS_EXPLORE_RANGES_MAX];
    ps_result_cell *chosen = s->trial + s->spec->search_first;
    bool is_new = !s->has_best;
    memcpy(s->trial, s->cells, s->spec->columns.count * sizeof *s->trial);
    for (uint32_t i = 0; i < spec->range_count; i++) {
        const ps_explore_field *field = &s->fields->all[spec->ranges[i].field];
        const double number = value_at(&spec->ranges[i], ps_explore_field_is_whole(field),
                                       p->at[i]);
        is_new = is_new || number != chosen[i].number;
        settings[i] = (ps_explore_setting){spec->ranges[i].field, make_value(field, number)};
        chosen[i].number = number;
    }
    if (!is_new) {
        return PS_OK;
    }
    s->left--;
    const ps_explore_settings extra = {settings, spec->range_count};
    const ps_status status = s->play(s->context, s->row, &extra, s->trial);
    if (status == PS_UNSUPPORTED || status == PS_INVALID) { // nobody has asked for this one
        s->has_failed = true;
        return PS_OK;
    }
    PS_TRY(status);
    if (is_better(s)) {
        memcpy(s->cells, s->trial, s->spec->columns.count * sizeof *s->trial);
        s->best = *p;
        s->has_best = true;
    }
    return PS_OK;
}

static ps_status sample(search *s)
{
    const ps_explore_search *spec = &s->spec->search;
    const uint64_t key[2] = {spec->seed, s->row};
    ps_rng rng = ps_rng_seed(ps_hash(key, sizeof key, 0));
    const uint32_t samples = spec->points / 2;
    for (uint32_t i = 0; i < samples; i++) {
        place p = {{0}};
        for (uint32_t j = 0; j < spec->range_count; j++) {
            p.at[j] = ps_rng_double(&rng);
        }
        PS_TRY(try_place(s, &p));
    }
    return PS_OK;
}

static ps_status narrow(search *s)
{
    for (double stride = STRIDE_FIRST; s->left > 0 && stride > STRIDE_LAST;) {
        const double before = s->cells[s->spec->search.column].number;
        for (uint32_t i = 0; i < 2 * s->spec->search.range_count && s->left > 0; i++) {
            place p = s->best;
            double *at = &p.at[i / 2];
            *at = fmin(fmax(*at + (i % 2 == 0 ? stride : -stride), 0), 1);
            PS_TRY(try_place(s, &p));
        }
        stride = s->cells[s->spec->search.column].number == before ? stride / 2 : stride;
    }
    return PS_OK;
}

static ps_status find(search *s)
{
    PS_TRY(sample(s));
    return s->has_best ? narrow(s)
                       : ps_fail(PS_UNSUPPORTED,
                                 "none of %u samples of the search can be, or is as its \"where\" "
                                 "says%s%s",
                                 s->spec->search.points / 2, s->has_failed ? "; of one, " : "",
                                 s->has_failed ? ps_error_message() : "");
}

ps_status ps_explore_search_row(const ps_explore_spec *spec, const ps_explore_fields *fields,
                                uint32_t row, ps_explore_play_function play, void *context,
                                ps_result_cell *cells)
{
    search s = {.spec = spec,
                .fields = fields,
                .row = row,
                .play = play,
                .context = context,
                .cells = cells,
                .trial = malloc(spec->columns.count * sizeof *cells),
                .left = spec->search.points};
    if (s.trial == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a row");
    }
    const ps_status status = find(&s);
    free(s.trial);
    return status;
}
