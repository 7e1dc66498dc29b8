// engine/machine_file.h - a machine as JSON (docs/machines.md).
//
// An object of keys, each a value or {"value": 1600, "unit": "GB/s", "source": "...", "fitted":
// true}. What was measured has ps_machine_fields, what was described ps_profile_fields, too.
#ifndef PS_ENGINE_MACHINE_FILE_H
#define PS_ENGINE_MACHINE_FILE_H

#include "base/memory.h"
#include "engine/json_fields.h"
#include "hw/machine.h"

// All of a ps_machine but its profile.
extern const ps_json_field ps_machine_fields[];
extern const size_t ps_machine_field_count;

// The profile. Offsets are those in a ps_machine.
extern const ps_json_field ps_profile_fields[];
extern const size_t ps_profile_field_count;

// Both tables, one behind the other; NULL behind the last. A key ends in its unit.
#define PS_MACHINE_KEYS_MAX PS_JSON_FIELDS_MAX
const ps_json_field *ps_machine_key(size_t index);
const char *ps_machine_unit(const char *key); // "GB/s", "ns"; "": none

// Where a value is from.
typedef struct ps_machine_note {
    bool is_given;      // otherwise it is what nobody has said
    bool is_fitted;     // to what somebody has measured, or assumed
    const char *source; // NULL: not said
} ps_machine_note;

typedef struct ps_machine_notes {
    const char *what; // the machine is, in words; "": not said
    ps_machine_note of[PS_MACHINE_KEYS_MAX];
} ps_machine_notes;

// Reads an object of any of these keys and "what"; what it leaves out stays as *notes and *machine
// have it. Texts of notes are from the arena.
//
// PS_INVALID       no such object, an unknown key, a number out of range; the message names the
//                  right one
// PS_EXHAUSTED     the arena
PS_MUST_USE ps_status ps_machine_read(const json_t *object, ps_arena *arena,
                                      ps_machine_notes *notes, ps_machine *machine);

// Whether all rates that plans need are given, and nothing contradicts itself. PS_INVALID: the
// message names the key.
PS_MUST_USE ps_status ps_machine_check(const ps_machine *machine, const ps_machine_notes *notes);

// The same of a machine that is right but for numbers that were changed one by one, each in its
// range: whether one of them says nothing without another. 0 stands for what is not given.
PS_MUST_USE ps_status ps_machine_check_changed(const ps_machine *machine);

// Whether the rates are such that plans can be made with them; PS_INVALID names the one that is
// not.
PS_MUST_USE ps_status ps_machine_check_rates(const ps_machine *machine);

#endif
