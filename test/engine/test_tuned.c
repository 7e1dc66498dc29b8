// ctest-labels: prop;file
// Goal: what was measured is read as it was written, for the machine it was measured on and for no
// other; whatever else the file holds is refused with a line.
// Method: a file written here, read back field by field; cut at every byte, changed from a printed
// seed, and with each part of its key changed.
#include "engine/engine_test.h"
// this includes what cmocka wants first
#include "engine/machine_open.h"
#include "engine/tuned.h"
#include "gen.h"

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <unistd.h>

#define ROUNDS 2000

static char folder[] = "/tmp/prestage-tuned-XXXXXX";

static ps_tuned made(void)
{
    ps_tuned tuned = {
        .key = {.version = "0.1.0",
                .name = "A \"CPU\"",
                .isa = "avx2",
                .threads = 2,
                .cpus = 4,
                .l2_bytes = 1 << 20,
                .llc_bytes = 32 << 20,
                .ranks = 2,
                .ranks_here = 2,
                .comm = "local",
                .latency_ns = 40000,
                .bits_per_second = 25e9},
        .date = "2026-11-29",
        .machine = {.name = "A \"CPU\"",
                    .threads = 2,
                    .l2_bytes = 1 << 20,
                    .llc_bytes = 32 << 20,
                    .read_gbs = 33.25,
                    .cache_read_gbs = 217.1,
                    .linear_share = 0.9,
                    .int8_gops = 300,
                    .f32_gops = 100.125,
                    .barrier_ns = 96.3,
                    .fill_gbs = 31,
                    .comm_ns = 40123.5,
                    .comm_gbs = 3.0 / 7,
                    .workers = {.read_gbs = 30.5,
                                .kv_gbs = 17.25,
                                .attention_gops = 44.5,
                                .linear_gops = {[PS_DTYPE_Q4_0] = 270.5, [PS_DTYPE_Q6_K] = 211},
                                .overlap = 0.875,
                                .vector_gbs = 34,
                                .meet_ns = 1100,
                                .step_ns = 290.5},
                    .source = "tuned 2026-11-29"},
        .comm = {.way = 1, .gather_bytes_max = 65536, .ns = 40123.5, .gbs = 3.0 / 7},
        .fill_count = 2,
        .fills = {{PS_FILL_LOADS, false, 31, 220, 30, 90}, {PS_FILL_T1, true, 29, 110, 0, 0}},
        .collective_count = 2,
        .collectives = {{256, 40000.5}, {65536, 60000}},
    };
    return tuned;
}

static void path_of(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
}

static void write_bytes(const char *path, const char *bytes, size_t count)
{
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(descriptor >= 0);
    assert_int_equal(count, write(descriptor, bytes, count));
    assert_int_equal(0, close(descriptor));
}

static ps_buffer text_of(const ps_tuned *tuned)
{
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_tuned_print(tuned, &text));
    return text;
}

static void test_written_and_read(void **state)
{
    (void)state;
    char path[128];
    const ps_tuned tuned = made();
    ps_tuned back;
    path_of("new/folders/a.json", path);
    assert_int_equal(PS_OK, ps_tuned_write(&tuned, path, false));
    assert_int_equal(PS_INVALID, ps_tuned_write(&tuned, path, false));
    assert_int_equal(PS_OK, ps_tuned_write(&tuned, path, true));
    assert_int_equal(PS_OK, ps_tuned_read(path, &tuned.key, &back));
    ps_buffer left = text_of(&tuned);
    ps_buffer right = text_of(&back);
    assert_string_equal(left.data, right.data); // all digits
    assert_true(tuned.machine.comm_gbs == back.machine.comm_gbs);
    assert_string_equal("tuned 2026-11-29", back.machine.source);
    assert_true(back.comm.way == 1 && back.comm.gather_bytes_max == 65536);
    assert_true(back.fill_count == 2 && back.fills[1].primitive == PS_FILL_T1 &&
                back.fills[1].is_paced && back.collective_count == 2 &&
                back.collectives[1].bytes == 65536);

    ps_machine machine = {0};
    assert_int_equal(PS_OK,
                     ps_machine_open(path, &(ps_machine_use){.threads = 7}, NULL, NULL, &machine));
    assert_true(machine.threads == 2 && machine.comm_ns == tuned.machine.comm_ns);
    ps_buffer_deinit(&left);
    ps_buffer_deinit(&right);
}

