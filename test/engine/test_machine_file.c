// ctest-labels: prop;unit
// Goal: machines that are shipped are complete and say where each number is from; a file gives what
// it says and nothing else; whatever is wrong is refused with a line that names it.
// Method: shipped files against numbers written here; machines made of random values of every key,
// printed by this test's own writer; one text with one fault at a time; shipped texts with bytes
// changed from a printed seed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/data_files.h"
#include "engine/machine_open.h"
#include "gen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 300
#define DAMAGES 3000
#define TEXT_BYTES 32768

static const ps_machine_use USE = {.threads = 2};

static ps_status parse(const char *text, ps_arena *arena, ps_machine_notes *notes,
                       ps_machine *machine)
{
    return ps_machine_parse(ps_str_of(text), &USE, arena, notes, machine);
}

// ---- shipped

static const char *const SHIPPED[] = {"a100", "ascend-910b", "epyc-9005", "h100",
                                      "h200", "mi300x",      "r9700"};
#define SHIPPED_COUNT (sizeof SHIPPED / sizeof SHIPPED[0])

static void assert_sourced(const char *name, const ps_machine_notes *notes)
{
    uint32_t count = 0;
    const ps_json_field *field;
    for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
        if (notes->of[i].is_given && field->kind != PS_JSON_TEXT) {
            const char *source = notes->of[i].source;
            count++;
            if (source == NULL || strlen(source) < 7) {
                fail_msg("%s: %s has no source", name, field->key);
            }
            const bool is_assumed = strstr(source, "assumed") != NULL ||
                                    strncmp(source, "fitted", 6) == 0;
            if (is_assumed && !notes->of[i].is_fitted) {
                fail_msg("%s: %s is assumed and not marked", name, field->key);
            }
        }
    }
    assert_true(count >= 12);
}

static void test_shipped_machines_are_complete(void **state)
{
    (void)state;
    ps_str listed;
    for (uint32_t i = 0; i < SHIPPED_COUNT; i++) {
        ps_arena arena;
        ps_machine_notes notes;
        ps_machine machine;
        char source[64];
        assert_true(ps_machine_shipped(i, &listed));
        assert_true(ps_str_equal(listed, SHIPPED[i]));
        ps_arena_init(&arena, 1 << 20);
        if (ps_machine_open(SHIPPED[i], &USE, &arena, &notes, &machine) != PS_OK) {
            fail_msg("%s: %s", SHIPPED[i], ps_error_message());
        }
        assert_sourced(SHIPPED[i], &notes);
        (void)snprintf(source, sizeof source, "shipped as %s", SHIPPED[i]);
        assert_string_equal(source, machine.source);
        assert_true(machine.name[0] != '\0' && notes.what[0] != '\0');
        assert_true(machine.cache_read_gbs * machine.linear_share > machine.read_gbs);
        assert_true(machine.fill_gbs <= machine.read_gbs && machine.profile.memory_bytes > 0);
        ps_arena_deinit(&arena);
    }
    assert_false(ps_machine_shipped(SHIPPED_COUNT, &listed));
}

static void test_shipped_numbers(void **state)
{
    (void)state;
    ps_machine ascend;
    ps_machine h100;
    ps_machine h200;
    assert_int_equal(PS_OK, ps_machine_open("ascend-910b", &USE, NULL, NULL, &ascend));
    assert_true(ascend.threads == 1 && ascend.has_prefetch_stream);
    assert_true(ascend.l2_bytes == 192 << 20);
    assert_true(ps_machine_l2_bytes(&ascend) < ascend.l2_bytes); // not all of it is for prefetches
    assert_true(ascend.read_gbs == 1600 && ascend.int8_gops == 400000); // 1.6 TB/s, 800 TOPS
    assert_int_equal(PS_COMM_SHAPE_FLAT, ascend.profile.comm_shape);
    assert_int_equal(PS_JOIN_BARRIER, ascend.profile.join);
    assert_true(ascend.profile.cores == 24);
    assert_true(ascend.profile.memory_bytes == (uint64_t)64 << 30);
    // what an H200 does not say is an H100's
    assert_int_equal(PS_OK, ps_machine_open("h100", &USE, NULL, NULL, &h100));
    assert_int_equal(PS_OK, ps_machine_open("h200", &USE, NULL, NULL, &h200));
    assert_true(h200.read_gbs == 4800 && h100.read_gbs == 3350);
    assert_int_equal(PS_COMM_SHAPE_MESH, h100.profile.comm_shape);
    assert_true(h100.profile.server_ranks == 8 && h100.profile.server_comm_gbs > 0);
    assert_true(h200.int8_gops == h100.int8_gops && h200.profile.core_mm2 == h100.profile.core_mm2);
}

