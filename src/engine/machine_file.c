// engine/machine_file.c - two tables of keys, and a reader that keeps sources.
#include "engine/machine_file.h"

#include <stddef.h>
#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 50)
#define RATE_MAX 1e9
#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])
#define SOURCE_BYTES 1024u

#define LINEAR(key, dtype)                                                                         \
    {                                                                                              \
        key, PS_JSON_F64, offsetof(ps_machine, workers.linear_gops[PS_DTYPE_##dtype]), 0, RATE_MAX \
    }

const ps_json_field ps_machine_fields[] = {
    {"name", PS_JSON_TEXT, offsetof(ps_machine, name), 0, sizeof((ps_machine *)0)->name},
    {"threads", PS_JSON_U32, offsetof(ps_machine, threads), 1, 4096},
    {"source", PS_JSON_TEXT, offsetof(ps_machine, source), 0, sizeof((ps_machine *)0)->source},
    {"l2_bytes", PS_JSON_U64, offsetof(ps_machine, l2_bytes), 1, BYTES_MAX},
    {"llc_bytes", PS_JSON_U64, offsetof(ps_machine, llc_bytes), 0, BYTES_MAX},
    {"read_gbs", PS_JSON_F64, offsetof(ps_machine, read_gbs), 1e-3, RATE_MAX},
    {"cache_read_gbs", PS_JSON_F64, offsetof(ps_machine, cache_read_gbs), 1e-3, RATE_MAX},
    {"linear_share", PS_JSON_F64, offsetof(ps_machine, linear_share), 1e-3, 1},
    {"int8_gops", PS_JSON_F64, offsetof(ps_machine, int8_gops), 1e-3, RATE_MAX},
    {"f32_gops", PS_JSON_F64, offsetof(ps_machine, f32_gops), 1e-3, RATE_MAX},
    {"barrier_ns", PS_JSON_F64, offsetof(ps_machine, barrier_ns), 0, RATE_MAX},
    {"fill_gbs", PS_JSON_F64, offsetof(ps_machine, fill_gbs), 1e-3, RATE_MAX},
    {"prefetch_stream", PS_JSON_BOOL, offsetof(ps_machine, has_prefetch_stream), 0, 1},
    {"comm_ns", PS_JSON_F64, offsetof(ps_machine, comm_ns), 0, 1e12},
    {"comm_gbs", PS_JSON_F64, offsetof(ps_machine, comm_gbs), 1e-6, RATE_MAX},
    {"worker_read_gbs", PS_JSON_F64, offsetof(ps_machine, workers.read_gbs), 0, RATE_MAX},
    {"kv_gbs", PS_JSON_F64, offsetof(ps_machine, workers.kv_gbs), 0, RATE_MAX},
    {"attention_gops", PS_JSON_F64, offsetof(ps_machine, workers.attention_gops), 0, RATE_MAX},
    LINEAR("q4_0_gops", Q4_0),
    LINEAR("q4_1_gops", Q4_1),
    LINEAR("q5_0_gops", Q5_0),
    LINEAR("q5_1_gops", Q5_1),
    LINEAR("q4_k_gops", Q4_K),
    LINEAR("q5_k_gops", Q5_K),
    LINEAR("q6_k_gops", Q6_K),
    {"overlap", PS_JSON_F64, offsetof(ps_machine, workers.overlap), 0, 1},
    {"vector_gbs", PS_JSON_F64, offsetof(ps_machine, workers.vector_gbs), 0, RATE_MAX},
    {"meet_ns", PS_JSON_F64, offsetof(ps_machine, workers.meet_ns), 0, RATE_MAX},
    {"step_ns", PS_JSON_F64, offsetof(ps_machine, workers.step_ns), 0, RATE_MAX},
};
const size_t ps_machine_field_count = COUNT_OF(ps_machine_fields);

#define AT(member) offsetof(ps_machine, profile.member)

const ps_json_field ps_profile_fields[] = {
    {"weight_share", PS_JSON_F64, AT(weight_share), 1e-3, 1},
    {"kv_share", PS_JSON_F64, AT(kv_share), 1e-3, 1},
    {"kv_strided_share", PS_JSON_F64, AT(kv_strided_share), 1e-3, 1},
    {"kv_cache_share", PS_JSON_F64, AT(kv_cache_share), 1e-3, 1},
    {"compute_share", PS_JSON_F64, AT(compute_share), 1e-3, 1},
    {"l2_share", PS_JSON_F64, AT(l2_share), 1e-3, 1},
    {"cores", PS_JSON_U32, AT(cores), 1, 65536},
    {"attention_splits", PS_JSON_U32, AT(attention_splits), 1, 65536},
    {"matmul_ns", PS_JSON_F64, AT(matmul_ns), 0, RATE_MAX},
    {"vector_ns", PS_JSON_F64, AT(vector_ns), 0, RATE_MAX},
    {"comm_shape", PS_JSON_COMM_SHAPE, AT(comm_shape), 0, 0},
    {"comm_step_ns", PS_JSON_F64, AT(comm_step_ns), 0, RATE_MAX},
    {"chunk_ns", PS_JSON_F64, AT(chunk_ns), 0, RATE_MAX},
    {"element_bytes", PS_JSON_U32, AT(element_bytes), 1, 8},
    {"server_ranks", PS_JSON_U32, AT(server_ranks), 1, 65536},
    {"server_comm_ns", PS_JSON_F64, AT(server_comm_ns), 0, 1e12},
    {"server_step_ns", PS_JSON_F64, AT(server_step_ns), 0, RATE_MAX},
    {"server_comm_gbs", PS_JSON_F64, AT(server_comm_gbs), 1e-6, RATE_MAX},
    {"join", PS_JSON_JOIN, AT(join), 0, 0},
    {"memory_bytes", PS_JSON_U64, AT(memory_bytes), 1, BYTES_MAX},
    {"host_bytes", PS_JSON_U64, AT(host_bytes), 1, BYTES_MAX},
    {"host_ns", PS_JSON_F64, AT(host_ns), 0, 1e12},
    {"host_gbs", PS_JSON_F64, AT(host_gbs), 1e-6, RATE_MAX},
    {"disk_ns", PS_JSON_F64, AT(disk_ns), 0, 1e12},
    {"disk_gbs", PS_JSON_F64, AT(disk_gbs), 1e-6, RATE_MAX},
    {"area_nm", PS_JSON_F64, AT(area_nm), 0.1, 1000},
    {"core_mm2", PS_JSON_F64, AT(core_mm2), 1e-3, 1e6},
    {"l2_mm2_per_mib", PS_JSON_F64, AT(l2_mm2_per_mib), 1e-6, 1e3},
};
const size_t ps_profile_field_count = COUNT_OF(ps_profile_fields);

_Static_assert(COUNT_OF(ps_machine_fields) + COUNT_OF(ps_profile_fields) + 2 <= PS_MACHINE_KEYS_MAX,
               "both tables, and what is no number");

const ps_json_field *ps_machine_key(size_t index)
{
    const size_t behind = index - ps_machine_field_count;
    return index < ps_machine_field_count    ? &ps_machine_fields[index]
           : behind < ps_profile_field_count ? &ps_profile_fields[behind]
                                             : NULL;
}

const char *ps_machine_unit(const char *key)
{
    static const char *const UNITS[][2] = {
        {"_gbs", "GB/s"}, {"_ns", "ns"},       {"_bytes", "bytes"},     {"_gops", "Gmac/s"},
        {"_nm", "nm"},    {"core_mm2", "mm2"}, {"_per_mib", "mm2/MiB"},
    };
    const size_t length = strlen(key);
    for (size_t i = 0; i < COUNT_OF(UNITS); i++) {
        const size_t tail = strlen(UNITS[i][0]);
        if (length >= tail && strcmp(key + length - tail, UNITS[i][0]) == 0) {
            return UNITS[i][1];
        }
    }
    return "";
}

// ---- reading

// What may stand about a value.
typedef struct entry {
    char source[SOURCE_BYTES];
    char unit[16];
    bool is_fitted;
} entry;

static const ps_json_field ENTRY[] = {
    {"source", PS_JSON_TEXT, offsetof(entry, source), 0, SOURCE_BYTES},
    {"unit", PS_JSON_TEXT, offsetof(entry, unit), 0, sizeof((entry *)0)->unit},
    {"fitted", PS_JSON_BOOL, offsetof(entry, is_fitted), 0, 1},
};

// Keeps a text that is longer than none.
static ps_status keep_text(const char *text, ps_arena *arena, const char **out)
{
    if (*text == '\0') {
        return PS_OK;
    }
    *out = ps_arena_strndup(arena, text, strlen(text));
    return *out != NULL ? PS_OK : PS_EXHAUSTED;
}

static ps_status read_entry(const json_t *object, entry *out)
{
    const char *keys[COUNT_OF(ENTRY) + 1] = {"value"};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < COUNT_OF(ENTRY); i++) {
        keys[i + 1] = ENTRY[i].key;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i <= COUNT_OF(ENTRY) && strcmp(key, keys[i]) != 0) {
            i++;
        }
        if (i > COUNT_OF(ENTRY)) {
            return ps_json_refuse_key(key, keys, COUNT_OF(keys));
        }
        PS_TRY(i == 0 ? PS_OK : ps_json_value_read(&ENTRY[i - 1], value, out));
    }
    return json_object_get(object, "value") != NULL ? PS_OK
                                                    : ps_fail(PS_INVALID, "'value' is missing");
}

