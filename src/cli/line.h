// cli/line.h - lines typed on a terminal, with editing and a history that is kept.
//
// The history is $XDG_STATE_HOME/prestage/history, or ~/.local/state/prestage/history, the last
// PS_CLI_HISTORY_LINES lines, readable by the user alone. Where it cannot be read or written, there
// is none, and nothing is said.
#ifndef PS_CLI_LINE_H
#define PS_CLI_LINE_H

#include "base/memory.h"

#define PS_CLI_HISTORY_LINES 1000

typedef enum ps_cli_line_result {
    PS_CLI_LINE_TEXT,
    PS_CLI_LINE_END,         // Ctrl-D, or the terminal is gone
    PS_CLI_LINE_INTERRUPTED, // Ctrl-C: what was typed is dropped
} ps_cli_line_result;

typedef struct ps_cli_line_editor ps_cli_line_editor;

// stdin and stdout. PS_NO_MEMORY
PS_MUST_USE ps_status ps_cli_line_open(ps_cli_line_editor **out);
void ps_cli_line_close(ps_cli_line_editor *editor); // writes the history; NULL is allowed

// Reads a line into *out, replacing what it holds, without its newline. A line that ends in a
// backslash goes on with the next one. SIGINT has to raise the flag of cli/interrupt.h meanwhile;
// PS_CLI_LINE_INTERRUPTED takes it. PS_NO_MEMORY
PS_MUST_USE ps_status ps_cli_line_read(ps_cli_line_editor *editor, ps_buffer *out,
                                       ps_cli_line_result *out_result);

#endif
