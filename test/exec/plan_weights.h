// test/exec/plan_weights.h - plans from text, and weights of the shapes that they name.
#ifndef PS_TEST_EXEC_PLAN_WEIGHTS_H
#define PS_TEST_EXEC_PLAN_WEIGHTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)1 << 16)
#define WEIGHT_BYTES_MAX ((uint64_t)16 << 20)
#define WEIGHTS_MAX 128

typedef struct weights {
    ps_weight list[WEIGHTS_MAX];
    uint32_t count;
} weights;

static inline const ps_weight *find(void *context, const char *name)
{
    const weights *all = context;
    for (uint32_t i = 0; i < all->count; i++) {
        if (strcmp(all->list[i].name, name) == 0) {
            return &all->list[i];
        }
    }
    return NULL;
}

static inline bool is_read_as_vector(const ps_plan *plan, uint32_t id)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        for (uint32_t j = 0; j < plan->steps[i].input_count; j++) {
            if (plan->steps[i].inputs[j] == id) {
                return ps_exec_takes_vector(plan->steps[i].op);
            }
        }
    }
    return false;
}

// A weight for each that the plan names, filled with some bytes; false when they are too large.
static inline bool make_weights(const ps_plan *plan, weights *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_value *value = &plan->values[i].is;
        if (value->kind != PS_VALUE_WEIGHT) {
            continue;
        }
        const bool is_vector = is_read_as_vector(plan, i);
        const uint64_t matrices = value->experts == 0 ? 1 : value->experts;
        const uint64_t bytes = is_vector ? value->columns * sizeof(float)
                                         : matrices * ps_packed_bytes(value->dtype, value->rows,
                                                                      value->columns);
        void *data = NULL;
        if (bytes > WEIGHT_BYTES_MAX || out->count == WEIGHTS_MAX ||
            posix_memalign(&data, PS_CACHE_LINE_BYTES, bytes) != 0) {
            return false;
        }
        memset(data, 0x1c, bytes); // small numbers in every format
        out->list[out->count++] = (ps_weight){.name = value->name,
                                              .dtype = value->dtype,
                                              .outputs = value->rows,
                                              .inputs = value->columns,
                                              .experts = value->experts,
                                              .is_vector = is_vector,
                                              .data = data,
                                              .expert_stride_bytes = bytes / matrices};
    }
    return true;
}

static inline void free_weights(weights *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        free((void *)(uintptr_t)all->list[i].data);
    }
    all->count = 0;
}

// Rank 0 among simulated ones; NULL for a plan of one rank, or of more than there can be.
static inline ps_comm *open_ranks(const ps_plan *plan)
{
    ps_comm *comm = NULL;
    const bool is_open = plan->ranks > 1 &&
                         ps_comm_self_open(plan->ranks, &(ps_comm_options){0}, &comm) == PS_OK;
    return is_open ? comm : NULL;
}

static inline void read_text(const char *name, char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/%s", PS_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t length = fread(text, 1, TEXT_BYTES_MAX - 1024, file);
    (void)fclose(file);
    text[length] = '\0';
}

#endif
