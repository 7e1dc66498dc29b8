// ctest-labels: fault
// ctest-links: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
// Goal: a failed allocation ends a call with PS_NO_MEMORY, leaks nothing and leaves outputs alone.
// Method: create, encode and decode with the n-th allocation failing, n = 0, 1, ... until none
// does. Leaks show under the address sanitizer. PCRE2's own allocations are not reached.
#include "text/tokenizer_maker.h"

static long allocations_left = -1; // -1: never fail

static bool fails(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

// The linker sends the calls of prestage and of this file here; the names are its convention.
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

// Enough of everything that every growing array grows; \xff makes the cut copy its text.
static const char text[] =
    "<turn>The quick brown fox jumps over the lazy dog, 12345 times and\n\n\tmore.  \xff"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "a";

static ps_status encode_and_decode(const ps_tokenizer *tokenizer, ps_tokens *ids, ps_buffer *back)
{
    const ps_text_segment segments[] = {{text, 10, true}, {text + 10, sizeof text - 11, false}};
    PS_TRY(ps_tokenizer_encode_segments(tokenizer, segments, 2, PS_TOKENIZE_ADD_SPECIAL, ids));
    return ps_tokenizer_decode(tokenizer, ids->ids, ids->count, true, back);
}

// All of it with the n-th allocation failing.
static ps_status attempt(maker *make, const char *model, long n)
{
    ps_tokenizer *tokenizer = NULL;
    ps_tokens ids = {0};
    ps_buffer back = {0};
    allocations_left = n;
    ps_status status = maker_try_create(make, model, "llama-bpe", &tokenizer);
    if (status == PS_OK) {
        status = encode_and_decode(tokenizer, &ids, &back);
        assert_true(status != PS_OK || ids.count > 0);
        ps_tokenizer_destroy(tokenizer);
    } else {
        assert_null(tokenizer);
    }
    allocations_left = -1;
    ps_tokens_deinit(&ids);
    ps_buffer_deinit(&back);
    return status;
}

static void check_every_allocation(maker *make, const char *model)
{
    long n = 0;
    ps_status status = PS_NO_MEMORY;
    while (status != PS_OK) {
        status = attempt(make, model, n++);
        assert_true(status == PS_OK || status == PS_NO_MEMORY);
    }
    printf("  %s: %ld allocations\n", model, n - 1);
    assert_true(n > 10);
}

static void test_every_failed_allocation_is_reported(void **state)
{
    (void)state;
    maker make;
    maker_init(&make);
    maker_add_byte_map(&make);
    maker_add_token(&make, "aa", 0, PS_TOKEN_NORMAL);
    maker_add_merge(&make, "a", "a");
    maker_add_token(&make, "<turn>", 0, PS_TOKEN_CONTROL);
    check_every_allocation(&make, "gpt2");
    maker_deinit(&make);

    maker_init(&make);
    maker_add_byte_tokens(&make);
    maker_add_token(&make, "aa", 0, PS_TOKEN_NORMAL);
    maker_add_token(&make, "<turn>", 0, PS_TOKEN_CONTROL);
    check_every_allocation(&make, "llama");
    maker_deinit(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