static void test_links_replace_a_machines_own(void **state)
{
    (void)state;
    ps_machine machine;
    ps_machine_notes notes;
    ps_arena arena;
    ps_machine_use use = USE;
    use.link = "latency=40us,bandwidth=8Gbps";
    ps_arena_init(&arena, 1 << 20);
    assert_int_equal(PS_OK, ps_machine_open("ascend-910b", &use, &arena, &notes, &machine));
    assert_true(machine.comm_ns == 40000 && machine.comm_gbs == 1);
    assert_int_equal(PS_COMM_SHAPE_FLAT, machine.profile.comm_shape);
    assert_int_equal(0, machine.profile.server_ranks);
    assert_int_equal(PS_OK, ps_machine_check(&machine, &notes));
    use.link = "latency=40";
    assert_int_equal(PS_INVALID, ps_machine_open("ascend-910b", &use, &arena, &notes, &machine));
    ps_arena_deinit(&arena);
}

static void test_names(void **state)
{
    (void)state;
    ps_machine machine = {.threads = 77};
    assert_int_equal(PS_NOT_FOUND, ps_machine_open("ascend-910", &USE, NULL, NULL, &machine));
    assert_non_null(strstr(ps_error_message(), "nearest is ascend-910b"));
    assert_non_null(strstr(ps_error_message(), "this, a100"));
    assert_int_equal(PS_NOT_FOUND, ps_machine_open("/nowhere/a.json", &USE, NULL, NULL, &machine));
    assert_int_equal(77, machine.threads);
    assert_int_equal(PS_OK, ps_machine_open("this", &USE, NULL, NULL, &machine));
    assert_int_equal(2, machine.threads);
    assert_string_equal(PS_RATES_DEFAULT, machine.source);
    assert_int_equal(PS_OK, ps_machine_open(NULL, &USE, NULL, NULL, &machine));
}

// ---- what a file says

// A value of a field in range, which any writer prints exactly.
static double made_value(ps_gen *gen, const ps_json_field *field)
{
    if (field->kind == PS_JSON_F64) {
        const double highest = field->highest > 1e6 ? 1e6 : field->highest;
        const double part = (double)ps_gen_range(gen, 0, 1 << 20) / (1 << 20);
        return field->lowest + part * (highest - field->lowest);
    }
    const int64_t highest = field->highest > 1e15 ? (int64_t)1e15 : (int64_t)field->highest;
    return (double)ps_gen_range(gen, (int64_t)field->lowest, highest);
}

static const char *const SHAPES[] = {"flat", "ring", "mesh", "tree"};
static const char *const JOINS[] = {"barrier", "event", "stream"};

typedef struct made_machine {
    char text[TEXT_BYTES];
    size_t length;
    double values[PS_MACHINE_KEYS_MAX]; // an enum's number
    bool is_noted[PS_MACHINE_KEYS_MAX];
} made_machine;

static void add(made_machine *made, const char *format, ...) PS_PRINTF(2, 3);
static void add(made_machine *made, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    made->length += (size_t)vsnprintf(made->text + made->length, TEXT_BYTES - made->length, format,
                                      arguments);
    va_end(arguments);
    assert_true(made->length < TEXT_BYTES);
}

