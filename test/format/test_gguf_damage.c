// ctest-labels: prop;fault
//
// Goal: a file that is cut anywhere, has bytes changed anywhere, or meets an allocation that fails
// is refused cleanly or read safely, and never makes the reader ask for much memory.
// Method: good files of the corpus in guarded memory (gguf_test.h), damaged by length and by seed;
// what opens is walked whole (test/fuzz/gguf_walk.h). Allocations pass through the aligned_alloc
// below, which every arena uses.
#include "format/gguf.h"
#include "format/gguf_test.h"
#include "fuzz/gguf_parts.h"
#include "fuzz/gguf_walk.h"
#include "gen.h"

#include <dirent.h>

#define ROUNDS 20000

static uint64_t allocation_count;
static uint64_t allocated_bytes;
static uint64_t failing_allocation = UINT64_MAX; // its number, from 0

void *aligned_alloc(size_t alignment, size_t size_bytes)
{
    void *memory = NULL;
    allocated_bytes += size_bytes;
    if (allocation_count++ == failing_allocation ||
        posix_memalign(&memory, alignment, size_bytes) != 0) {
        return NULL;
    }
    return memory;
}

// The first tensor of `whole` that ends behind byte `size_bytes`, or NULL.
static const ps_gguf_tensor *first_cut(const ps_gguf *whole, const uint8_t *bytes,
                                       size_t size_bytes)
{
    for (uint32_t i = 0; i < ps_gguf_tensor_count(whole); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(whole, i);
        if ((const uint8_t *)tensor->data + tensor->size_bytes > bytes + size_bytes) {
            return tensor;
        }
    }
    return NULL;
}

static void assert_cut_is_named(const guarded *original, const ps_gguf *whole, size_t size_bytes)
{
    guarded cut = guarded_create(original->bytes, size_bytes);
    ps_gguf *file = NULL;
    assert_int_equal(PS_INVALID, ps_gguf_open_bytes(cut.bytes, size_bytes, &file));
    assert_null(file);
    guarded_destroy(&cut);

    const uint8_t *data = ps_gguf_tensor_at(whole, 0)->data;
    if (size_bytes < (size_t)(data - original->bytes)) {
        return; // cut before the data section: other words (test_gguf_bad.c)
    }
    const ps_gguf_tensor *tensor = first_cut(whole, original->bytes, size_bytes);
    const uint8_t *end = (const uint8_t *)tensor->data + tensor->size_bytes;
    char said[128];
    (void)snprintf(said, sizeof said, "; %zu bytes are missing",
                   (size_t)(end - original->bytes) - size_bytes);
    assert_non_null(strstr(ps_error_message(), said));
    (void)snprintf(said, sizeof said, "tensor '%s'", tensor->name);
    assert_non_null(strstr(ps_error_message(), said));
}

static void test_every_cut_is_refused_with_tensor_and_missing_bytes(void **state)
{
    (void)state;
    guarded original = guarded_load("good_all_values");
    ps_gguf *whole = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_bytes(original.bytes, original.size_bytes, &whole));
    for (size_t size_bytes = 0; size_bytes < original.size_bytes; size_bytes++) {
        assert_cut_is_named(&original, whole, size_bytes);
    }
    ps_gguf_close(whole);
    guarded_destroy(&original);
}

// Small changes pass more checks than random bytes would: single bits, values near limits, copies.
static void damage(ps_gen *gen, guarded *memory)
{
    static const uint64_t VALUES[] = {0,          1,          2,          INT32_MAX, 1ull << 31,
                                      UINT32_MAX, 1ull << 32, 1ull << 61, INT64_MAX, UINT64_MAX};
    const size_t last = memory->size_bytes - 8;
    for (int64_t i = ps_gen_range(gen, 1, 4); i > 0; i--) {
        uint8_t *at = memory->bytes + ps_gen_range(gen, 0, (int64_t)last);
        switch (ps_gen_range(gen, 0, 2)) {
        case 0:
            *at ^= (uint8_t)(1u << ps_gen_range(gen, 0, 7));
            break;
        case 1:
            memcpy(at, &VALUES[ps_gen_range(gen, 0, 9)], (size_t)ps_gen_range(gen, 1, 8));
            break;
        default:
            memmove(at, memory->bytes + ps_gen_range(gen, 0, (int64_t)last), 8);
        }
    }
}

