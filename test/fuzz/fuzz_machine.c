// fuzz-links: ps_engine
//
// Goal: no text whatever makes the reader of machines read outside or fail without a message, and a
// machine that it accepts has every rate that plans need and contradicts itself nowhere.
#include "engine/machine_open.h"
#include "fuzz/fuzz.h"

#include <string.h>

#define ARENA_BYTES ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static const ps_machine_use USE = {.threads = 1}; // "this" is not measured
    ps_arena arena;
    ps_machine_notes notes;
    ps_machine machine;
    ps_arena_init(&arena, ARENA_BYTES);
    if (ps_machine_parse((ps_str){(const char *)bytes, size_bytes}, &USE, &arena, &notes,
                         &machine) == PS_OK) {
        ps_assert(ps_machine_check(&machine, &notes) == PS_OK);
        ps_assert(memchr(machine.name, '\0', sizeof machine.name) != NULL);
        ps_assert(memchr(machine.source, '\0', sizeof machine.source) != NULL);
        ps_assert(ps_json_value_name(&ps_profile_fields[0], &machine) == NULL);
        ps_assert(ps_comm_shape_name((ps_comm_shape)machine.profile.comm_shape) != NULL);
        ps_assert(ps_prefetch_join_name((ps_prefetch_join)machine.profile.join) != NULL);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