static ps_status check_unit(const ps_json_field *field, const char *unit)
{
    const char *right = ps_machine_unit(field->key);
    if (*unit == '\0' || strcmp(unit, right) == 0) {
        return PS_OK;
    }
    return *right == '\0' ? ps_fail(PS_INVALID, "unit: it has none")
                          : ps_fail(PS_INVALID, "unit: '%s'; %s would be right", unit, right);
}

static ps_status read_noted(const ps_json_field *field, const json_t *value, ps_arena *arena,
                            ps_machine_note *note, ps_machine *machine)
{
    entry e = {.is_fitted = false};
    ps_machine_note read = {.is_given = true};
    if (!json_is_object(value)) {
        PS_TRY(ps_json_value_read(field, value, machine));
        *note = read;
        return PS_OK;
    }
    ps_status status = read_entry(value, &e);
    if (status == PS_OK) {
        status = check_unit(field, e.unit);
    }
    if (status != PS_OK) {
        return ps_fail_prefix(status, "%s", field->key);
    }
    PS_TRY(ps_json_value_read(field, json_object_get(value, "value"), machine));
    PS_TRY(keep_text(e.source, arena, &read.source));
    read.is_fitted = e.is_fitted;
    *note = read;
    return PS_OK;
}

static ps_status read_what(const json_t *value, ps_arena *arena, ps_machine_notes *notes)
{
    static const ps_json_field WHAT = {"what", PS_JSON_TEXT, 0, 0, SOURCE_BYTES};
    char what[SOURCE_BYTES];
    PS_TRY(ps_json_value_read(&WHAT, value, what));
    return keep_text(what, arena, &notes->what);
}

