// ctest-labels: golden
// Goal: what is counted is what routers chose, once a layer and row, whatever threads and sessions
// there are; counts files hold it, add up, and are refused when they are damaged or another
// model's. Method: the same tokens as a prompt and one by one have the same uses in the other
// phase, as the same bits demand; files are changed byte by byte.
#include "engine/counts_file.h"
#include "engine/engine_test.h"
#include "engine/model_experts.h"

#include <sys/stat.h>
#include <unistd.h>

#define TOKENS 40u
#define KEYS_MAX 256u

static char folder[] = "/tmp/prestage-counts-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = 1 - turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void run_tokens(ps_model *model, uint32_t batch_rows, uint32_t count, uint32_t seed)
{
    ps_session *session;
    ps_sequence sequence;
    int32_t tokens[TOKENS];
    const ps_session_options options = {.context_tokens = 64, .batch_rows = batch_rows};
    make_prompt(tokens, count, seed);
    expect_ok(ps_session_create(model, &options, &session));
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, count, NULL));
    ps_session_destroy(session);
}

// [layer * experts + expert] of one phase; what is not there stays 0.
static uint32_t read_uses(const ps_model *model, ps_phase phase, uint64_t uses[KEYS_MAX])
{
    ps_experts_info info;
    ps_model_get_experts(model, &info);
    assert_in_range(info.layers * info.experts, 2, KEYS_MAX);
    memset(uses, 0, KEYS_MAX * sizeof *uses);
    for (uint32_t l = 0; l < info.layers; l++) {
        uint64_t sum = 0;
        for (uint32_t e = 0; e < info.experts; e++) {
            uses[l * info.experts + e] = ps_model_expert_uses(model, l, e, phase);
            sum += uses[l * info.experts + e];
        }
        assert_int_equal(sum, info.tokens[phase] * info.experts_used);
    }
    return (uint32_t)info.tokens[phase];
}

static void test_prompt_and_decode_choose_alike(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"qwen3moe-q8_0", "qwen3moe-wide-q4_k", "mixtral-f16"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        uint64_t first[KEYS_MAX];
        for (uint32_t threads = 1; threads <= 3; threads++) {
            uint64_t prompt[KEYS_MAX], decode[KEYS_MAX];
            ps_model *model = open_golden(NAMES[i], threads);
            run_tokens(model, 16, TOKENS, 1);
            assert_int_equal(TOKENS, read_uses(model, PS_PHASE_PROMPT, prompt));
            assert_int_equal(0, read_uses(model, PS_PHASE_DECODE, decode));
            run_tokens(model, 1, TOKENS, 1); // another session, the counts stay
            assert_int_equal(TOKENS, read_uses(model, PS_PHASE_DECODE, decode));
            assert_memory_equal(prompt, decode, sizeof prompt);
            memcpy(first, threads == 1 ? prompt : first, sizeof first);
            assert_memory_equal(prompt, first, sizeof prompt);
            ps_model_close(model);
        }
    }
}

static void test_phases_of_a_mixed_step(void **state)
{
    (void)state;
    uint64_t uses[KEYS_MAX];
    ps_session *session;
    ps_sequence sequence[3];
    ps_row rows[6] = {{0}};
    ps_model *model = open_golden("qwen3moe-q8_0", 2);
    expect_ok(ps_session_create(model, &(ps_session_options){.context_tokens = 64, .sequences = 3},
                                &session));
    for (int i = 0; i < 3; i++) {
        expect_ok(ps_sequence_open(session, &sequence[i]));
    }
    for (int i = 0; i < 6; i++) { // one of the first, four of the second, one of the third
        rows[i] = (ps_row){.sequence = sequence[(i > 0) + (i > 4)], .token = i};
    }
    expect_ok(ps_session_step(session, rows, 6));
    assert_int_equal(4, read_uses(model, PS_PHASE_PROMPT, uses));
    assert_int_equal(2, read_uses(model, PS_PHASE_DECODE, uses));
    ps_session_destroy(session);
    ps_model_close(model);
}

