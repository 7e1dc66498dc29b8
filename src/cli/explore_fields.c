// cli/explore_fields.c - tables of members become one list of names.
#include "cli/explore_fields.h"

#include "base/scan.h"
#include "cli/options.h"
#include "engine/machine_file.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WHOLE_MAX 0x1p53 // whole numbers up to here are exact
#define ROUNDING 1e-9

#define RATIO(key, site)                                                                           \
    {                                                                                              \
        "ratio." key, PS_JSON_F64, offsetof(ps_workload, ratios.ratio[site]), 0, 1                 \
    }

// Named as in vLLM's weight_prefetch_config.
static const ps_json_field RATIO_FIELDS[] = {
    RATIO("attn.qkv", PS_RATIO_ATTN_QKV),
    RATIO("attn.o", PS_RATIO_ATTN_O),
    RATIO("mlp.gate_up", PS_RATIO_MLP_GATE_UP),
    RATIO("mlp.down", PS_RATIO_MLP_DOWN),
    RATIO("moe.gate_up", PS_RATIO_MOE_GATE_UP),
    {"max_prefetch_bytes", PS_JSON_U64, offsetof(ps_workload, ratios.max_bytes), 0, 0x1p50},
};
#define RATIO_FIELD_COUNT (sizeof RATIO_FIELDS / sizeof RATIO_FIELDS[0])

// ---- the list

static ps_status add(ps_explore_fields *fields, ps_explore_field field)
{
    if (field.name == NULL) {
        return PS_NO_MEMORY;
    }
    fields->names[fields->count] = field.name;
    fields->all[fields->count++] = field;
    return PS_OK;
}

// Texts of a machine say where it is from: they change nothing.
static ps_status add_member(ps_explore_fields *fields, ps_arena *arena, const char *prefix,
                            ps_explore_part part, const ps_json_field *member)
{
    return member->kind == PS_JSON_TEXT
               ? PS_OK
               : add(fields,
                     (ps_explore_field){ps_arena_printf(arena, "%s.%s", prefix, member->key),
                                        ps_machine_unit(member->key), part, *member});
}

ps_status ps_explore_fields_make(ps_arena *arena, ps_explore_fields *out)
{
    const size_t most = 2 + PS_MACHINE_KEYS_MAX + ps_workload_field_count + RATIO_FIELD_COUNT;
    const ps_json_field *member;
    *out = (ps_explore_fields){.all = PS_ARENA_NEW(arena, ps_explore_field, most),
                               .names = PS_ARENA_NEW(arena, const char *, most),
                               .machines = {.arena = arena},
                               .models = {.arena = arena}};
    if (out->all == NULL || out->names == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(add(out, (ps_explore_field){"machine", "", PS_EXPLORE_MACHINE_NAME, {0}}));
    PS_TRY(add(out, (ps_explore_field){"model", "", PS_EXPLORE_MODEL_NAME, {0}}));
    for (size_t i = 0; (member = ps_machine_key(i)) != NULL; i++) {
        PS_TRY(add_member(out, arena, "machine", PS_EXPLORE_MACHINE, member));
    }
    for (size_t i = 0; i < ps_workload_field_count; i++) {
        PS_TRY(add_member(out, arena, "workload", PS_EXPLORE_WORKLOAD, &ps_workload_fields[i]));
    }
    for (size_t i = 0; i < RATIO_FIELD_COUNT; i++) {
        PS_TRY(add_member(out, arena, "workload", PS_EXPLORE_WORKLOAD, &RATIO_FIELDS[i]));
    }
    return PS_OK;
}

// What is meant by a member's name alone ("batch"), or the nearest.
static const char *suggest(const ps_explore_fields *fields, const char *name)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        const char *dot = strchr(fields->names[i], '.');
        if (dot != NULL && strcmp(dot + 1, name) == 0) {
            return fields->names[i];
        }
    }
    return ps_nearest(ps_str_of(name), fields->names, fields->count);
}

ps_status ps_explore_field_find(const ps_explore_fields *fields, const char *path, const char *name,
                                uint32_t *out)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        if (strcmp(fields->names[i], name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s: there is no field '%s'; the nearest is '%s'", path, name,
                   suggest(fields, name));
}

bool ps_explore_field_is_number(const ps_explore_field *field)
{
    const bool is_member = field->part == PS_EXPLORE_MACHINE || field->part == PS_EXPLORE_WORKLOAD;
    return is_member && (field->json.kind == PS_JSON_U32 || field->json.kind == PS_JSON_U64 ||
                         field->json.kind == PS_JSON_F64);
}

bool ps_explore_field_is_whole(const ps_explore_field *field)
{
    return ps_explore_field_is_number(field) && field->json.kind != PS_JSON_F64;
}

// ---- values

// A path or a shipped name; equal ones have one number.
static ps_status read_name(ps_names *names, const char *path, const json_t *value,
                           ps_explore_value *out)
{
    const char *text = json_string_value(value);
    if (text == NULL) {
        return ps_fail(PS_INVALID, "%s: a text, a name or a path, would be right", path);
    }
    uint32_t number = ps_names_find(names, ps_str_of(text));
    if (number == PS_NO_NAME) {
        const ps_status status = ps_names_add(names, ps_str_of(text));
        if (status != PS_OK) {
            return ps_fail_prefix(status, "%s", path);
        }
        number = names->count - 1;
    }
    *out = (ps_explore_value){
        .cell = {.text = names->names[number]}, .is_text = true, .raw = number};
    return PS_OK;
}

