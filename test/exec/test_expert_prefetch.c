// ctest-labels: unit
// Goal: prefetches of experts read their matrices and nothing between them, each byte that was
// asked for once over all workers, wherever matrices lie. Method: the kernel that reads is replaced
// by one that notes what it reads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/exec_internal.h"

#include <string.h>

#define EXPERTS 4u
#define OUTPUTS 16u
#define INPUTS 1024u
#define MATRIX_BYTES 17408u // 16 * 1024 / 32 blocks of 34 bytes: 34 of what is read at a time
#define STRIDE_BYTES 20480u

static _Alignas(64) char memory[EXPERTS * STRIDE_BYTES];
static unsigned char times_read[EXPERTS * STRIDE_BYTES];

static void note_read(const void *from, size_t bytes)
{
    const size_t at = (size_t)((const char *)from - memory);
    assert_true(at + bytes <= sizeof memory);
    for (size_t i = 0; i < bytes; i++) {
        times_read[at + i]++;
    }
}

// Lets a worker move all of a prefetch of [skip, skip + bytes) of the weight; 0: to its end.
static void prefetch(const ps_weight *weight, uint64_t skip, uint64_t bytes, uint32_t worker,
                     uint32_t workers)
{
    const ps_kernels kernels = {.read = note_read};
    const ps_exec exec = {0};
    const ps_plan_step plan_step = {
        .op = PS_OP_PREFETCH,
        .attributes = {.site = PS_SITE_MOE_GATE_UP, .bytes = bytes, .skip = skip}};
    const ps_bound_step step = {.plan = &plan_step,
                                .inputs = {{.kind = PS_VALUE_WEIGHT, .weight = weight}}};
    ps_prefetch_part part;
    ps_exec_bind_prefetch(&step, worker, workers, &part);
    ps_touch touch = {.parts = &part, .end = 1};
    ps_walk walk = {.exec = &exec,
                    .kernels = &kernels,
                    .row_count = 1,
                    .worker = worker,
                    .workers = workers,
                    .touch = &touch};
    while (ps_exec_touch_next(&walk)) {
    }
    assert_int_equal(1, part.fired);
    assert_int_equal(part.asked_bytes, part.moved_bytes);
}

static void check(uint64_t stride_bytes, uint64_t skip, uint64_t bytes, uint32_t workers)
{
    const ps_weight weight = {.dtype = PS_DTYPE_Q8_0,
                              .outputs = OUTPUTS,
                              .inputs = INPUTS,
                              .experts = EXPERTS,
                              .data = memory,
                              .expert_stride_bytes = stride_bytes};
    assert_int_equal(MATRIX_BYTES, ps_packed_bytes(weight.dtype, OUTPUTS, INPUTS));
    memset(times_read, 0, sizeof times_read);
    for (uint32_t w = 0; w < workers; w++) {
        prefetch(&weight, skip, bytes, w, workers);
    }
    const uint64_t whole = (uint64_t)EXPERTS * MATRIX_BYTES;
    const uint64_t end = bytes == 0 || skip + bytes > whole ? whole : skip + bytes;
    uint64_t missing = 0;
    for (uint64_t at = 0; at < sizeof memory; at++) {
        const uint64_t expert = at / stride_bytes;
        const uint64_t packed = expert * MATRIX_BYTES + at % stride_bytes;
        const bool is_asked = expert < EXPERTS && at % stride_bytes < MATRIX_BYTES &&
                              packed >= skip && packed < end;
        if (times_read[at] > is_asked) {
            fail_msg("stride %u, skip %u, %u bytes, %u workers: byte %u was read %u times",
                     (unsigned)stride_bytes, (unsigned)skip, (unsigned)bytes, workers, (unsigned)at,
                     times_read[at]);
        }
        missing += is_asked && times_read[at] == 0;
    }
    // Up to a unit of reading at the end of each worker's part, and of each matrix that it ends in.
    assert_true(missing < (uint64_t)512 * (workers + EXPERTS));
}

static void test_matrices_are_read_wherever_they_are(void **state)
{
    (void)state;
    static const uint64_t STRIDES[] = {MATRIX_BYTES, STRIDE_BYTES};
    static const uint64_t SKIPS[] = {0,
                                     64,
                                     MATRIX_BYTES - 64,
                                     MATRIX_BYTES,
                                     2 * MATRIX_BYTES + 640,
                                     (uint64_t)EXPERTS * MATRIX_BYTES};
    static const uint64_t BYTES[] = {0, 512, MATRIX_BYTES, MATRIX_BYTES + 1024, 3 * MATRIX_BYTES};
    for (size_t s = 0; s < sizeof STRIDES / sizeof STRIDES[0]; s++) {
        for (size_t k = 0; k < sizeof SKIPS / sizeof SKIPS[0]; k++) {
            for (size_t b = 0; b < sizeof BYTES / sizeof BYTES[0]; b++) {
                for (uint32_t workers = 1; workers <= 5; workers++) {
                    check(STRIDES[s], SKIPS[k], BYTES[b], workers);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrices_are_read_wherever_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