static ps_status read_key(const char *key, const json_t *value, ps_arena *arena,
                          ps_machine_notes *notes, ps_machine *machine)
{
    const char *keys[PS_MACHINE_KEYS_MAX];
    const ps_json_field *field;
    size_t count = 0;
    for (; (field = ps_machine_key(count)) != NULL; count++) {
        keys[count] = field->key;
        if (strcmp(key, field->key) == 0) {
            return read_noted(field, value, arena, &notes->of[count], machine);
        }
    }
    keys[count++] = "what";
    keys[count++] = "base"; // taken by engine/machine_open.c
    return strcmp(key, "what") == 0 ? read_what(value, arena, notes)
                                    : ps_json_refuse_key(key, keys, count);
}

ps_status ps_machine_read(const json_t *object, ps_arena *arena, ps_machine_notes *notes,
                          ps_machine *machine)
{
    ps_machine read = *machine;
    ps_machine_notes read_notes = *notes;
    if (!json_is_object(object)) {
        return ps_fail(PS_INVALID, "a JSON object would be right");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        PS_TRY(read_key(key, value, arena, &read_notes, &read));
    }
    *machine = read;
    *notes = read_notes;
    return PS_OK;
}

// ---- checking

static bool is_zero(const ps_json_field *field, const ps_machine *machine)
{
    static const uint64_t ZERO = 0; // of a number of any kind
    const size_t bytes = field->kind == PS_JSON_U32 ? sizeof(uint32_t) : sizeof(uint64_t);
    return memcmp((const char *)machine + field->offset, &ZERO, bytes) == 0;
}