static void read_file(const char *name, ps_arena *arena, ps_counts_file *out)
{
    expect_ok(ps_counts_file_read(path_of(name), arena, out));
}

static void test_files_add_up(void **state)
{
    (void)state;
    ps_arena arena;
    ps_counts_file file;
    uint64_t uses[2][KEYS_MAX] = {{0}};
    ps_arena_init(&arena, 1 << 24);
    ps_model *model = open_golden("qwen3moe-q8_0", 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t run[KEYS_MAX];
        run_tokens(model, 16, TOKENS, i);
        run_tokens(model, 1, 10, i);
        for (uint32_t phase = 0; phase < 2; phase++) {
            (void)read_uses(model, (ps_phase)phase, run);
            for (uint32_t key = 0; key < KEYS_MAX; key++) {
                uses[phase][key] += run[key];
            }
        }
        expect_ok(ps_model_record_check(model, path_of("sum")));
        expect_ok(ps_model_record_experts(model, path_of("sum")));
        assert_int_equal(0, read_uses(model, PS_PHASE_PROMPT, run)); // not to be added twice
    }
    read_file("sum", &arena, &file);
    ps_model_info info;
    ps_model_get_info(model, &info);
    assert_true(file.header.fingerprint == info.fingerprint);
    assert_string_equal("Q8_0", file.header.quantisation);
    // What `info` says of the tensors: F matrices of D x F values each, 34 bytes for 32.
    assert_int_equal(file.expert_bytes[0],
                     3 * (uint64_t)file.header.dim * file.header.expert_ffn / 32 * 34);
    for (uint32_t phase = 0; phase < 2; phase++) {
        assert_int_equal(3 * (phase == PS_PHASE_PROMPT ? TOKENS : 10),
                         file.counts.tokens[0][phase] + file.counts.tokens[1][phase]);
        assert_true(file.counts.tokens[1][phase] > 0); // short runs take turns
        for (uint32_t key = 0; key < file.header.layers * file.header.experts; key++) {
            const uint32_t layer = key / file.header.experts;
            const uint32_t expert = key % file.header.experts;
            assert_int_equal(
                uses[phase][key],
                ps_route_counts_at(&file.counts, 0, (ps_routes_phase)phase, layer)[expert] +
                    ps_route_counts_at(&file.counts, 1, (ps_routes_phase)phase, layer)[expert]);
        }
    }
    ps_model_close(model);
    ps_arena_deinit(&arena);
}

// A type is named once, however many tensors have it.
static void test_types_are_named_once(void **state)
{
    (void)state;
    ps_arena arena;
    ps_counts_file file;
    ps_arena_init(&arena, 1 << 24);
    static const struct {
        const char *model, *types;
    } MODELS[] = {
        {"qwen3moe-bf16", "BF16"}, {"mixtral-f16", "F16"}, {"qwen3moe-wide-q4_k", "Q4_K"}};
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        ps_model *model = open_golden(MODELS[i].model, 1);
        expect_ok(ps_model_write_experts(model, path_of("text"), true));
        read_file("text", &arena, &file);
        assert_string_equal(MODELS[i].types, file.header.quantisation);
        ps_model_close(model);
    }
    ps_arena_deinit(&arena);
}

static void test_other_models_are_refused(void **state)
{
    (void)state;
    ps_model *model = open_golden("qwen3moe-bf16", 1);
    run_tokens(model, 16, TOKENS, 1);
    expect_failure(PS_INVALID, "another model", ps_model_record_check(model, path_of("sum")));
    expect_failure(PS_INVALID, "fingerprint", ps_model_record_experts(model, path_of("sum")));
    ps_model_close(model);
    model = open_golden("smollm-q8_0", 1);
    run_tokens(model, 16, TOKENS, 1);
    ps_experts_info info;
    ps_model_get_experts(model, &info);
    assert_int_equal(0, info.layers);
    expect_failure(PS_INVALID, "no experts", ps_model_record_check(model, path_of("none")));
    expect_failure(PS_INVALID, "no experts", ps_model_record_experts(model, path_of("none")));
    assert_int_equal(-1, access(path_of("none"), F_OK));
    ps_model_close(model);
}

