// ctest-labels: unit;prop
// ctest-timeout: 120
// Goal: with any tier, whatever is wanted in whatever order, a wave gives the bytes of the file,
// each wanted expert once; prompts leave what decoding keeps; faults of the disk, and damage, end a
// call with a message, and the next call is right. Method: a file whose every byte tells its place,
// random calls, and a filter that makes the system fail, be short and be slow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/hash.h"
#include "experts/cold.h"
#include "experts/place_file.h"
#include "gen.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYERS 4
#define EXPERTS 24
#define TOP_K 3
#define SIZE 5000 // of a part: neither pages nor lines
#define PARTS 3
#define FILE_BYTES (LAYERS * EXPERTS * 4 * 4096 + 77)

typedef enum tier_kind { DISK, SIM, TIER_COUNT } tier_kind;

typedef struct fixture {
    tier_kind tier;
    ps_expert_files files;
    ps_cold_experts *cold; // of SIM, loaded with the first store
    ps_tier_link link;
    char path[PLACE_PATH_BYTES];
    ps_expert_layer layers[LAYERS];
    ps_expert_store_options options;
    const char *paths[1];
    // Of the filter.
    _Atomic uint32_t answers, fail_from, fail_count, short_every, sleep_us;
} fixture;

static int64_t filter(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer)
{
    fixture *f = context;
    (void)file;
    (void)offset_bytes;
    const uint32_t nth = atomic_fetch_add(&f->answers, 1);
    if (f->sleep_us > 0) {
        (void)usleep(f->sleep_us);
    }
    if (nth >= f->fail_from && nth - f->fail_from < f->fail_count) {
        return -EIO;
    }
    if (f->short_every > 0 && nth % f->short_every == 0 && answer > 4096) {
        return 4096;
    }
    return answer;
}

// is_packed: one part an expert, and two sizes of them.
static fixture *new_fixture(void **state, bool is_packed, uint64_t budget_bytes)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->tier = *(const tier_kind *)*state;
    f->link = (ps_tier_link){.latency_ns = 3000, .bytes_per_second = 5e9};
    make_place_file(f->path, FILE_BYTES);
    for (uint32_t l = 0; l < LAYERS; l++) {
        ps_expert_layer *layer = &f->layers[l];
        layer->experts = EXPERTS;
        layer->part_count = is_packed ? 1 : PARTS;
        for (uint32_t p = 0; p < layer->part_count; p++) {
            const uint64_t size = is_packed && l % 2 == 1 ? SIZE + 4096 : SIZE;
            layer->names[p] = "blk.0.ffn_exps";
            layer->parts[p] = (ps_expert_part){
                .offset_bytes = is_packed ? (uint64_t)l * EXPERTS * 4 * 4096
                                          : 77 + (uint64_t)(l * PARTS + p) * EXPERTS * SIZE,
                .stride_bytes = is_packed ? 4 * 4096 : SIZE,
                .size_bytes = size,
                .packed_bytes = size + (is_packed ? 0 : 640)};
        }
    }
    f->paths[0] = f->path;
    f->fail_from = UINT32_MAX;
    f->files = (ps_expert_files){
        .paths = f->paths, .path_count = 1, .reader = {.filter = filter, .filter_context = f}};
    f->options = (ps_expert_store_options){.layers = f->layers,
                                           .layer_count = LAYERS,
                                           .top_k = TOP_K,
                                           .budget_bytes = budget_bytes,
                                           .policy = PS_EXPERTS_LRU};
    return f;
}

static void free_fixture(fixture *f)
{
    (void)unlink(f->path);
    ps_cold_experts_destroy(f->cold);
    free(f);
}

static ps_status try_create(fixture *f, ps_expert_store **out)
{
    if (f->tier == DISK) {
        PS_TRY(ps_tier_disk_create(&f->files, &f->options.tier));
    } else {
        if (f->cold == NULL) {
            PS_TRY(ps_cold_experts_load(&f->files, f->layers, LAYERS, &f->cold));
        }
        PS_TRY(ps_tier_sim_create(f->cold, &f->link, &f->options.tier));
    }
    return ps_expert_store_create(&f->options, out);
}

static ps_expert_store *create(fixture *f)
{
    ps_expert_store *store = NULL;
    const ps_status status = try_create(f, &store);
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    return store;
}

