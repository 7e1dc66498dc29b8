// ctest-labels: prop;fault
// ctest-timeout: 300
// Goal: whatever is in a file, opening it ends in one line or in a model that runs; and weights
// that are no numbers end requests, not the process, nor do they reach other sequences. Method:
// golden models with bytes changed, cut or moved from a printed seed; then NaN and infinity where
// they hurt, beside a healthy model whose logits may not change.
#include "engine/made_file.h"
// model_maker.h includes what cmocka wants first
#include "engine/rank_jobs.h"

#define ROUNDS 120 // of each file
#define FILE_BYTES_MAX ((size_t)1 << 20)
#define HEAD_BYTES 2048 // holds every hyperparameter

static const char *const FILES[] = {"llama-f16",     "llama-q8_0",  "mixtral-q8_0", "qwen2-q8_0",
                                    "qwen3moe-q8_0", "gemma3-q8_0", "kmix-k",       "smollm-q4_1"};
#define FILE_COUNT (sizeof FILES / sizeof FILES[0])

static unsigned char *load(const char *name, size_t *out_bytes)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *bytes = malloc(FILE_BYTES_MAX);
    assert_non_null(bytes);
    *out_bytes = fread(bytes, 1, FILE_BYTES_MAX, file);
    (void)fclose(file);
    return bytes;
}

// A prompt and a few sampled tokens: PS_OK, or what ended it.
static ps_status run(ps_model *model)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    ps_session *session = NULL;
    ps_sampler *sampler = NULL;
    const ps_sampler_options options = ps_sampler_defaults();
    const ps_session_options small = {
        .context_tokens = info.context_tokens < 64 ? info.context_tokens : 64, .batch_rows = 16};
    ps_status status = ps_session_create(model, &small, &session);
    if (status == PS_OK) {
        status = ps_sampler_create(model, &options, &sampler);
    }
    ps_sequence sequence = 0;
    if (status == PS_OK) {
        status = ps_sequence_open(session, &sequence);
    }
    int32_t token = (int32_t)(info.vocabulary - 1);
    const uint32_t steps = small.context_tokens < 24 ? small.context_tokens : 24;
    for (uint32_t i = 0; status == PS_OK && i < steps; i++) {
        status = ps_session_step(session, &(ps_row){sequence, token, true}, 1);
        if (status == PS_OK) {
            status = ps_sampler_pick(sampler, ps_session_logits(session, 0), &token);
            assert_true(token >= 0 && (uint32_t)token < info.vocabulary);
        }
    }
    ps_sampler_destroy(sampler);
    ps_session_destroy(session);
    return status;
}

// Opens the bytes as a file; NULL with the status.
static ps_model *open_bytes(const void *bytes, size_t size_bytes, uint32_t threads,
                            ps_status *out_status)
{
    char path[64];
    write_temporary(bytes, size_bytes, path);
    ps_model *model = NULL;
    *out_status = ps_model_open(path, &(ps_model_options){.threads = threads}, &model);
    (void)unlink(path);
    return model;
}

static void check_line(void)
{
    assert_true(strlen(ps_error_message()) > 0);
    assert_null(strchr(ps_error_message(), '\n'));
}

static uint32_t interesting(ps_gen *gen)
{
    static const uint32_t NUMBERS[] = {
        0,   1,    2,    3,    5,     8,        16,       32,          62,          255,
        256, 1023, 1024, 4096, 65536, 1u << 24, 1u << 30, 0x7fffffffu, 0x80000000u, UINT32_MAX};
    return NUMBERS[ps_gen_range(gen, 0, (int64_t)(sizeof NUMBERS / sizeof NUMBERS[0]) - 1)];
}

