// cli/explore_run.h - plays all points of a spec, on several threads.
//
// Results do not depend on the number of threads: every row is a function of the spec and its
// number alone. A point that cannot be, PS_UNSUPPORTED, becomes a row with an error and without
// numbers; any other failure ends the run, and the first row that failed is the one that is named.
#ifndef PS_CLI_EXPLORE_RUN_H
#define PS_CLI_EXPLORE_RUN_H

#include "cli/explore_journal.h"
#include "cli/explore_spec.h"

// Who plays points. Several threads call at once, each with an arena of its own, which is emptied
// afterwards. Fails as ps_design_point_play.
typedef struct ps_explore_player {
    void *context;
    ps_status (*play)(void *context, const ps_explore_point *point, ps_arena *arena,
                      ps_design_point *out);
} ps_explore_player;

// What is run. All is borrowed.
typedef struct ps_explore_job {
    const ps_explore_spec *spec;
    const ps_explore_fields *fields;
    const ps_machine *machines; // [fields->machines.count]
    ps_explore_player player;
    uint32_t threads;            // >= 1
    const volatile bool *cancel; // NULL: never
    ps_explore_journal *journal; // NULL: none
    uint32_t journal_spec;       // the number of this one in it
    const char *verb;            // of the bar on a terminal; NULL: no bar
} ps_explore_job;

typedef struct ps_explore_rows {
    ps_result_cell *cells; // [row_count][column_count]
    bool *is_done;         // [row_count]
    uint32_t row_count, column_count;
    ps_arena errors; // texts
    ps_names error_texts;
} ps_explore_rows;

// Memory for the rows of a spec, filled in as far as they are known before they are played. PS_OK,
// or nothing is to be freed.
PS_MUST_USE ps_status ps_explore_rows_make(const ps_explore_spec *spec, ps_explore_rows *out);
void ps_explore_rows_free(ps_explore_rows *rows);

// A row that cannot be; texts are copied.
PS_MUST_USE ps_status ps_explore_rows_set_error(ps_explore_rows *rows, uint32_t row,
                                                const char *text);

// Whether no row contradicts itself, as far as that can be seen before it is played; rows of a
// search are not looked at. PS_INVALID: as ps_design_check, with the row's values in front.
PS_MUST_USE ps_status ps_explore_rows_check(const ps_explore_job *job, const ps_explore_rows *rows);

// Plays all rows that are not done.
//
// PS_CANCELLED  *cancel became true; rows that were done are
// otherwise as the player fails, with the row's values in front of the message
PS_MUST_USE ps_status ps_explore_run(const ps_explore_job *job, ps_explore_rows *rows);

#endif