// Packs, as a caller would, by moving to the front, and compares.
static void check_expert(const fixture *f, ps_expert_store *store, uint32_t layer, uint32_t expert,
                         bool is_raw)
{
    for (uint32_t p = 0; p < f->layers[layer].part_count; p++) {
        const ps_expert_part *part = &f->layers[layer].parts[p];
        const uint64_t from = part->offset_bytes + expert * part->stride_bytes;
        char *data = ps_expert_store_data(store, layer, expert, p);
        if (is_raw) {
            const char *raw = ps_expert_store_raw(store, layer, expert, p);
            assert_true(raw >= data && raw - data < PS_READ_ALIGN_BYTES);
            memmove(data, raw, part->size_bytes);
            memset(data + part->size_bytes, 1, part->packed_bytes - part->size_bytes); // padding
        }
        assert_int_equal(0, (uintptr_t)data % 64);
        for (uint64_t i = 0; i < part->size_bytes; i++) {
            if ((uint8_t)data[i] != byte_at(from + i)) {
                fail_msg("layer %u, expert %u, part %u: byte %u", layer, expert, p, (unsigned)i);
            }
        }
    }
}

// One call for all; false: the disk failed.
static bool call(const fixture *f, ps_expert_store *store, uint32_t layer,
                 const ps_expert_want *wants, uint32_t count)
{
    bool seen[EXPERTS] = {false};
    uint32_t given = 0;
    ps_expert_store_begin(store, layer, wants, count);
    for (;;) {
        ps_expert_wave wave;
        if (ps_expert_store_next(store, &wave) != PS_OK) {
            return false;
        }
        if (wave.count == 0) {
            break;
        }
        for (uint32_t i = 0; i < wave.count; i++) {
            assert_false(seen[wave.experts[i]]);
            seen[wave.experts[i]] = true;
            given++;
            check_expert(f, store, layer, wave.experts[i], wave.is_raw[i]);
        }
    }
    assert_int_equal(count, given);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(seen[wants[i].expert]);
    }
    return true;
}

static uint32_t pick_wants(ps_gen *gen, ps_expert_want *wants, uint32_t most, bool is_prompt)
{
    const uint32_t count = (uint32_t)ps_gen_range(gen, 1, most);
    uint32_t chosen = 0;
    for (uint32_t e = 0; e < EXPERTS && chosen < count; e++) {
        if (ps_gen_range(gen, 1, EXPERTS - e) <= count - chosen) {
            wants[chosen++] = (ps_expert_want){
                .expert = e, .rows = 1 + e % 3, .decode_rows = is_prompt ? 0 : 1};
        }
    }
    return chosen;
}

static void test_bytes(void **state)
{
    ps_gen gen = ps_gen_start();
    for (uint32_t round = 0; round < 12; round++) {
        fixture *f = new_fixture(state, round % 2 == 1, 0);
        const uint64_t floor = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
        f->options.budget_bytes = floor + floor * (round / 2) / 2;
        f->files.reader.way = round % 4 < 2 ? PS_READ_AUTO : PS_READ_POOL;
        f->files.reader.is_buffered = round % 3 == 0;
        f->short_every = round % 3;
        ps_expert_store *store = create(f);
        ps_expert_want wants[EXPERTS];
        for (uint32_t i = 0; i < 200; i++) {
            const uint32_t layer = i % LAYERS;
            const bool is_prompt = ps_gen_range(&gen, 0, 5) == 0;
            // All of a layer may be wanted, which is more than there are slots.
            const uint32_t count = pick_wants(&gen, wants, is_prompt ? EXPERTS : 2 * TOP_K + 3,
                                              is_prompt);
            for (uint32_t g = (uint32_t)ps_gen_range(&gen, 0, 4); g > 0; g--) {
                ps_expert_store_expect(store, (layer + 1) % LAYERS,
                                       (uint32_t)ps_gen_range(&gen, 0, EXPERTS - 1));
            }
            assert_true(call(f, store, layer, wants, count));
            ps_expert_store_end_step(store, is_prompt ? 0 : 1000 + i % 7);
        }
        ps_expert_store_info info;
        ps_expert_store_get_info(store, &info);
        assert_int_equal(info.wanted, info.pinned + info.cached + info.loading + info.read);
        assert_true(info.slot_bytes <= f->options.budget_bytes && info.guessed > 0);
        assert_true(info.expected_right <= info.expected && info.guessed_right <= info.guessed);
        assert_string_equal(f->tier == DISK ? "disk" : "dram", info.tier);
        assert_true(info.read_bytes >= info.read * SIZE && info.read_ns > 0);
        ps_expert_store_destroy(store);
        free_fixture(f);
    }
}

