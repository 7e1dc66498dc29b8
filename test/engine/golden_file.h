// test/engine/golden_file.h - what a reference implementation computes of a fixture, as
// scripts/make-golden.py writes it, and how far another order of sums may be from it.
#ifndef PS_TEST_ENGINE_GOLDEN_FILE_H
#define PS_TEST_ENGINE_GOLDEN_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include <prestage/prestage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Logits spread over about 3. Sums in another order differ in their last bits, which now and then
// tips the rounding of an activation to int8, or of a key to float16.
#define EXACT_FACTOR 2.0f
#define ROUNDED_FACTOR 0.75f
#define SUMS 0.002f

typedef struct golden {
    uint32_t prompt_count, position_count, vocabulary, greedy_count;
    float noise, margin;
    uint32_t prompt[64], positions[16], greedy[16];
    float *exact, *rounded; // [position_count][vocabulary]
} golden;

static inline void read_exactly(FILE *file, void *out, size_t bytes)
{
    assert_int_equal(bytes, fread(out, 1, bytes, file));
}

static inline void load_golden(const char *name, golden *out)
{
    char path[512];
    char magic[8];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.golden", PS_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    read_exactly(file, magic, sizeof magic);
    assert_memory_equal("PSGOLD2\n", magic, sizeof magic);
    read_exactly(file, &out->prompt_count, 4 * sizeof(uint32_t));
    read_exactly(file, &out->noise, 2 * sizeof(float));
    assert_true(out->prompt_count <= 64 && out->position_count <= 16 && out->greedy_count <= 16);
    read_exactly(file, out->prompt, out->prompt_count * sizeof(uint32_t));
    read_exactly(file, out->positions, out->position_count * sizeof(uint32_t));
    read_exactly(file, out->greedy, out->greedy_count * sizeof(uint32_t));
    const size_t values = (size_t)out->position_count * out->vocabulary;
    out->exact = calloc(2 * values, sizeof(float));
    assert_non_null(out->exact);
    out->rounded = out->exact + values;
    read_exactly(file, out->exact, 2 * values * sizeof(float));
    assert_int_equal(EOF, fgetc(file));
    (void)fclose(file);
}

static inline uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

#endif