// The value behind a random key of the architecture; 0: none was found.
static size_t random_hyperparameter(ps_gen *gen, const unsigned char *bytes)
{
    static const char *const PREFIXES[] = {"llama.", "qwen2.", "qwen3moe.", "gemma3."};
    size_t found = 0;
    size_t count = 0;
    for (size_t i = 8; i + 64 < HEAD_BYTES; i++) {
        for (size_t p = 0; p < sizeof PREFIXES / sizeof PREFIXES[0]; p++) {
            if (memcmp(bytes + i, PREFIXES[p], strlen(PREFIXES[p])) == 0 &&
                ps_gen_range(gen, 0, (int64_t)count++) == 0) {
                uint64_t length = 0;
                memcpy(&length, bytes + i - 8, sizeof length);
                found = i + (size_t)length + 4; // behind the type
            }
        }
    }
    return found + 4 < HEAD_BYTES ? found : 0;
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

// Changes the bytes in one of several ways; gives the new size.
static size_t damage(ps_gen *gen, unsigned char *bytes, size_t size_bytes)
{
    const uint32_t value = interesting(gen);
    const int64_t last = (int64_t)size_bytes - 1;
    const size_t key = random_hyperparameter(gen, bytes);
    switch (ps_gen_range(gen, 0, 5)) {
    case 0: // bytes anywhere
        for (int i = 0; i < 64; i++) {
            bytes[ps_gen_range(gen, 0, last)] = (unsigned char)ps_gen_next(gen);
        }
        return size_bytes;
    case 1: // one byte of the head
        bytes[ps_gen_range(gen, 0, HEAD_BYTES)] ^= (unsigned char)(1 << ps_gen_range(gen, 0, 7));
        return size_bytes;
    case 2: // two pieces of the data change places
        swap_bytes(bytes + size_bytes / 2, bytes + ps_gen_range(gen, HEAD_BYTES, last / 3), 4096);
        return size_bytes;
    case 3:
        return (size_t)ps_gen_range(gen, 0, last);
    default:
        memcpy(bytes + (key > 0 ? key : 64), &value, sizeof value);
        return size_bytes;
    }
}

static void test_damaged_files(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t opened = 0;
    uint32_t finished = 0;
    for (size_t f = 0; f < FILE_COUNT; f++) {
        size_t size_bytes = 0;
        unsigned char *original = load(FILES[f], &size_bytes);
        unsigned char *copy = malloc(FILE_BYTES_MAX);
        assert_non_null(copy);
        for (int round = 0; round < ROUNDS; round++) {
            memcpy(copy, original, size_bytes);
            const size_t left = damage(&gen, copy, size_bytes);
            ps_status status = PS_OK;
            ps_model *model = open_bytes(copy, left, 2, &status);
            if (model != NULL) {
                opened++;
                status = run(model);
                finished += status == PS_OK;
                assert_true(status == PS_OK || status == PS_NOT_FINITE || status == PS_NO_MEMORY ||
                            status == PS_EXHAUSTED || status == PS_INVALID);
            }
            if (status != PS_OK) {
                check_line();
            }
            ps_model_close(model);
        }
        free(copy);
        free(original);
    }
    printf("  %u of %u opened, %u of them ran to the end\n", opened,
           (unsigned)(FILE_COUNT * ROUNDS), finished);
    assert_true(opened > 0 && opened < FILE_COUNT * ROUNDS);
}

// ---- numbers that are none

typedef struct poison {
    const char *file, *tensor;
    uint32_t pattern; // written into the first `bytes` bytes of every `stride`
    uint32_t bytes, stride;
    ps_status open; // what opening says
} poison;

static const poison POISONS[] = {
    {"llama-f16", "blk.0.ffn_down.weight", 0x7e00, 2, 2, PS_OK},
    {"llama-f16", "blk.1.attn_q.weight", 0x7c00, 2, 2, PS_OK},
    {"llama-f16", "token_embd.weight", 0x7e00, 2, 2, PS_OK},
    {"llama-q8_0", "blk.0.attn_k.weight", 0x7e00, 2, 34, PS_OK},
    {"llama-q8_0", "blk.0.attn_v.weight", 0x7c00, 2, 34, PS_OK},
    {"llama-q8_0", "blk.0.ffn_gate.weight", 0xfc00, 2, 34, PS_OK},
    {"llama-q8_0", "blk.0.attn_norm.weight", 0x7f800000, 4, 4, PS_NOT_FINITE},
    {"llama-q8_0", "output_norm.weight", 0x7fc00000, 4, 64, PS_NOT_FINITE},
    {"mixtral-q8_0", "blk.0.ffn_gate_inp.weight", 0x7fc00000, 4, 4, PS_OK},
    {"mixtral-q8_0", "blk.1.ffn_down_exps.weight", 0x7e00, 2, 34, PS_OK},
    {"qwen3moe-q8_0", "blk.0.ffn_gate_inp.weight", 0x7f800000, 4, 4, PS_OK},
    {"gemma3-q8_0", "token_embd.weight", 0x7e00, 2, 34, PS_OK},
};

static void apply(const poison *p, unsigned char *bytes, size_t size_bytes)
{
    ps_gguf *file = NULL;
    expect_ok(ps_gguf_open_bytes(bytes, size_bytes, &file));
    const ps_gguf_tensor *tensor = ps_gguf_tensor_find(file, p->tensor);
    assert_non_null(tensor);
    const size_t at = (size_t)((const unsigned char *)tensor->data - bytes);
    for (size_t i = 0; i + p->bytes <= tensor->size_bytes; i += p->stride) {
        memcpy(bytes + at + i, &p->pattern, p->bytes);
    }
    ps_gguf_close(file);
}

static void test_weights_that_are_no_numbers(void **state)
{
    (void)state;
    ps_model *healthy = open_golden("smollm-q8_0", 2);
    const uint32_t vocabulary = vocabulary_of(healthy);
    ps_session *session = NULL;
    expect_ok(ps_session_create(healthy, &(ps_session_options){.context_tokens = 64}, &session));
    float *expected = malloc(vocabulary * sizeof *expected);
    float *logits = malloc(vocabulary * sizeof *logits);
    assert_true(expected != NULL && logits != NULL);
    for (size_t i = 0; i <= sizeof POISONS / sizeof POISONS[0]; i++) {
        ps_sequence sequence;
        expect_ok(ps_sequence_open(session, &sequence));
        step_one(session, sequence, 1, logits, vocabulary);
        step_one(session, sequence, 2, i == 0 ? expected : logits, vocabulary);
        assert_memory_equal(expected, i == 0 ? expected : logits, vocabulary * sizeof *logits);
        ps_sequence_close(session, sequence);
        if (i == sizeof POISONS / sizeof POISONS[0]) {
            break;
        }
        size_t size_bytes = 0;
        unsigned char *bytes = load(POISONS[i].file, &size_bytes);
        apply(&POISONS[i], bytes, size_bytes);
        ps_status status = PS_OK;
        ps_model *model = open_bytes(bytes, size_bytes, 2, &status);
        assert_int_equal(POISONS[i].open, status);
        if (model == NULL) {
            assert_non_null(strstr(ps_error_message(), POISONS[i].tensor));
        } else if (run(model) != PS_NOT_FINITE) {
            fail_msg("%s of %s: logits were finite", POISONS[i].tensor, POISONS[i].file);
        }
        ps_model_close(model);
        free(bytes);
    }
    free(expected);
    free(logits);
    ps_session_destroy(session);
    ps_model_close(healthy);
}

// Row `row` of the named table of an F16 model becomes NaN.
static void poison_row(unsigned char *bytes, size_t size_bytes, const char *name, uint64_t row)
{
    ps_gguf *file = NULL;
    expect_ok(ps_gguf_open_bytes(bytes, size_bytes, &file));
    const ps_gguf_tensor *table = ps_gguf_tensor_find(file, name);
    assert_non_null(table);
    const size_t row_bytes = (size_t)table->dimensions[0] * sizeof(uint16_t);
    const size_t at = (size_t)((const unsigned char *)table->data - bytes) + row * row_bytes;
    ps_gguf_close(file);
    for (size_t i = 0; i < row_bytes; i += sizeof(uint16_t)) {
        memcpy(bytes + at + i, &(uint16_t){0x7e00}, sizeof(uint16_t));
    }
}

// One token's row of the embedding is NaN. Its sequences end; others in the same step, and those
// that get its KV blocks afterwards, are as if it had never been.
static void test_other_sequences_are_untouched(void **state)
{
    size_t size_bytes = 0;
    unsigned char *bytes = load("llama-f16", &size_bytes);
    poison_row(bytes, size_bytes, "token_embd.weight", 5);
    ps_status status = PS_OK;
    ps_model *model = open_bytes(bytes, size_bytes, 2, &status);
    free(bytes);
    expect_ok(status);
    (void)state;
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = NULL;
    expect_ok(ps_session_create(
        model, &(ps_session_options){.context_tokens = 64, .sequences = 2, .batch_rows = 40},
        &session));
    float *expected = malloc(vocabulary * sizeof *expected);
    assert_non_null(expected);
    for (int round = 0; round < 3; round++) {
        ps_sequence good, bad;
        ps_row rows[40];
        expect_ok(ps_sequence_open(session, &good));
        for (uint32_t i = 0; i < 10; i++) {
            rows[i] = (ps_row){good, 6 + (int32_t)i, i == 9};
        }
        if (round == 1) { // beside it in the same step
            expect_ok(ps_sequence_open(session, &bad));
            for (uint32_t i = 10; i < 40; i++) {
                rows[i] = (ps_row){bad, 5, i == 39};
            }
        }
        expect_ok(ps_session_step(session, rows, round == 1 ? 40 : 10));
        float *logits = ps_session_logits(session, 0);
        int32_t token;
        if (round == 0) {
            memcpy(expected, logits, vocabulary * sizeof *expected);
        }
        assert_memory_equal(expected, logits, vocabulary * sizeof *expected);
        if (round == 1) {
            ps_sampler *sampler = NULL;
            const ps_sampler_options options = ps_sampler_defaults();
            expect_ok(ps_sampler_create(model, &options, &sampler));
            assert_int_equal(PS_NOT_FINITE,
                             ps_sampler_pick(sampler, ps_session_logits(session, 1), &token));
            ps_sampler_destroy(sampler);
            // The block of NaN is the next one to be handed out.
            ps_sequence_close(session, good);
            ps_sequence_close(session, bad);
        } else {
            ps_sequence_close(session, good);
        }
    }
    free(expected);
    ps_session_destroy(session);
    ps_model_close(model);
}

// How often a sampler has said that the logits are not finite, for all and for the best alone.
static void count_refusals(ps_model *model, void *context)
{
    float *refusals = context;
    for (uint32_t best = 0; best < 2; best++) {
        ps_session *session = NULL;
        ps_sampler *sampler = NULL;
        ps_sequence sequence;
        int32_t token;
        ps_sampler_options options = ps_sampler_defaults();
        options.temperature = 0;
        must(ps_sampler_create(model, &options, &sampler));
        must(ps_session_create(
            model, &(ps_session_options){.context_tokens = 64, .best_logits = best}, &session));
        must(ps_sequence_open(session, &sequence));
        must(ps_session_step(session, &(ps_row){sequence, 6, true}, 1));
        refusals[best] += ps_sampler_pick(sampler, ps_session_logits(session, 0), &token) ==
                          PS_NOT_FINITE;
        ps_session_destroy(session);
        ps_sampler_destroy(sampler);
    }
}

// The logit of one token is NaN, in the share of one of two ranks; it is not among the best, as a
// NaN compares with nothing, and shows all the same.
static void test_no_number_in_the_share_of_one_rank(void **state)
{
    (void)state;
    for (uint32_t share = 0; share < 2; share++) {
        size_t size_bytes = 0;
        char path[64];
        unsigned char *bytes = load("llama-f16", &size_bytes);
        float *refusals = shared_floats(2);
        poison_row(bytes, size_bytes, "output.weight", share == 0 ? 7 : 250);
        write_temporary(bytes, size_bytes, path);
        free(bytes);
        rank_job_run(&(rank_job){.path = path, .ranks = 2, .threads = 1}, count_refusals, refusals);
        (void)unlink(path);
        assert_true(refusals[0] == 1 && refusals[1] == 1);
        free_shared(refusals, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_weights_that_are_no_numbers),
        cmocka_unit_test(test_other_sequences_are_untouched),
        cmocka_unit_test(test_no_number_in_the_share_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
