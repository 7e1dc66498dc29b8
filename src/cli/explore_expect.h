// cli/explore_expect.h - what a paper says, beside what a table of results holds.
//
// An expectation takes one number out of a table and judges it. Of the rows that `where` chooses it
// looks at one metric, or at its ratio to another one, and reduces them:
//
//     value         the one row's
//     max min mean  of all rows
//     x_of_max x_of_min   where along x it is so; of equals the first
//     x_saturated   the smallest x from which on all are within `share` of that of the largest x
//     x_crosses     the first x where it is `at` or below
//     x_of_drop     the x that it falls to most steeply, by ratios of neighbours
//     gain          that of the largest x / that of the smallest x - 1; cut: the same, negated
//     rise_min rise_max   the least and the largest relative rise from one x to the next
//     ratio_of_max  the largest of the metric / the largest of `to`
//
// With an x, rows of the same x are averaged before; an x with a row that has no number is left
// out. With `per` all of that is done for each value of that column, and `then` says what of them
// is judged.
#ifndef PS_CLI_EXPLORE_EXPECT_H
#define PS_CLI_EXPLORE_EXPECT_H

#include "cli/explore_report.h"
#include "cli/explore_where.h"

typedef enum ps_expect_of {
    PS_EXPECT_VALUE,
    PS_EXPECT_MAX,
    PS_EXPECT_MIN,
    PS_EXPECT_MEAN,
    PS_EXPECT_X_OF_MAX,
    PS_EXPECT_X_OF_MIN,
    PS_EXPECT_X_SATURATED,
    PS_EXPECT_X_CROSSES,
    PS_EXPECT_X_OF_DROP,
    PS_EXPECT_CUT,
    PS_EXPECT_GAIN,
    PS_EXPECT_RISE_MIN,
    PS_EXPECT_RISE_MAX,
    PS_EXPECT_RATIO_OF_MAX,
    PS_EXPECT_OF_COUNT,
} ps_expect_of;

typedef enum ps_expect_then {
    PS_EXPECT_THEN_ALL, // each of them has to be right
    PS_EXPECT_THEN_MEAN,
    PS_EXPECT_THEN_MIN,
    PS_EXPECT_THEN_MAX,
    PS_EXPECT_THEN_MEDIAN,
    PS_EXPECT_THEN_COUNT,
} ps_expect_then;

typedef enum ps_expect_tolerance {
    PS_EXPECT_BOUNDS, // at_least, at_most
    PS_EXPECT_RELATIVE,
    PS_EXPECT_ABSOLUTE,
    PS_EXPECT_STEPS, // of the values that x has in the table
} ps_expect_tolerance;

#define PS_EXPECT_PAPER_MAX 8u
#define PS_EXPECT_PER_MAX 64u // values of `per`
#define PS_NO_COLUMN UINT32_MAX

typedef struct ps_expectation {
    const char *what, *source, *why, *not_reproduced; // NULL but `what`: none
    double paper[PS_EXPECT_PAPER_MAX];                // any of them will do
    uint32_t paper_count;                             // 0: only bounds
    bool is_unknown;                                  // the paper's value is not known
    ps_expect_tolerance kind;
    double tolerance;
    double at_least, at_most;    // NAN: no bound
    uint32_t metric, to, x, per; // columns, or PS_NO_COLUMN
    ps_expect_of of;
    ps_expect_then then;
    double at, share;
    ps_explore_where where;
} ps_expectation;

// Reads one; texts are borrowed from `json`. PS_INVALID: the message has the path and what would be
// right.
PS_MUST_USE ps_status ps_expectation_read(const json_t *json, const char *path,
                                          ps_explore_columns columns, ps_arena *arena,
                                          ps_expectation *out);

// Judges it. Texts of *out live in the arena and in `expectation`. Out of date is a remark that it
// is not reproduced where it is; *out_is_bad: it is not met, and no remark says so.
PS_MUST_USE ps_status ps_expectation_judge(const ps_expectation *expectation,
                                           const ps_result_table *table, ps_arena *arena,
                                           ps_report_expectation *out, bool *out_is_bad);

#endif