static void test_every_part_of_the_key_counts(void **state)
{
    (void)state;
    char path[128];
    const ps_tuned tuned = made();
    ps_tuned_key keys[12];
    static const char *const NAMES[12] = {
        "version",   "name",  "isa",        "threads", "cpus",       "l2_bytes",
        "llc_bytes", "ranks", "ranks_here", "comm",    "latency_ns", "bits_per_second"};
    for (int i = 0; i < 12; i++) {
        keys[i] = tuned.key;
    }
    keys[0].version[0] = '1';
    keys[1].name[0] = 'B';
    keys[2].isa[0] = 'b';
    keys[3].threads++;
    keys[4].cpus++;
    keys[5].l2_bytes++;
    keys[6].llc_bytes++;
    keys[7].ranks++;
    keys[8].ranks_here++;
    keys[9].comm[0] = 'x';
    keys[10].latency_ns++;
    keys[11].bits_per_second *= 2;
    path_of("key.json", path);
    assert_int_equal(PS_OK, ps_tuned_write(&tuned, path, true));
    assert_int_equal(0, setenv("PRESTAGE_CACHE", folder, 1));
    char own[PS_TUNED_PATH_BYTES];
    assert_int_equal(PS_OK, ps_tuned_path(&tuned.key, own));
    for (int i = 0; i < 12; i++) {
        char says[64];
        char other[PS_TUNED_PATH_BYTES];
        ps_tuned back;
        (void)snprintf(says, sizeof says, "its %s is ", NAMES[i]);
        assert_int_equal(PS_INVALID, ps_tuned_read(path, &keys[i], &back));
        assert_non_null(strstr(ps_error_message(), says));
        assert_int_equal(PS_OK, ps_tuned_path(&keys[i], other));
        assert_string_not_equal(own, other);
    }
    ps_tuned found;
    assert_false(ps_tuned_find(&tuned.key, &found));
    assert_int_equal(PS_OK, ps_tuned_write(&tuned, own, false));
    assert_true(ps_tuned_find(&tuned.key, &found));
    write_bytes(own, "{", 1);
    assert_false(ps_tuned_find(&tuned.key, &found));
}

static void test_where_it_lies(void **state)
{
    (void)state;
    char path[PS_TUNED_PATH_BYTES];
    const ps_tuned tuned = made();
    assert_int_equal(0, setenv("PRESTAGE_CACHE", "/a/b", 1));
    assert_int_equal(0, setenv("XDG_CACHE_HOME", "/c", 1));
    assert_int_equal(0, setenv("HOME", "/d", 1));
    assert_int_equal(PS_OK, ps_tuned_path(&tuned.key, path));
    assert_true(strncmp(path, "/a/b/machine-", 13) == 0 && strstr(path, ".json") != NULL);
    assert_int_equal(0, unsetenv("PRESTAGE_CACHE"));
    assert_int_equal(PS_OK, ps_tuned_path(&tuned.key, path));
    assert_true(strncmp(path, "/c/prestage/machine-", 20) == 0);
    assert_int_equal(0, setenv("XDG_CACHE_HOME", "relative", 1));
    assert_int_equal(PS_OK, ps_tuned_path(&tuned.key, path));
    assert_true(strncmp(path, "/d/.cache/prestage/machine-", 27) == 0);
    assert_int_equal(0, unsetenv("HOME"));
    assert_int_equal(PS_NOT_FOUND, ps_tuned_path(&tuned.key, path));
    ps_tuned found;
    assert_false(ps_tuned_find(&tuned.key, &found));
}

static const struct {
    const char *find, *replace, *says;
    ps_status status;
} BAD[] = {
    {"\"prestage_tune\": 2", "\"prestage_tune\": 1", "format", PS_UNSUPPORTED},
    {"\"prestage_tune\": 2", "\"prestage_tune\": 2.0", "format", PS_UNSUPPORTED},
    {"\"prestage_tune\": 2", "\"prestage_tuna\": 2", "prestage tune wrote", PS_INVALID},
    {"\"date\"", "\"data\"", "'date'", PS_INVALID},
    {"\"date\": \"2026-11-29\"", "\"date\": \"2026-11-29-12-00\"", "date: a text", PS_INVALID},
    {"\"date\": \"2026-11-29\"", "\"date\": \"2026\\u001b[1m\"", "control", PS_INVALID},
    {"\"way\": 1", "\"way\": 1, \"way\": 1", "line", PS_INVALID},
    {"\"way\": 1", "\"way\": -1", "comm: way: a whole number", PS_INVALID},
    {"\"way\": 1", "\"way\": 4294967297", "comm: way", PS_INVALID},
    {"\"way\": 1", "\"weigh\": 1", "nearest is 'way'", PS_INVALID},
    {"\"threads\": 2", "\"threads\": 3", "not that of its key", PS_INVALID},
    {"\"read_gbs\": 33.25", "\"read_gbs\": 0", "machine: read_gbs", PS_INVALID},
    {"\"read_gbs\": 33.25", "\"read_gbs\": 1e999", "line", PS_INVALID},
    {"\"read_gbs\": 33.25", "\"read_gbs\": null", "read_gbs", PS_INVALID},
    {"\"read_gbs\": 33.25,", "", "machine: 'read_gbs' is missing", PS_INVALID},
    {"\"overlap\": 0.875", "\"overlap\": 1.1", "machine: overlap", PS_INVALID},
    {"\"kv_gbs\": 17.25,", "", "machine: 'kv_gbs' is missing", PS_INVALID},
    {"\"paced\": true", "\"paced\": 1", "fills: paced", PS_INVALID},
    {"\"primitive\": 2", "\"primitive\": 4", "fills: primitive", PS_INVALID},
    {"\"collectives\": [", "\"collectives\": 3, \"x\": [", "collectives: a list", PS_INVALID},
    {"\"collectives\": [", "\"collectives\": [{}, ", "collectives: 'bytes' is missing", PS_INVALID},
};

