// cli/expect_judge.c - reduces a table to the number that a paper states, and compares.
#include "cli/explore_expect.h"

#include "cli/explore_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 1e-9 // of bounds and tolerances that are met exactly
#define LISTED_MAX 6u // results that are shown one by one

typedef struct mark {
    double x, y;
} mark;

// A metric along x, or in the order of rows where there is no x.
typedef struct curve {
    mark *marks;
    uint32_t count;
} curve;

typedef struct judge {
    const ps_expectation *e;
    const ps_result_table *table;
    ps_arena *arena;
    mark *scratch; // [row_count]
} judge;

static const ps_result_cell *row_of(const judge *j, uint32_t row)
{
    return j->table->cells + (uint64_t)row * j->table->column_count;
}

static ps_explore_columns columns_of(const judge *j)
{
    return (ps_explore_columns){j->table->columns, j->table->column_count};
}

// ---- rows to a curve

static int compare_marks(const void *a, const void *b)
{
    const double left = ((const mark *)a)->x;
    const double right = ((const mark *)b)->x;
    return (left > right) - (left < right);
}

// Sorts by x and averages equal ones; an x with a number that is none goes.
static void average(curve *c)
{
    uint32_t kept = 0;
    qsort(c->marks, c->count, sizeof *c->marks, compare_marks);
    for (uint32_t first = 0; first < c->count;) {
        double sum = 0;
        uint32_t end = first;
        for (; end < c->count && c->marks[end].x == c->marks[first].x; end++) {
            sum += c->marks[end].y;
        }
        if (isfinite(sum)) {
            c->marks[kept++] = (mark){c->marks[first].x, sum / (end - first)};
        }
        first = end;
    }
    c->count = kept;
}

// per: the row whose value of `per` the others have to share.
static curve make_curve(const judge *j, uint32_t metric, uint32_t to, uint32_t per)
{
    const ps_expectation *e = j->e;
    curve c = {.marks = j->scratch};
    for (uint32_t row = 0; row < j->table->row_count; row++) {
        const ps_result_cell *cells = row_of(j, row);
        const bool is_same = e->per == PS_NO_COLUMN ||
                             ps_explore_cells_equal(j->table->columns[e->per].is_text,
                                                    cells[e->per], row_of(j, per)[e->per]);
        if (!is_same || !ps_explore_where_holds(columns_of(j), &e->where, cells)) {
            continue;
        }
        const double y = to == PS_NO_COLUMN ? cells[metric].number
                                            : cells[metric].number / cells[to].number;
        const double x = e->x == PS_NO_COLUMN ? row : cells[e->x].number;
        if (!isnan(x) && (e->x != PS_NO_COLUMN || isfinite(y) || e->of == PS_EXPECT_VALUE)) {
            c.marks[c.count++] = (mark){x, y};
        }
    }
    if (e->x != PS_NO_COLUMN) {
        average(&c);
    }
    return c;
}

// ---- a curve to a number; NAN: there is none

static mark extreme(const curve *c, bool is_most)
{
    mark best = c->marks[0];
    for (uint32_t i = 1; i < c->count; i++) {
        if (is_most ? c->marks[i].y > best.y : c->marks[i].y < best.y) {
            best = c->marks[i];
        }
    }
    return best;
}

static double mean(const curve *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        sum += c->marks[i].y;
    }
    return sum / c->count;
}

static double saturated(const curve *c, double share)
{
    const double end = c->marks[c->count - 1].y;
    uint32_t first = c->count - 1;
    while (first > 0 && fabs(c->marks[first - 1].y - end) <= share * fabs(end)) {
        first--;
    }
    return c->marks[first].x;
}

static double crossing(const curve *c, double at)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->marks[i].y <= at) {
            return c->marks[i].x;
        }
    }
    return NAN;
}

