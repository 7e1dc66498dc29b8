// cli/explore_fields.h - what a spec of `prestage explore` may set and vary, by name.
//
// One flat list: "model", "machine" (names, or paths), "machine.<key>" for each number of a machine
// (engine/machine_file.h), "workload.<key>" for each member of a workload (engine/design_point.h),
// and "workload.ratio.<site>" for the parts of weights that the policy ratio moves.
#ifndef PS_CLI_EXPLORE_FIELDS_H
#define PS_CLI_EXPLORE_FIELDS_H

#include "base/names.h"
#include "cli/json_reader.h"
#include "cli/result_table.h"
#include "engine/design_point.h"

typedef enum ps_explore_part {
    PS_EXPLORE_MACHINE_NAME,
    PS_EXPLORE_MODEL_NAME,
    PS_EXPLORE_MACHINE,  // a member of ps_machine
    PS_EXPLORE_WORKLOAD, // of ps_workload
} ps_explore_part;

typedef struct ps_explore_field {
    const char *name; // "workload.batch"
    const char *unit; // "bytes", "ns", "GB/s", ""
    ps_explore_part part;
    ps_json_field json; // of members
} ps_explore_field;

// All fields, and the names that fields of names have been given so far: those are numbered, and
// opened once for all specs. Memory comes from names' arenas.
typedef struct ps_explore_fields {
    ps_explore_field *all;
    const char **names; // [count]
    uint32_t count;
    ps_names machines, models;
} ps_explore_fields;

PS_MUST_USE ps_status ps_explore_fields_make(ps_arena *arena, ps_explore_fields *out);

// PS_INVALID: there is no such field; the message has the path and the nearest.
PS_MUST_USE ps_status ps_explore_field_find(const ps_explore_fields *fields, const char *path,
                                            const char *name, uint32_t *out);

// A value of a field: as users see it, and as the member's bytes (of names: the number).
typedef struct ps_explore_value {
    ps_result_cell cell;
    bool is_text;
    uint64_t raw;
} ps_explore_value;

// Reads a value; numbers of bytes may be texts with a unit ("192MiB"). PS_INVALID: it is none of
// this field; the message has the path and what would be right.
PS_MUST_USE ps_status ps_explore_value_read(ps_explore_fields *fields, uint32_t field,
                                            const char *path, const json_t *value,
                                            ps_explore_value *out);

// The same of a number; fields of whole numbers take one that is a rounding away from it.
PS_MUST_USE ps_status ps_explore_value_of(ps_explore_fields *fields, uint32_t field,
                                          const char *path, double number, ps_explore_value *out);
bool ps_explore_field_is_number(const ps_explore_field *field);
bool ps_explore_field_is_whole(const ps_explore_field *field);

// A point that is to be played.
typedef struct ps_explore_point {
    ps_machine machine;
    ps_workload workload;
    uint32_t machine_index, model_index; // of the names
} ps_explore_point;

// One sequence of 4096 tokens on one rank, without prefetching, serial sums; ratios as
// ps_prefetch_ratios_default.
ps_workload ps_explore_workload_default(void);

// Puts a value that was read, and whose part is neither machine's nor model's name, into a point.
void ps_explore_value_set(const ps_explore_field *field, const ps_explore_value *value,
                          ps_explore_point *point);

// Bytes of a JSON number, or of a text with a unit. PS_INVALID.
PS_MUST_USE ps_status ps_explore_bytes_read(const char *path, const json_t *value, double *out);

// A number as people read it: "136 MiB" of bytes, "1.25 ms" of ns, "1.61".
#define PS_EXPLORE_NUMBER_BYTES 40u
void ps_explore_number_print(double number, const char *unit, char out[PS_EXPLORE_NUMBER_BYTES]);

// A number as programs read it: whole if it is, otherwise to 7 digits; "" of none.
void ps_explore_number_write(double number, char out[PS_EXPLORE_NUMBER_BYTES]);

#endif