static void write_bytes(const char *name, const char *bytes, size_t count)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(count, fwrite(bytes, 1, count, file));
    assert_int_equal(0, fclose(file));
}

static void expect_refused(const char *bytes, size_t count, const char *part)
{
    ps_arena arena;
    ps_counts_file file;
    ps_arena_init(&arena, 1 << 24);
    write_bytes("bad", bytes, count);
    const ps_status status = ps_counts_file_read(path_of("bad"), &arena, &file);
    assert_true(status == PS_INVALID || status == PS_UNSUPPORTED);
    assert_non_null(strstr(ps_error_message(), path_of("bad")));
    if (strstr(ps_error_message(), part) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), part);
    }
    ps_arena_deinit(&arena);
}

static void test_damage_is_refused(void **state)
{
    (void)state;
    char *bytes = malloc(1 << 16);
    FILE *file = fopen(path_of("sum"), "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    const size_t count = fread(bytes, 1, 1 << 16, file);
    (void)fclose(file);
    assert_in_range(count, sizeof(ps_counts_header) + 8, (1 << 16) - 1);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x10;
        expect_refused(bytes, count, "");
        bytes[i] ^= 0x10;
    }
    for (size_t length = 0; length < count; length += length < 300 ? 1 : 37) {
        expect_refused(bytes, length,
                       length < sizeof(ps_counts_header) ? "no counts file" : "bytes");
    }
    bytes[count] = 0;
    expect_refused(bytes, count + 1, "would be right");
    bytes[8] = 2;
    expect_refused(bytes, count, "version 2");
    free(bytes);
}

// A file whose checksum is right may still say what cannot be.
static void test_contradictions_are_refused(void **state)
{
    (void)state;
    ps_arena arena;
    ps_counts_file file, back;
    ps_arena_init(&arena, 1 << 24);
    read_file("sum", &arena, &file);
    file.counts.uses[0]++;
    expect_ok(ps_counts_file_write(path_of("lie"), &file, true));
    expect_failure(PS_INVALID, "contradicts", ps_counts_file_read(path_of("lie"), &arena, &back));
    file.counts.uses[0]--;
    file.counts.tokens[0][0] = UINT64_MAX / file.header.top_k;
    expect_ok(ps_counts_file_write(path_of("lie"), &file, true));
    expect_failure(PS_INVALID, "tokens", ps_counts_file_read(path_of("lie"), &arena, &back));
    read_file("sum", &arena, &file);
    file.expert_bytes[1] = UINT64_MAX;
    expect_ok(ps_counts_file_write(path_of("lie"), &file, true));
    expect_failure(PS_INVALID, "bytes", ps_counts_file_read(path_of("lie"), &arena, &back));
    file.header.model[3] = '\n';
    expect_ok(ps_counts_file_write(path_of("lie"), &file, true));
    expect_failure(PS_INVALID, "header", ps_counts_file_read(path_of("lie"), &arena, &back));
    ps_arena_deinit(&arena);
}

static void test_places_are_kept(void **state)
{
    (void)state;
    ps_model *model = open_golden("qwen3moe-q8_0", 1);
    run_tokens(model, 16, TOKENS, 1);
    write_bytes("text", "something else", 14);
    expect_failure(PS_INVALID, "no counts file", ps_model_record_experts(model, path_of("text")));
    expect_failure(PS_INVALID, "--force", ps_model_write_experts(model, path_of("text"), false));
    expect_failure(PS_IO, "no-such-folder",
                   ps_model_record_experts(model, path_of("no-such-folder/a")));
    expect_failure(PS_INVALID, folder, ps_model_record_experts(model, folder));
    ps_experts_info info;
    ps_model_get_experts(model, &info);
    assert_int_equal(TOKENS, info.tokens[PS_PHASE_PROMPT]); // failures lose nothing
    expect_ok(ps_model_write_experts(model, path_of("text"), true));
    expect_ok(ps_model_record_check(model, path_of("text")));
    ps_model_close(model);
}