static void test_changed_bytes_are_refused_or_read_safely(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    guarded original = guarded_load("good_all_values");
    guarded memory = guarded_load("good_all_values");
    uint32_t opened = 0;
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(memory.bytes, original.bytes, original.size_bytes);
        damage(&gen, &memory);
        ps_gguf *file = NULL;
        if (ps_gguf_open_bytes(memory.bytes, memory.size_bytes, &file) == PS_OK) {
            ps_gguf_walk(file);
            ps_gguf_close(file);
            opened++;
        }
    }
    // Neither all nor none, or the rounds would prove little.
    assert_true(opened > ROUNDS / 100 && opened < ROUNDS / 100 * 99);
    guarded_destroy(&memory);
    guarded_destroy(&original);
}

static void test_no_file_asks_for_more_memory_than_its_size_allows(void **state)
{
    (void)state;
    DIR *folder = opendir(CORPUS);
    assert_non_null(folder);
    uint32_t files = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        guarded memory = guarded_load(entry->d_name);
        ps_gguf *file = NULL;
        allocated_bytes = 0;
        if (ps_gguf_open_bytes(memory.bytes, memory.size_bytes, &file) == PS_OK) {
            ps_gguf_close(file);
        }
        if (allocated_bytes > 16 * memory.size_bytes + (128 << 10)) {
            fail_msg("%s: %" PRIu64 " bytes asked for", entry->d_name, allocated_bytes);
        }
        guarded_destroy(&memory);
        files++;
    }
    assert_int_equal(0, closedir(folder));
    assert_true(files > 80);
}

static void test_every_failing_allocation_is_reported(void **state)
{
    (void)state;
    guarded memory = guarded_load("good_many");
    ps_gguf *file = NULL;
    failing_allocation = UINT64_MAX;
    allocation_count = 0;
    assert_int_equal(PS_OK, ps_gguf_open_bytes(memory.bytes, memory.size_bytes, &file));
    ps_gguf_close(file);
    const uint64_t count = allocation_count;
    assert_true(count >= 4);

    for (uint64_t i = 0; i < count; i++) {
        file = NULL;
        allocation_count = 0;
        failing_allocation = i;
        assert_int_equal(PS_NO_MEMORY, ps_gguf_open_bytes(memory.bytes, memory.size_bytes, &file));
        assert_null(file);
        assert_non_null(strstr(ps_error_message(), "out of memory"));
    }
    // Through the path too, where a mapping must go away with it.
    allocation_count = 0;
    failing_allocation = 0;
    assert_int_equal(PS_NO_MEMORY, ps_gguf_open(CORPUS "/good_many", &file));
    assert_non_null(strstr(ps_error_message(), "good_many: out of memory"));
    failing_allocation = UINT64_MAX;
    guarded_destroy(&memory);
}

static void test_every_failing_allocation_of_parts_is_reported(void **state)
{
    (void)state;
    guarded memory = guarded_load("../gguf_split/good_three");
    ps_str parts[4];
    ps_gguf *file = NULL;
    const uint32_t count = ps_gguf_cut_parts(memory.bytes, memory.size_bytes, parts, 4);
    assert_int_equal(3, count);
    uint64_t failed = 0;
    ps_status status = PS_NO_MEMORY;
    for (; status == PS_NO_MEMORY; failed++) {
        allocation_count = 0;
        failing_allocation = failed;
        status = ps_gguf_open_parts(parts, count, &file);
        assert_true((status == PS_OK) == (file != NULL));
    }
    failing_allocation = UINT64_MAX;
    assert_int_equal(PS_OK, status);
    assert_true(failed > 4); // the last one failed nothing
    ps_gguf_close(file);
    guarded_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut_is_refused_with_tensor_and_missing_bytes),
        cmocka_unit_test(test_changed_bytes_are_refused_or_read_safely),
        cmocka_unit_test(test_no_file_asks_for_more_memory_than_its_size_allows),
        cmocka_unit_test(test_every_failing_allocation_is_reported),
        cmocka_unit_test(test_every_failing_allocation_of_parts_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