// The least or largest rise between neighbours; with one mark there is none.
static mark rise(const curve *c, bool is_most)
{
    mark best = {NAN, NAN};
    for (uint32_t i = 1; i < c->count; i++) {
        const double y = c->marks[i].y / c->marks[i - 1].y - 1;
        if (isnan(best.y) || (is_most ? y > best.y : y < best.y)) {
            best = (mark){c->marks[i].x, y};
        }
    }
    return best;
}

static double reduce(const ps_expectation *e, const curve *c)
{
    if (c->count == 0) {
        return NAN;
    }
    switch (e->of) {
    case PS_EXPECT_VALUE:
        return c->count == 1 ? c->marks[0].y : NAN;
    case PS_EXPECT_MAX:
    case PS_EXPECT_RATIO_OF_MAX:
        return extreme(c, true).y;
    case PS_EXPECT_MIN:
        return extreme(c, false).y;
    case PS_EXPECT_MEAN:
        return mean(c);
    case PS_EXPECT_X_OF_MAX:
        return extreme(c, true).x;
    case PS_EXPECT_X_OF_MIN:
        return extreme(c, false).x;
    case PS_EXPECT_X_SATURATED:
        return saturated(c, e->share);
    case PS_EXPECT_X_CROSSES:
        return crossing(c, e->at);
    case PS_EXPECT_X_OF_DROP:
        return rise(c, false).x;
    case PS_EXPECT_CUT:
        return 1 - c->marks[c->count - 1].y / c->marks[0].y;
    case PS_EXPECT_GAIN:
        return c->marks[c->count - 1].y / c->marks[0].y - 1;
    case PS_EXPECT_RISE_MIN:
        return rise(c, false).y;
    case PS_EXPECT_RISE_MAX:
        return rise(c, true).y;
    default:
        return NAN;
    }
}

static double reduce_rows(const judge *j, uint32_t per, uint32_t *out_rows)
{
    const ps_expectation *e = j->e;
    const bool is_pair = e->of == PS_EXPECT_RATIO_OF_MAX;
    const curve c = make_curve(j, e->metric, is_pair ? PS_NO_COLUMN : e->to, per);
    const double number = reduce(e, &c);
    *out_rows = c.count;
    if (!is_pair) {
        return number;
    }
    const curve below = make_curve(j, e->to, PS_NO_COLUMN, per);
    return number / reduce(e, &below);
}

// ---- numbers to one verdict