// A log holds each call of a layer once, with the tokens in their places; counted it gives the same
// counts.
static void test_logs_hold_what_is_counted(void **state)
{
    (void)state;
    ps_arena arena;
    ps_counts_file file;
    ps_route_counts logged;
    ps_routes_reader *reader;
    ps_routes_call call;
    bool is_end = false;
    uint32_t calls = 0;
    ps_arena_init(&arena, 1 << 24);
    ps_model *model = open_golden("qwen3moe-q8_0", 2);
    expect_ok(ps_model_start_route_log(model, path_of("log")));
    expect_failure(PS_INVALID, "is being written", ps_model_start_route_log(model, path_of("log")));
    run_tokens(model, 16, TOKENS, 1);
    run_tokens(model, 1, 10, 2);
    expect_ok(ps_model_end_route_log(model));
    expect_failure(PS_INVALID, "no route log", ps_model_end_route_log(model));
    expect_ok(ps_model_write_experts(model, path_of("text"), true));
    read_file("text", &arena, &file);
    expect_ok(ps_routes_reader_open(path_of("log"), &reader));
    const ps_routes_shape *shape = ps_routes_reader_shape(reader);
    assert_true(shape->fingerprint == file.header.fingerprint);
    expect_ok(ps_route_counts_init(&logged, shape->layers, shape->experts, shape->top_k, &arena));
    for (;;) {
        expect_ok(ps_routes_reader_next(reader, &call, &is_end));
        if (is_end) {
            break;
        }
        const uint32_t step = calls++ / shape->layers; // 3 steps of a prompt, 10 of one row
        assert_int_equal((calls - 1) % shape->layers, call.layer);
        assert_int_equal(step < 2 ? 16 : step == 2 ? 8 : 1, call.rows);
        for (uint32_t r = 0; r < call.rows; r++) {
            assert_int_equal(step < 3 ? 16 * step + r : step - 3, call.row[r].position);
            assert_int_equal(step < 3 ? PS_ROUTES_PROMPT : PS_ROUTES_DECODE, call.row[r].phase);
            assert_int_equal(0, call.row[r].sequence);
        }
        ps_route_counts_add(&logged, &call);
    }
    assert_int_equal(13 * shape->layers, calls);
    assert_memory_equal(file.counts.tokens, logged.tokens, sizeof logged.tokens);
    assert_memory_equal(file.counts.uses, logged.uses,
                        4 * sizeof(uint64_t) * shape->layers * shape->experts);
    ps_routes_reader_close(reader);
    assert_int_equal(0, unlink(path_of("log")));
    expect_ok(ps_model_start_route_log(model, path_of("log")));
    run_tokens(model, 16, TOKENS, 1);
    ps_model_close(model); // leaves no log
    assert_int_equal(-1, access(path_of("log"), F_OK));
    model = open_golden("smollm-q8_0", 1);
    expect_failure(PS_INVALID, "no experts", ps_model_start_route_log(model, path_of("log")));
    ps_model_close(model);
    ps_arena_deinit(&arena);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"sum", "bad", "lie", "text"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        (void)unlink(path_of(NAMES[i]));
    }
    return rmdir(folder); // fails where a temporary file was left
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_and_decode_choose_alike),
        cmocka_unit_test(test_phases_of_a_mixed_step),
        cmocka_unit_test(test_files_add_up),
        cmocka_unit_test(test_types_are_named_once),
        cmocka_unit_test(test_other_models_are_refused),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_contradictions_are_refused),
        cmocka_unit_test(test_places_are_kept),
        cmocka_unit_test(test_logs_hold_what_is_counted),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