// notes NULL: what is 0 is not given.
static bool is_given(const ps_machine *machine, const ps_machine_notes *notes, const char *key)
{
    const ps_json_field *field;
    for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
        if (strcmp(field->key, key) == 0) {
            return notes != NULL ? notes->of[i].is_given : !is_zero(field, machine);
        }
    }
    ps_assert(false);
    return false;
}

static bool is_of_workers(const ps_json_field *field)
{
    return field->offset >= offsetof(ps_machine, workers) &&
           field->offset < offsetof(ps_machine, workers) + sizeof(ps_worker_rates);
}

static ps_status check_all_given(const ps_machine_notes *notes)
{
    static const char *const OTHERS[] = {"source", "llc_bytes", "prefetch_stream"};
    for (size_t i = 0; i < ps_machine_field_count; i++) {
        const char *key = ps_machine_fields[i].key;
        bool is_needed = !is_of_workers(&ps_machine_fields[i]);
        for (size_t j = 0; j < COUNT_OF(OTHERS); j++) {
            is_needed = is_needed && strcmp(key, OTHERS[j]) != 0;
        }
        if (is_needed && !notes->of[i].is_given) {
            return ps_fail(PS_INVALID,
                           "'%s' is missing; without it, \"base\" would be right: a machine that "
                           "has it",
                           key);
        }
    }
    return PS_OK;
}

// The first says nothing without the second.
static const char *const WANTS[][2] = {
    {"server_ranks", "server_comm_gbs"},
    {"server_comm_gbs", "server_ranks"},
    {"server_comm_ns", "server_ranks"},
    {"server_step_ns", "server_ranks"},
    {"attention_splits", "cores"},
    {"host_bytes", "host_gbs"},
    {"host_gbs", "host_bytes"},
    {"host_ns", "host_gbs"},
    {"disk_ns", "disk_gbs"},
    {"area_nm", "core_mm2"},
    {"core_mm2", "l2_mm2_per_mib"},
    {"l2_mm2_per_mib", "area_nm"},
};

static ps_status check_wants(const ps_machine *machine, const ps_machine_notes *notes)
{
    for (size_t i = 0; i < COUNT_OF(WANTS); i++) {
        if (is_given(machine, notes, WANTS[i][0]) && !is_given(machine, notes, WANTS[i][1])) {
            return ps_fail(PS_INVALID, "%s without %s; both or none would be right", WANTS[i][0],
                           WANTS[i][1]);
        }
    }
    return PS_OK;
}

ps_status ps_machine_check_changed(const ps_machine *machine)
{
    return check_wants(machine, NULL);
}

ps_status ps_machine_check(const ps_machine *machine, const ps_machine_notes *notes)
{
    const ps_machine_profile *profile = &machine->profile;
    PS_TRY(check_all_given(notes));
    PS_TRY(check_wants(machine, notes));
    if (profile->comm_shape == PS_COMM_SHAPE_FLAT &&
        profile->comm_step_ns + profile->server_step_ns > 0) {
        return ps_fail(PS_INVALID,
                       "%s with a comm_shape that has no steps; 0, or \"ring\", "
                       "\"mesh\" or \"tree\", would be right",
                       profile->comm_step_ns > 0 ? "comm_step_ns" : "server_step_ns");
    }
    if (profile->comm_shape == PS_COMM_SHAPE_FLAT && profile->server_ranks > 0) {
        return ps_fail(PS_INVALID,
                       "server_ranks with a comm_shape that knows no servers; \"ring\", "
                       "\"mesh\" or \"tree\" would be right");
    }
    if (is_given(machine, notes, "join") && !machine->has_prefetch_stream) {
        return ps_fail(PS_INVALID, "join without \"prefetch_stream\": true, for whose end it says "
                                   "how to wait; both or none would be right");
    }
    return ps_machine_check_rates(machine);
}

ps_status ps_machine_check_rates(const ps_machine *machine)
{
    for (size_t i = 0; i < ps_machine_field_count; i++) {
        const ps_json_field *field = &ps_machine_fields[i];
        if (field->kind != PS_JSON_F64) {
            continue;
        }
        double value;
        memcpy(&value, (const char *)machine + field->offset, sizeof value);
        if (!(value >= field->lowest && value <= field->highest)) {
            return ps_fail(PS_INVALID, "%s is %g: %g to %g would be right", field->key, value,
                           field->lowest, field->highest);
        }
    }
    return PS_OK;
}