static void test_bad_files_are_refused(void **state)
{
    (void)state;
    char path[128];
    ps_tuned back;
    const ps_tuned tuned = made();
    ps_buffer text = text_of(&tuned);
    path_of("bad.json", path);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        const char *at = strstr(text.data, BAD[i].find);
        char bad[8192];
        assert_non_null(at);
        const int length = snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text.data), text.data,
                                    BAD[i].replace, at + strlen(BAD[i].find));
        write_bytes(path, bad, (size_t)length);
        assert_int_equal(BAD[i].status, ps_tuned_read(path, NULL, &back));
        if (strstr(ps_error_message(), BAD[i].says) == NULL ||
            strstr(ps_error_message(), path) == NULL) {
            fail_msg("'%s' does not say '%s'", ps_error_message(), BAD[i].says);
        }
    }
    // cut anywhere; only the newline at the end may be missing
    for (size_t length = 0; length + 2 < text.length; length++) {
        write_bytes(path, text.data, length);
        assert_int_equal(PS_INVALID, ps_tuned_read(path, NULL, &back));
    }
    assert_int_equal(PS_NOT_FOUND, ps_tuned_read("/nowhere", NULL, &back));
    assert_int_equal(PS_INVALID, ps_tuned_read(folder, NULL, &back));
    ps_buffer_deinit(&text);
}

static bool is_sane(double rate)
{
    return isfinite(rate) && rate >= 0;
}

static void test_damage_does_no_harm(void **state)
{
    (void)state;
    char path[128];
    ps_gen gen = ps_gen_start();
    const ps_tuned tuned = made();
    ps_buffer text = text_of(&tuned);
    uint32_t accepted = 0;
    path_of("damaged.json", path);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        static const char BYTES[] = "0123456789-.eE\"{}[],:\\u";
        const size_t at = (size_t)ps_gen_range(&gen, 0, (int64_t)text.length - 1);
        const char was = text.data[at];
        ps_tuned back;
        text.data[at] = BYTES[ps_gen_range(&gen, 0, (int64_t)sizeof BYTES - 2)];
        write_bytes(path, text.data, text.length);
        text.data[at] = was;
        if (ps_tuned_read(path, NULL, &back) == PS_OK) {
            accepted++;
            assert_true(is_sane(back.machine.read_gbs) && back.machine.read_gbs > 0);
            assert_true(is_sane(back.machine.comm_ns) && back.machine.comm_gbs > 0);
            assert_true(back.fill_count <= PS_FILL_RATES_MAX &&
                        back.collective_count <= PS_TUNED_COLLECTIVES_MAX);
            assert_true(strlen(back.machine.name) < sizeof back.machine.name);
        } else {
            assert_true(ps_error_message()[0] != '\0');
        }
    }
    assert_true(accepted > 0 && accepted < ROUNDS);
    ps_buffer_deinit(&text);
}

// Read again as fast as after loads: kept. As slowly as at first: dropped.
static void test_what_is_kept(void **state)
{
    (void)state;
    const ps_fill_rates loads = {.l2_gbs = 40, .l2_again_gbs = 200};
    assert_true(fabs(ps_fill_kept(&loads, &loads) - 1) < 1e-9);
    assert_true(ps_fill_kept(&loads, &(ps_fill_rates){.l2_again_gbs = 40}) < 1e-9);
    // half of the bytes at 40, half at 200
    const ps_fill_rates half = {.l2_again_gbs = 2 / (1.0 / 40 + 1.0 / 200)};
    assert_true(fabs(ps_fill_kept(&loads, &half) - 0.5) < 1e-9);
    assert_true(ps_fill_kept(&loads, &(ps_fill_rates){.l2_again_gbs = 300}) <= 1);
    assert_true(ps_fill_kept(&loads, &(ps_fill_rates){.l2_again_gbs = 20}) >= 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_every_part_of_the_key_counts),
        cmocka_unit_test(test_bad_files_are_refused),
        cmocka_unit_test(test_damage_does_no_harm),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_where_it_lies),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
