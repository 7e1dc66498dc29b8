// test/fuzz/fuzz.h - what every fuzz_<name>.c defines.
#ifndef PS_TEST_FUZZ_H
#define PS_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// Feeds one input to the unit and ends the process when it misbehaves; returns 0. The name and form
// are libFuzzer's. `bytes` is borrowed, may have any alignment, and nothing behind it is readable.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

#endif