static void test_prompts_leave_what_decoding_keeps(void **state)
{
    fixture *f = new_fixture(state, false, 0);
    f->options.budget_bytes = 3 * ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
    ps_expert_store *store = create(f);
    ps_expert_store_info before;
    ps_expert_store_info after;
    ps_expert_want wants[EXPERTS];
    ps_expert_store_get_info(store, &before);
    // As many as there are slots but for the floor, then all of other layers by prompts, twice.
    const uint32_t kept = (uint32_t)before.slots - 2 * TOP_K;
    for (uint32_t e = 0; e < kept; e++) {
        wants[e] = (ps_expert_want){.expert = e, .rows = 1, .decode_rows = 1};
    }
    assert_true(kept <= EXPERTS && call(f, store, 0, wants, kept));
    ps_expert_want all[EXPERTS];
    for (uint32_t e = 0; e < EXPERTS; e++) {
        all[e] = (ps_expert_want){.expert = e, .rows = 9};
    }
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        assert_true(call(f, store, i % LAYERS, all, EXPERTS));
    }
    ps_expert_store_get_info(store, &before);
    assert_true(call(f, store, 0, wants, kept));
    ps_expert_store_get_info(store, &after);
    assert_int_equal(before.read, after.read); // all are still here
    ps_expert_store_destroy(store);
    free_fixture(f);
}

static void assert_names_fault(const fixture *f, const char *bytes)
{
    const char *message = ps_error_message();
    if (strstr(message, f->path) == NULL || strstr(message, bytes) == NULL ||
        strstr(message, strerror(EIO)) == NULL) {
        fail_msg("'%s' does not say which file, how much, where and why", message);
    }
}

// Experts that are copied from memory have been read before: that is where the disk can fail.
static void fail_while_loading(fixture *f)
{
    f->fail_from = 0;
    f->fail_count = UINT32_MAX;
    assert_int_equal(PS_IO, ps_cold_experts_load(&f->files, f->layers, LAYERS, &f->cold));
    assert_names_fault(f, " bytes at ");
    f->fail_from = f->answers + 2;
    f->fail_count = 1; // is made good
}

static void fail_while_called(fixture *f, ps_expert_store *store, const ps_expert_want *wants,
                              uint32_t count)
{
    // Once is made good.
    f->fail_from = 2;
    f->fail_count = 1;
    assert_true(call(f, store, 1, wants, count));
    // Often is not, and says where.
    f->fail_from = 0;
    f->fail_count = UINT32_MAX;
    assert_false(call(f, store, 2, wants, count));
    assert_names_fault(f, "5000 bytes at ");
    assert_non_null(strstr(ps_error_message(), "expert "));
    f->fail_count = 0;
}

static void test_faults(void **state)
{
    fixture *f = new_fixture(state, false, 0);
    const ps_expert_want wants[] = {{3, 1, 1}, {7, 2, 2}, {20, 1, 0}};
    f->options.budget_bytes = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
    if (f->tier == SIM) {
        fail_while_loading(f);
    }
    ps_expert_store *store = create(f);
    if (f->tier == DISK) {
        fail_while_called(f, store, wants, 3);
    }
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        assert_true(call(f, store, i % LAYERS, wants, 3));
    }
    ps_expert_store_destroy(store);
    free_fixture(f);
}

static void test_damage(void **state)
{
    fixture *f = new_fixture(state, true, 0);
    uint64_t checksums[EXPERTS] = {0};
    uint8_t bytes[SIZE];
    for (uint32_t e = 0; e < EXPERTS; e++) {
        for (uint64_t i = 0; i < SIZE; i++) {
            bytes[i] = byte_at(e * f->layers[0].parts[0].stride_bytes + i);
        }
        checksums[e] = ps_hash(bytes, SIZE, 0) + (e == 7);
    }
    f->layers[0].checksums = checksums;
    f->options.budget_bytes = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
    ps_expert_store *store = create(f);
    const ps_expert_want wants[] = {{3, 1, 1}, {20, 1, 1}, {7, 2, 2}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(call(f, store, 0, wants, 2));
        assert_false(call(f, store, 0, wants, 3));
        assert_non_null(strstr(ps_error_message(), "expert 7 "));
        assert_non_null(strstr(ps_error_message(), "damaged"));
        assert_true(call(f, store, 1, wants, 3));
    }
    ps_expert_store_destroy(store);
    free_fixture(f);
}