// One row for each value of `per` among the chosen rows.
static ps_status find_per(const judge *j, uint32_t *rows, uint32_t *out_count)
{
    const uint32_t column = j->e->per;
    *out_count = 0;
    for (uint32_t row = 0; row < j->table->row_count; row++) {
        bool is_new = ps_explore_where_holds(columns_of(j), &j->e->where, row_of(j, row));
        for (uint32_t i = 0; i < *out_count && is_new; i++) {
            is_new = !ps_explore_cells_equal(j->table->columns[column].is_text,
                                             row_of(j, row)[column], row_of(j, rows[i])[column]);
        }
        if (is_new && *out_count == PS_EXPECT_PER_MAX) {
            return ps_fail(PS_INVALID, "expectation '%s': '%s' has more than %u values", j->e->what,
                           j->table->columns[column].name, PS_EXPECT_PER_MAX);
        }
        if (is_new) {
            rows[(*out_count)++] = row;
        }
    }
    return PS_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

// All numbers become one, but under `all`. A number that is none makes it none.
static void combine(ps_expect_then then, double *numbers, uint32_t *count)
{
    double sum = 0;
    for (uint32_t i = 0; i < *count; i++) {
        sum += numbers[i];
    }
    if (then == PS_EXPECT_THEN_ALL || *count == 0) {
        return;
    }
    const uint32_t middle = *count / 2;
    if (isnan(sum)) {
        numbers[0] = NAN;
    } else if (then == PS_EXPECT_THEN_MEAN) {
        numbers[0] = sum / *count;
    } else {
        qsort(numbers, *count, sizeof *numbers, compare_numbers);
        numbers[0] = then == PS_EXPECT_THEN_MIN   ? numbers[0]
                     : then == PS_EXPECT_THEN_MAX ? numbers[*count - 1]
                     : *count % 2 == 1            ? numbers[middle]
                                                  : (numbers[middle - 1] + numbers[middle]) / 2;
    }
    *count = 1;
}

// The place of the value of x that is nearest to a number, of all that the table has.
static double place_of(const judge *j, double number)
{
    curve c = {.marks = j->scratch};
    for (uint32_t row = 0; row < j->table->row_count; row++) {
        const double x = row_of(j, row)[j->e->x].number;
        if (isfinite(x)) {
            c.marks[c.count++] = (mark){x, 0};
        }
    }
    average(&c);
    uint32_t best = 0;
    for (uint32_t i = 1; i < c.count; i++) {
        if (fabs(c.marks[i].x - number) < fabs(c.marks[best].x - number)) {
            best = i;
        }
    }
    return best;
}

static bool is_within(const judge *j, double ours)
{
    const ps_expectation *e = j->e;
    if (isnan(ours)) {
        return false;
    }
    if (e->kind == PS_EXPECT_BOUNDS) {
        const double room = ROUNDING * fabs(ours);
        return !(ours < e->at_least - room) && !(ours > e->at_most + room);
    }
    for (uint32_t i = 0; i < e->paper_count; i++) {
        const double paper = e->paper[i];
        const double off = e->kind == PS_EXPECT_STEPS      ? place_of(j, ours) - place_of(j, paper)
                           : e->kind == PS_EXPECT_RELATIVE ? (ours - paper) / paper
                                                           : ours - paper;
        if (fabs(off) <= e->tolerance * (1 + ROUNDING) + ROUNDING * fabs(off)) {
            return true;
        }
    }
    return false;
}

// ---- texts

static const char *unit_of(const judge *j)
{
    const ps_expectation *e = j->e;
    if (e->of >= PS_EXPECT_X_OF_MAX && e->of <= PS_EXPECT_X_OF_DROP) {
        return j->table->columns[e->x].unit;
    }
    return e->of <= PS_EXPECT_MEAN && e->to == PS_NO_COLUMN ? j->table->columns[e->metric].unit
                                                            : "";
}

// Numbers with `word` between them; rows: whose value of `per` names each, NULL: nobody's. Of many
// the range.
static const char *print_numbers(const judge *j, const double *numbers, const uint32_t *rows,
                                 uint32_t count, const char *word)
{
    char text[PS_EXPLORE_NUMBER_BYTES];
    double sorted[PS_EXPECT_PER_MAX];
    ps_buffer all = {0};
    ps_status status = ps_buffer_append(&all, "", 0);
    if (count > LISTED_MAX) {
        memcpy(sorted, numbers, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_numbers);
        sorted[1] = sorted[count - 1];
        return print_numbers(j, sorted, NULL, 2, " to ");
    }
    for (uint32_t i = 0; i < count && status == PS_OK; i++) {
        const uint32_t per = j->e->per;
        const char *before = i == 0 ? "" : word;
        if (rows != NULL && j->table->columns[per].is_text) {
            status = ps_buffer_printf(&all, "%s%s ", before, row_of(j, rows[i])[per].text);
            before = "";
        }
        ps_explore_number_print(numbers[i], unit_of(j), text);
        status = status == PS_OK ? ps_buffer_printf(&all, "%s%s", before, text) : status;
    }
    const char *copy = status == PS_OK ? ps_arena_strndup(j->arena, all.data, all.length) : NULL;
    ps_buffer_deinit(&all);
    return copy;
}

static const char *print_tolerance(const judge *j)
{
    const ps_expectation *e = j->e;
    char least[PS_EXPLORE_NUMBER_BYTES];
    char most[PS_EXPLORE_NUMBER_BYTES];
    switch (e->kind) {
    case PS_EXPECT_RELATIVE:
        return ps_arena_printf(j->arena, "%.3g %%", 100 * e->tolerance);
    case PS_EXPECT_ABSOLUTE:
        ps_explore_number_print(e->tolerance, unit_of(j), most);
        return ps_arena_printf(j->arena, "%s", most);
    case PS_EXPECT_STEPS:
        return ps_arena_printf(j->arena, "%.3g step%s", e->tolerance, e->tolerance == 1 ? "" : "s");
    default:
        ps_explore_number_print(e->at_least, unit_of(j), least);
        ps_explore_number_print(e->at_most, unit_of(j), most);
        return isnan(e->at_least) && isnan(e->at_most) ? ""
               : isnan(e->at_most)  ? ps_arena_printf(j->arena, "at least %s", least)
               : isnan(e->at_least) ? ps_arena_printf(j->arena, "at most %s", most)
                                    : ps_arena_printf(j->arena, "%s to %s", least, most);
    }
}

// per: one row for each number.
static ps_status measure(const judge *j, double *numbers, uint32_t *per, uint32_t *count,
                         uint32_t *out_rows)
{
    *count = 1;
    *out_rows = 0;
    per[0] = 0;
    if (j->table->row_count == 0) {
        *count = 0;
        return PS_OK;
    }
    if (j->e->per != PS_NO_COLUMN) {
        PS_TRY(find_per(j, per, count));
    }
    for (uint32_t i = 0; i < *count; i++) {
        numbers[i] = reduce_rows(j, per[i], out_rows);
    }
    combine(j->e->then, numbers, count);
    return PS_OK;
}

// Why there is no number.
static const char *print_nothing(const judge *j, uint32_t rows)
{
    if (rows == 0) {
        return "no row has it";
    }
    return j->e->of == PS_EXPECT_VALUE && rows > 1
               ? ps_arena_printf(j->arena, "%u rows have it", rows)
           : j->e->of == PS_EXPECT_X_CROSSES ? "never"
                                             : "none";
}

ps_status ps_expectation_judge(const ps_expectation *expectation, const ps_result_table *table,
                               ps_arena *arena, ps_report_expectation *out, bool *out_is_bad)
{
    judge j = {expectation, table, arena, PS_ARENA_NEW(arena, mark, table->row_count)};
    double numbers[PS_EXPECT_PER_MAX];
    uint32_t per[PS_EXPECT_PER_MAX];
    uint32_t count = 0;
    uint32_t rows = 0;
    if (j.scratch == NULL) {
        return PS_NO_MEMORY;
    }
    const bool has_metric = expectation->metric != PS_NO_COLUMN;
    PS_TRY(has_metric ? measure(&j, numbers, per, &count, &rows) : PS_OK);
    bool is_met = count > 0;
    for (uint32_t i = 0; i < count; i++) {
        is_met = is_met && is_within(&j, numbers[i]);
    }
    const bool has_per = expectation->per != PS_NO_COLUMN &&
                         expectation->then == PS_EXPECT_THEN_ALL;
    const bool is_number = count > 0 && !(count == 1 && isnan(numbers[0]));
    *out = (ps_report_expectation){
        .what = expectation->what,
        .source = expectation->source,
        .paper = has_metric
                     ? print_numbers(&j, expectation->paper, NULL, expectation->paper_count, " or ")
                     : "",
        .ours = !has_metric ? ""
                : is_number ? print_numbers(&j, numbers, has_per ? per : NULL, count, ", ")
                            : print_nothing(&j, rows),
        .within = has_metric ? print_tolerance(&j) : "",
        .reason = expectation->why,
        .verdict = expectation->is_unknown ? PS_REPORT_UNKNOWN
                   : is_met                ? PS_REPORT_CONFIRMED
                                           : PS_REPORT_NOT_REPRODUCED};
    if (!expectation->is_unknown && expectation->not_reproduced != NULL) {
        out->reason = is_met ? "met: the remark that it is not reproduced is out of date"
                             : expectation->not_reproduced;
    }
    *out_is_bad = !expectation->is_unknown && !is_met && expectation->not_reproduced == NULL;
    return out->paper == NULL || out->ours == NULL || out->within == NULL ? PS_NO_MEMORY : PS_OK;
}