static void add_value(made_machine *made, ps_gen *gen, const ps_json_field *field, double *out)
{
    if (field->kind == PS_JSON_COMM_SHAPE) {
        *out = (double)ps_gen_range(gen, 1, 3); // with steps
        add(made, "\"%s\"", SHAPES[(int)*out]);
    } else if (field->kind == PS_JSON_JOIN) {
        *out = (double)ps_gen_range(gen, 0, 2);
        add(made, "\"%s\"", JOINS[(int)*out]);
    } else if (field->kind == PS_JSON_BOOL) {
        *out = 1;
        add(made, "true");
    } else if (field->kind == PS_JSON_F64) {
        *out = made_value(gen, field);
        add(made, "%.17g", *out);
    } else {
        *out = made_value(gen, field);
        add(made, "%.0f", *out);
    }
}

static void make_text(made_machine *made, ps_gen *gen)
{
    const ps_json_field *field;
    made->length = 0;
    add(made, "{\"name\": \"made\", \"what\": \"of chance\"");
    for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
        if (field->kind == PS_JSON_TEXT) {
            continue;
        }
        made->is_noted[i] = ps_gen_range(gen, 0, 1) == 1;
        add(made, ", \"%s\": %s", field->key, made->is_noted[i] ? "{\"value\": " : "");
        add_value(made, gen, field, &made->values[i]);
        if (made->is_noted[i]) {
            add(made, ", \"source\": \"page %zu\", \"fitted\": %s}", i,
                i % 2 == 0 ? "true" : "false");
        }
    }
    add(made, "}");
}

static double number_at(const ps_machine *machine, const ps_json_field *field)
{
    const char *at = (const char *)machine + field->offset;
    uint32_t u32;
    uint64_t u64;
    double f64;
    memcpy(&u32, at, sizeof u32);
    memcpy(&u64, at, sizeof u64);
    memcpy(&f64, at, sizeof f64);
    return field->kind == PS_JSON_F64    ? f64
           : field->kind == PS_JSON_U64  ? (double)u64
           : field->kind == PS_JSON_BOOL ? (double)*(const bool *)at
                                         : (double)u32;
}

static void test_files_give_what_they_say(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static made_machine made;
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_machine_notes notes;
        ps_machine machine;
        ps_arena_init(&arena, 1 << 20);
        make_text(&made, &gen);
        if (parse(made.text, &arena, &notes, &machine) != PS_OK) {
            fail_msg("%s of %s", ps_error_message(), made.text);
        }
        assert_string_equal("made", machine.name);
        assert_string_equal("of chance", notes.what);
        const ps_json_field *field;
        for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
            if (field->kind == PS_JSON_TEXT) {
                continue;
            }
            char source[32];
            (void)snprintf(source, sizeof source, "page %zu", i);
            if (number_at(&machine, field) != made.values[i]) {
                fail_msg("%s is %g, not %g", field->key, number_at(&machine, field),
                         made.values[i]);
            }
            assert_true(notes.of[i].is_given);
            assert_int_equal(made.is_noted[i], notes.of[i].source != NULL);
            assert_int_equal(made.is_noted[i] && i % 2 == 0, notes.of[i].is_fitted);
            if (made.is_noted[i]) {
                assert_string_equal(source, notes.of[i].source);
            }
        }
        ps_arena_deinit(&arena);
    }
}

// ---- faults

#define GOOD                                                                                       \
    "{\"name\": \"a\", \"threads\": 1, \"l2_bytes\": 1048576, \"read_gbs\": 10,\n"                 \
    " \"cache_read_gbs\": 100, \"linear_share\": 1, \"int8_gops\": 500, \"f32_gops\": 100,\n"      \
    " \"barrier_ns\": 0, \"fill_gbs\": 9, \"comm_ns\": 1000, \"comm_gbs\": 5}"