// Guesses that are wrong and still on their way may hold all slots that are not pinned: a call gets
// one as they come, and does not wait for ever.
static void test_slow_guesses_leave_again(void **state)
{
    fixture *f = new_fixture(state, false, 0);
    const uint64_t floor = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
    uint32_t hot[LAYERS];
    for (uint32_t l = 0; l < LAYERS; l++) {
        hot[l] = l * EXPERTS;
    }
    f->options.budget_bytes = floor + floor / (2 * TOP_K) * LAYERS;
    f->options.policy = PS_EXPERTS_HOTSET;
    f->options.hot = hot;
    f->options.hot_count = LAYERS;
    ps_expert_store *store = create(f);
    assert_int_equal(PS_OK, ps_expert_store_warm(store));
    f->sleep_us = 5000;
    for (uint32_t i = 0; i < 4 * LAYERS; i++) {
        const uint32_t layer = i % LAYERS;
        // Two layers want what is pinned, the third something else.
        const ps_expert_want want = {.expert = i % 3 == 2 ? 1 + i : 0, .rows = 1, .decode_rows = 1};
        for (uint32_t g = 0; g < TOP_K; g++) {
            ps_expert_store_expect(store, (layer + 1) % LAYERS, EXPERTS - 1 - g);
        }
        assert_true(call(f, store, layer, &want, 1));
    }
    ps_expert_store_info info;
    ps_expert_store_get_info(store, &info);
    assert_true(info.pinned > 0 && info.guessed > 2 * TOP_K);
    ps_expert_store_destroy(store);
    free_fixture(f);
}

static void test_floor(void **state)
{
    fixture *f = new_fixture(state, true, 0);
    ps_expert_store *store = NULL;
    f->options.budget_bytes = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0) - 1;
    assert_int_equal(PS_INVALID, try_create(f, &store));
    assert_non_null(strstr(ps_error_message(), "would be right"));
    f->options.budget_bytes++;
    f->paths[0] = "/nowhere";
    ps_cold_experts_destroy(f->cold);
    f->cold = NULL;
    assert_int_equal(PS_NOT_FOUND, try_create(f, &store));
    assert_non_null(strstr(ps_error_message(), "/nowhere"));
    // More than all: no more than all.
    f->paths[0] = f->path;
    f->options.budget_bytes = (uint64_t)1 << 40;
    store = create(f);
    ps_expert_store_info info;
    ps_expert_store_get_info(store, &info);
    assert_int_equal(LAYERS * EXPERTS, info.slots);
    ps_expert_store_destroy(store);
    free_fixture(f);
}

// A hot set fits into what it is said to take, and not into less.
static void test_hot_set_takes(void **state)
{
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 40; round++) {
        fixture *f = new_fixture(state, round % 2 == 0, 0);
        uint32_t hot[LAYERS * EXPERTS];
        uint32_t count = 0;
        for (uint32_t key = 0; key < LAYERS * EXPERTS; key++) {
            if (ps_gen_range(&gen, 0, 9) <= round % 6) {
                hot[count++] = key;
            }
        }
        f->options.hot = hot;
        f->options.hot_count = count;
        f->options.policy = count == 0 ? PS_EXPERTS_LRU : PS_EXPERTS_HOTSET;
        const uint64_t floor = ps_expert_store_least(f->layers, LAYERS, TOP_K, NULL, 0);
        const uint64_t least = ps_expert_store_least(f->layers, LAYERS, TOP_K, hot, count);
        assert_true(count == 0 ? least == floor : least > floor);
        f->options.budget_bytes = least;
        ps_expert_store_destroy(create(f));
        ps_expert_store *store = NULL;
        f->options.budget_bytes = least - 4;
        assert_int_equal(PS_INVALID, try_create(f, &store));
        f->options.hot_cut = true; // unless there is no room for what comes and goes
        assert_int_equal(count == 0 ? PS_INVALID : PS_OK, try_create(f, &store));
        ps_expert_store_destroy(store);
        free_fixture(f);
    }
}

int main(void)
{
    static tier_kind kinds[TIER_COUNT] = {DISK, SIM};
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_slow_guesses_leave_again),
        cmocka_unit_test(test_prompts_leave_what_decoding_keeps),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_hot_set_takes),
    };
    int failed = 0;
    for (uint32_t kind = 0; kind < TIER_COUNT; kind++) {
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
            tests[i].initial_state = &kinds[kind];
        }
        failed += cmocka_run_group_tests_name(kind == DISK ? "disk" : "simulated", tests, NULL,
                                              NULL);
    }
    return failed;
}
