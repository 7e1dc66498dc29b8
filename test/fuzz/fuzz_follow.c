// fuzz-links: ps_engine -Wl,--wrap=ps_comm_local_fork
//
// Goal: whatever rank 0 sends, another rank ends in an orderly way: it follows to the stop, or says
// in one line what was not right.
#include "engine/scripted_rank0.h"
#include "fuzz/fuzz.h"

#include <stdio.h>

#define MODEL PS_SOURCE_DIR "/test/fixtures/golden/smollm-q8_0.gguf"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    bool gave_up = false;
    const ps_status status = script_follow(bytes, size_bytes, MODEL, &gave_up);
    ps_assert(status == PS_OK || ps_error_message()[0] != '\0');
    ps_assert(status != PS_OK || !gave_up);
    return 0;
}