static const struct {
    const char *find, *replace, *says;
} BAD[] = {
    {"\"threads\": 1", "\"threads\": 0", "threads: a whole number from 1"},
    {"\"threads\": 1", "\"threads\": 1.5", "threads: a whole number"},
    {"\"threads\": 1", "\"threads\": \"1\"", "threads"},
    {"\"read_gbs\": 10", "\"read_gb\": 10", "unknown key 'read_gb'; the nearest is 'read_gbs'"},
    {"\"read_gbs\": 10", "\"base_\": 10", "nearest is 'base'"},
    {"\"read_gbs\": 10", "\"read_gbs\": -1", "read_gbs: a number from"},
    {"\"read_gbs\": 10,", "", "'read_gbs' is missing"},
    {"\"comm_gbs\": 5", "\"comm_gbs\": 5, \"comm_gbs\": 5", "duplicate"},
    {"\"name\": \"a\",", "", "'name' is missing"},
    {"\"name\": \"a\"", "\"name\": \"a\\u001b\"", "name: a text"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"value\": 10, \"sorce\": \"x\"}",
     "read_gbs: unknown key 'sorce'; the nearest is 'source'"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"source\": \"x\"}", "read_gbs: 'value' is missing"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"value\": \"10\"}", "read_gbs: a number"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"value\": 10, \"unit\": \"MB/s\"}",
     "read_gbs: unit: 'MB/s'; GB/s would be right"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"value\": 10, \"fitted\": 1}",
     "read_gbs: fitted: true or false"},
    {"\"read_gbs\": 10", "\"read_gbs\": {\"value\": 10, \"source\": 3}",
     "read_gbs: source: a text"},
    {"\"linear_share\": 1", "\"linear_share\": {\"value\": 1, \"unit\": \"1\"}", "it has none"},
    {"5}", "5, \"comm_shape\": \"rings\"}", "comm_shape: 'rings' is none of"},
    {"5}", "5, \"comm_shape\": 1}", "comm_shape: one of \"flat\", \"ring\", \"mesh\", \"tree\""},
    {"5}", "5, \"comm_step_ns\": 1}", "comm_step_ns with a comm_shape that has no steps"},
    {"5}", "5, \"server_ranks\": 8}", "server_ranks without server_comm_gbs"},
    {"5}", "5, \"server_ranks\": 8, \"server_comm_gbs\": 1}", "server_ranks with a comm_shape"},
    {"5}", "5, \"server_comm_gbs\": 8}", "server_comm_gbs without server_ranks"},
    {"5}", "5, \"server_comm_ns\": 8}", "server_comm_ns without server_ranks"},
    {"5}", "5, \"attention_splits\": 8}", "attention_splits without cores"},
    {"5}", "5, \"host_gbs\": 8}", "host_gbs without host_bytes"},
    {"5}", "5, \"host_bytes\": 8}", "host_bytes without host_gbs"},
    {"5}", "5, \"disk_ns\": 8}", "disk_ns without disk_gbs"},
    {"5}", "5, \"core_mm2\": 8, \"l2_mm2_per_mib\": 1}", "l2_mm2_per_mib without area_nm"},
    {"5}", "5, \"area_nm\": 7}", "area_nm without core_mm2"},
    {"5}", "5, \"join\": \"event\"}", "join without \"prefetch_stream\""},
    {"5}", "5, \"weight_share\": 1.01}", "weight_share: a number from 0.001 to 1"},
    {"5}", "5, \"base\": \"a10\"}", "base: no machine 'a10'; the nearest of this, a100"},
    {"5}", "5, \"base\": 3}", "base: one of this, a100"},
    {"5}", "5, \"base\": \"/dev/null\"}", "base: no machine"},
    {"5}", "5, \"what\": 3}", "what: a text"},
    {"5}", "5", "line"},
    {"{", "[", "line"},
    {GOOD, "[]", "a JSON object would be right"},
    {GOOD, "", "line"},
};

