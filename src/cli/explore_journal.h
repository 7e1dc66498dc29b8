// cli/explore_journal.h - results on the disk as they come, so that a run can be continued.
//
// A file of lines, each a JSON value. The first one says what it is of: a key that differs with
// anything that results depend on. The others are rows: [spec, row, [number or null, ...]] or
// [spec, row, "error"]. A last line without its end is that of a run that was killed, and dropped.
#ifndef PS_CLI_EXPLORE_JOURNAL_H
#define PS_CLI_EXPLORE_JOURNAL_H

#include "cli/json_reader.h"
#include "cli/result_table.h"

#include "base/memory.h"

#include <stdio.h>

typedef struct ps_explore_journal {
    const char *path; // borrowed
    FILE *file;
} ps_explore_journal;

// Starts a new one in place of any that is there. PS_INVALID: another run is writing it. PS_IO: the
// system refuses.
PS_MUST_USE ps_status ps_explore_journal_create(const char *path, uint64_t key,
                                                ps_explore_journal *out);

// Who is told of each row that is in a journal. cells [count]: numbers, and where `error` is not
// NULL nothing else. PS_INVALID: there is no such row.
typedef struct ps_explore_journal_reader {
    void *context;
    ps_status (*take)(void *context, uint32_t spec, uint32_t row, const json_t *numbers,
                      const char *error);
} ps_explore_journal_reader;

// Reads one that is there, hands its rows over, and goes on behind them.
//
// PS_NOT_FOUND  there is none
// PS_INVALID    it is of something else, or is no journal; the message names the line; or another
//               run is writing it
// PS_IO
PS_MUST_USE ps_status ps_explore_journal_resume(const char *path, uint64_t key,
                                                const ps_explore_journal_reader *reader,
                                                ps_explore_journal *out);

// Appends a row: cells [count], the last one the error's text or NULL. PS_IO: the disk is full.
PS_MUST_USE ps_status ps_explore_journal_add(ps_explore_journal *journal, uint32_t spec,
                                             uint32_t row, const ps_result_cell *cells,
                                             uint32_t count);

// Closes it, and removes the file where all is done.
void ps_explore_journal_close(ps_explore_journal *journal, bool removes);

#endif
