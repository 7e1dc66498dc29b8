// engine/machine_open.h - a machine by its name: one that is shipped, this one, or a file.
#ifndef PS_ENGINE_MACHINE_OPEN_H
#define PS_ENGINE_MACHINE_OPEN_H

#include "engine/machine_file.h"

#define PS_MACHINE_THIS "this"
#define PS_MACHINES_SHIPPED_MAX 64u

// What plans the machine is for.
typedef struct ps_machine_use {
    uint32_t threads; // of this machine; 0: as many as a rank has by default
    uint32_t ranks;   // 0: one
    const char *link; // that ranks are connected by (ps_ranks_options); NULL: the machine's own
    bool measure;     // this machine, where it has not been tuned; otherwise defaults do
} ps_machine_use;

// name: "this" or NULL, a file of data/machines without its ".json", or the path of a file: of
// `prestage tune`, or as docs/machines.md says. ps_machine.source says which, and of this machine
// whether it was tuned, measured now, or neither. Notes and the arena, which keeps their texts, may
// both be NULL.
//
// PS_NOT_FOUND   neither a machine nor a file; the message lists the machines
// PS_INVALID, PS_IO, PS_UNSUPPORTED  the file; or PS_INVALID: the link
PS_MUST_USE ps_status ps_machine_open(const char *name, const ps_machine_use *use, ps_arena *arena,
                                      ps_machine_notes *notes, ps_machine *out);

// The same of the text of a file.
PS_MUST_USE ps_status ps_machine_parse(ps_str text, const ps_machine_use *use, ps_arena *arena,
                                       ps_machine_notes *notes, ps_machine *out);

// Names of machines that are shipped, borrowed; false behind the last.
bool ps_machine_shipped(uint32_t index, ps_str *out);

#endif