static void test_faults_are_named(void **state)
{
    (void)state;
    ps_machine_notes notes;
    ps_machine machine;
    ps_arena arena;
    ps_arena_init(&arena, 16 << 20);
    assert_int_equal(PS_OK, parse(GOOD, &arena, &notes, &machine));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char text[4096];
        const char *at = strstr(GOOD, BAD[i].find);
        assert_non_null(at);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - GOOD), GOOD, BAD[i].replace,
                       at + strlen(BAD[i].find));
        assert_int_equal(PS_INVALID, parse(text, &arena, &notes, &machine));
        if (strstr(ps_error_message(), BAD[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", ps_error_message(), BAD[i].says);
        }
    }
    ps_arena_deinit(&arena);
}

static void test_bases(void **state)
{
    (void)state;
    ps_machine_notes notes;
    ps_machine machine;
    ps_machine a100;
    ps_arena arena;
    ps_arena_init(&arena, 1 << 20);
    assert_int_equal(PS_OK, ps_machine_open("a100", &USE, NULL, NULL, &a100));
    assert_int_equal(PS_OK,
                     parse("{\"base\": \"a100\", \"l2_bytes\": 1024}", &arena, &notes, &machine));
    assert_int_equal(1024, machine.l2_bytes);
    assert_true(machine.read_gbs == a100.read_gbs && machine.profile.cores == a100.profile.cores);
    assert_string_equal(a100.name, machine.name);
    assert_string_not_equal(a100.source, machine.source);
    assert_int_equal(PS_OK, parse("{\"base\": \"this\", \"source\": \"chance\", \"read_gbs\": 3}",
                                  &arena, &notes, &machine));
    assert_true(machine.threads == 2 && machine.read_gbs == 3);
    assert_string_equal("chance", machine.source);
    ps_arena_deinit(&arena);
}

// ---- damage

static void test_damage_does_no_harm(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t accepted = 0;
    uint32_t count = 0;
    const ps_data_file *files = ps_data_folder("machines", &count);
    for (uint32_t round = 0; round < DAMAGES; round++) {
        static const char BYTES[] = "0123456789-.eE\"{}[],:\\u\n\x01\xff";
        static char text[TEXT_BYTES];
        const ps_data_file *file = &files[ps_gen_range(&gen, 0, (int64_t)count - 1)];
        ps_arena arena;
        ps_machine_notes notes;
        ps_machine machine;
        assert_true(file->length < sizeof text);
        memcpy(text, file->text, file->length + 1);
        for (int64_t changes = ps_gen_range(&gen, 1, 3); changes > 0; changes--) {
            text[ps_gen_range(&gen, 0, (int64_t)file->length - 1)] =
                BYTES[ps_gen_range(&gen, 0, (int64_t)sizeof BYTES - 2)];
        }
        ps_arena_init(&arena, 1 << 20);
        if (parse(text, &arena, &notes, &machine) == PS_OK) {
            accepted++;
            assert_int_equal(PS_OK, ps_machine_check_rates(&machine));
            assert_int_equal(PS_OK, ps_machine_check(&machine, &notes));
            assert_true(machine.threads >= 1 && machine.l2_bytes >= 1);
            assert_true(machine.profile.comm_shape < PS_COMM_SHAPE_COUNT);
            assert_true(machine.profile.join < PS_JOIN_COUNT);
            assert_true(isfinite(machine.profile.core_mm2));
        } else {
            assert_true(ps_error_message()[0] != '\0');
        }
        ps_arena_deinit(&arena);
    }
    assert_true(accepted > 0 && accepted < DAMAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_machines_are_complete),
        cmocka_unit_test(test_shipped_numbers),
        cmocka_unit_test(test_links_replace_a_machines_own),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_files_give_what_they_say),
        cmocka_unit_test(test_faults_are_named),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_damage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
