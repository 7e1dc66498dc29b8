// engine/machine_file.c - a table of keys.
#include "engine/machine_file.h"

#include <stddef.h>
#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 50)
#define RATE_MAX 1e9

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
};
const size_t ps_machine_field_count = sizeof ps_machine_fields / sizeof ps_machine_fields[0];

ps_status ps_machine_read(const json_t *object, ps_machine *machine)
{
    ps_machine read = *machine;
    PS_TRY(ps_json_fields_read(object, ps_machine_fields, ps_machine_field_count, false, &read));
    *machine = read;
    return PS_OK;
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