static size_t member_bytes(ps_json_kind kind)
{
    switch (kind) {
    case PS_JSON_BOOL:
        return sizeof(bool);
    case PS_JSON_U64:
    case PS_JSON_F64:
        return sizeof(uint64_t);
    default:
        return sizeof(uint32_t);
    }
}

// By the one reader of members.
static ps_status read_member(const ps_explore_field *field, const char *path, const json_t *value,
                             ps_explore_value *out)
{
    union {
        ps_machine machine;
        ps_workload workload;
    } scratch;
    memset(&scratch, 0, sizeof scratch);
    const ps_status status = ps_json_value_read(&field->json, value, &scratch);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "%s", path);
    }
    *out = (ps_explore_value){.is_text = json_is_string(value)};
    memcpy(&out->raw, (const char *)&scratch + field->json.offset, member_bytes(field->json.kind));
    if (out->is_text) {
        out->cell.text = ps_json_value_name(&field->json, &scratch);
    } else {
        out->cell.number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    }
    return PS_OK;
}

ps_status ps_explore_bytes_read(const char *path, const json_t *value, double *out)
{
    uint64_t bytes;
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return PS_OK;
    }
    if (!json_is_string(value)) {
        return ps_fail(PS_INVALID, "%s: a number, or a size such as \"8MiB\", would be right",
                       path);
    }
    PS_TRY(ps_cli_parse_bytes(path, json_string_value(value), &bytes));
    *out = (double)bytes;
    return PS_OK;
}

ps_status ps_explore_value_of(ps_explore_fields *fields, uint32_t field, const char *path,
                              double number, ps_explore_value *out)
{
    const ps_explore_field *its = &fields->all[field];
    const double whole = nearbyint(number);
    const bool is_whole = fabs(number - whole) <= ROUNDING * fabs(whole) && fabs(whole) < WHOLE_MAX;
    json_t *value = ps_explore_field_is_whole(its) && is_whole ? json_integer((json_int_t)whole)
                                                               : json_real(number);
    if (value == NULL) {
        return ps_fail(PS_INVALID, "%s: a finite number would be right", path);
    }
    const ps_status status = ps_explore_value_read(fields, field, path, value, out);
    json_decref(value);
    return status;
}

ps_status ps_explore_value_read(ps_explore_fields *fields, uint32_t field, const char *path,
                                const json_t *value, ps_explore_value *out)
{
    const ps_explore_field *its = &fields->all[field];
    if (its->part == PS_EXPLORE_MACHINE_NAME) {
        return read_name(&fields->machines, path, value, out);
    }
    if (its->part == PS_EXPLORE_MODEL_NAME) {
        return read_name(&fields->models, path, value, out);
    }
    const bool is_size = strcmp(its->unit, "bytes") == 0 && json_is_string(value);
    if (is_size || (ps_explore_field_is_whole(its) && json_is_real(value))) {
        double number;
        PS_TRY(ps_explore_bytes_read(path, value, &number));
        const bool is_whole = number == nearbyint(number) && fabs(number) < WHOLE_MAX;
        if (is_size || is_whole) {
            json_t *integer = json_integer((json_int_t)number);
            const ps_status status = integer == NULL ? ps_fail(PS_NO_MEMORY, "no memory")
                                                     : read_member(its, path, integer, out);
            json_decref(integer);
            return status;
        }
    }
    return read_member(its, path, value, out);
}

ps_workload ps_explore_workload_default(void)
{
    return (ps_workload){.batch = 1,
                         .context_tokens = 4096,
                         .ranks = 1,
                         .prefetch = PS_PREFETCH_OFF,
                         .comm_schedule = PS_COMM_SERIAL,
                         .ratios = ps_prefetch_ratios_default()};
}

void ps_explore_value_set(const ps_explore_field *field, const ps_explore_value *value,
                          ps_explore_point *point)
{
    ps_assert(field->part == PS_EXPLORE_MACHINE || field->part == PS_EXPLORE_WORKLOAD);
    char *at = field->part == PS_EXPLORE_MACHINE ? (char *)&point->machine
                                                 : (char *)&point->workload;
    memcpy(at + field->json.offset, &value->raw, member_bytes(field->json.kind));
}

// ---- numbers as texts

static void print_scaled(double number, const double *sizes, const char *const *units,
                         size_t unit_count, char *out)
{
    size_t i = 0;
    while (i + 1 < unit_count && fabs(number) >= sizes[i + 1]) {
        i++;
    }
    (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "%.4g %s", number / sizes[i], units[i]);
}

void ps_explore_number_print(double number, const char *unit, char out[PS_EXPLORE_NUMBER_BYTES])
{
    static const double BYTES[] = {1, 0x1p10, 0x1p20, 0x1p30, 0x1p40};
    static const char *const BYTE_UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static const double NS[] = {1, 1e3, 1e6, 1e9};
    static const char *const NS_UNITS[] = {"ns", "us", "ms", "s"};
    if (!isfinite(number)) {
        (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "-");
    } else if (strcmp(unit, "bytes") == 0) {
        print_scaled(number, BYTES, BYTE_UNITS, 5, out);
    } else if (strcmp(unit, "ns") == 0) {
        print_scaled(number, NS, NS_UNITS, 4, out);
    } else if (number == nearbyint(number) && fabs(number) < 1e9) {
        (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "%.0f", number);
    } else {
        (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "%.4g", number);
    }
}

void ps_explore_number_write(double number, char out[PS_EXPLORE_NUMBER_BYTES])
{
    if (!isfinite(number)) {
        out[0] = '\0';
    } else if (number == nearbyint(number) && fabs(number) < WHOLE_MAX) {
        (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "%.0f", number);
    } else {
        (void)snprintf(out, PS_EXPLORE_NUMBER_BYTES, "%.7g", number);
    }
}
