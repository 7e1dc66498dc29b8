// comm/sum.c - sums over ranks, in rank order.
#include "comm/sum.h"

#include <string.h>

#define BLOCK 256u

// The block is a local: the compiler sees that it is none of the rows and vectorises.
static void sum_block(float *sum, const float *const *rows, uint32_t count, uint64_t begin,
                      uint32_t length)
{
    float block[BLOCK];
    memcpy(block, rows[0] + begin, length * sizeof *block);
    for (uint32_t r = 1; r < count; r++) {
        const float *row = rows[r] + begin;
        for (uint32_t i = 0; i < length; i++) {
            block[i] += row[i];
        }
    }
    memcpy(sum + begin, block, length * sizeof *block);
}

void ps_comm_sum(float *sum, const float *const *rows, uint32_t count, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at += BLOCK) {
        const uint64_t left = end - at;
        sum_block(sum, rows, count, at, left < BLOCK ? (uint32_t)left : BLOCK);
    }
}
