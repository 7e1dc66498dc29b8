// engine/machine_file.h - a machine as JSON.
#ifndef PS_ENGINE_MACHINE_FILE_H
#define PS_ENGINE_MACHINE_FILE_H

#include "engine/json_fields.h"
#include "hw/machine.h"

// All of a ps_machine.
extern const ps_json_field ps_machine_fields[];
extern const size_t ps_machine_field_count;

// Reads numbers of a machine from a JSON object with any of the keys of ps_machine_fields (as in
// hw/machine.h; all that `prestage plan --json` prints as "machine"). What a file leaves out stays
// as *machine has it.
//
// PS_INVALID  no such object, an unknown key, a number out of range; the message names the
//             right one
PS_MUST_USE ps_status ps_machine_read(const json_t *object, ps_machine *machine);

// Whether the rates are such that plans can be made with them; PS_INVALID names the one that is
// not.
PS_MUST_USE ps_status ps_machine_check_rates(const ps_machine *machine);

#endif
