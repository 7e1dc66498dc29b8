// Goal: sums, descriptions of links and checks of launchers do what their headers say.
// Method: sums against plain loops over random numbers; tables of texts; a made-up environment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "comm/comm.h"
#include "comm/launch.h"
#include "comm/sum.h"
#include "gen.h"

#include <string.h>

#define COUNT 1100

// The order is that of the ranks, parts do not matter, and the sum may replace any of the rows.
static void test_sum(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static float values[5][COUNT];
    static float copy[5][COUNT];
    static float expected[COUNT];
    static float sum[COUNT];
    for (int round = 0; round < 50; round++) {
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 5);
        const float *pointers[5];
        for (uint32_t r = 0; r < rows; r++) {
            for (int i = 0; i < COUNT; i++) {
                values[r][i] = ps_gen_float(&gen) * (float)(1 << ps_gen_range(&gen, 0, 20));
            }
            pointers[r] = copy[r];
        }
        for (int i = 0; i < COUNT; i++) {
            expected[i] = values[0][i];
            for (uint32_t r = 1; r < rows; r++) {
                expected[i] += values[r][i];
            }
        }
        const uint64_t middle = (uint64_t)ps_gen_range(&gen, 0, COUNT);
        for (uint32_t in_place = 0; in_place <= rows; in_place++) {
            memcpy(copy, values, sizeof copy);
            float *to = in_place < rows ? copy[in_place] : sum;
            ps_comm_sum(to, pointers, rows, middle, COUNT);
            ps_comm_sum(to, pointers, rows, 0, middle);
            assert_memory_equal(expected, to, sizeof expected);
        }
    }
}

static void test_link_right(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ps_comm_link link;
    } ROWS[] = {
        {"latency=40us,bandwidth=25Gbps", {40000, 25e9}},
        {"bandwidth=25Gbps,latency=40us", {40000, 25e9}},
        {"latency=0ns", {0, 0}},
        {"latency=1.5ms", {1500000, 0}},
        {"latency=10s", {10000000000, 0}},
        {"bandwidth=100Kbps", {0, 1e5}},
        {"bandwidth=0.5Tbps", {0, 5e11}},
        {"bandwidth=10Mbps", {0, 1e7}},
        {"bandwidth=13.7GB/s,latency=10us", {10000, 13.7 * 8e9}},
        {"bandwidth=1KB/s", {0, 8e3}},
        {"bandwidth=2MB/s", {0, 16e6}},
        {"bandwidth=1TB/s", {0, 8e12}},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        ps_comm_link link;
        assert_int_equal(PS_OK, ps_comm_link_parse(ROWS[i].text, &link));
        assert_true(link.latency_ns == ROWS[i].link.latency_ns);
        assert_true(link.bits_per_second == ROWS[i].link.bits_per_second);
    }
}

static void test_link_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } ROWS[] = {
        {"", "neither"},
        {"latency", "neither"},
        {"latency=", "not a number"},
        {"latency=40", "no known unit; there are ns, us, ms and s"},
        {"latency=40 us", "no known unit"},
        {"latency=us", "not a number"},
        {"latency=-1us", "not a number"},
        {"latency=.5us", "not a number"},
        {"latency=5.us", "not a number"},
        {"latency=1.2.3us", "not a number"},
        {"latency=1e3us", "no known unit"},
        {"latency=0x10us", "no known unit"},
        {"latency=infus", "not a number"},
        {"latency=11s", "more than 10 s"},
        {"latency=9999999999999999999999999999999999s", "not a number"},
        {"latency=1us,latency=1us", "latency is given twice"},
        {"latency=1us,", "neither"},
        {",latency=1us", "neither"},
        {"latency=1us,bandwith=1Gbps", "'bandwith=1Gbps' is neither"},
        {"bandwidth=25GB", "no known unit; there are Kbps, Mbps, Gbps and Tbps"},
        {"bandwidth=25gbps", "no known unit"},
        {"bandwidth=25Gb/s", "Gbps and Tbps, KB/s, MB/s, GB/s and TB/s"},
        {"bandwidth=0Gbps", "a bandwidth of 0"},
        {"bandwidth=0.00000000000000000001Kbps", "less than 1 Kbps"},
        {"bandwidth=0.1KB/s", "less than 1 Kbps"},
        {"bandwidth=1Gbps;latency=1us", "no known unit"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        ps_comm_link link = {.latency_ns = 77};
        assert_int_equal(PS_INVALID, ps_comm_link_parse(ROWS[i].text, &link));
        if (strstr(ps_error_message(), ROWS[i].says) == NULL) {
            print_message("%s: %s\n", ROWS[i].text, ps_error_message());
        }
        assert_non_null(strstr(ps_error_message(), ROWS[i].says));
        assert_true(link.latency_ns == 77);
    }
}

static void forget_launchers(void)
{
    static const char *const NAMES[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_SIZE",
                                        "MPI_LOCALNRANKS",
                                        "PMIX_RANK",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        (void)unsetenv(NAMES[i]);
    }
}

static void test_launchers(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        bool is_wrong; // in a job of one
    } ROWS[] = {
        {"OMPI_COMM_WORLD_SIZE", "4", true},
        {"OMPI_COMM_WORLD_SIZE", "1", false},
        {"PMI_SIZE", "2", true},
        {"PMI_SIZE", "1", false},
        {"MPI_LOCALNRANKS", "2", true},
        {"PMIX_RANK", "0", false},
        {"PMIX_RANK", "3", true},
        {"SLURM_STEP_NUM_TASKS", "8", true},
        {"SLURM_STEP_NUM_TASKS", "1", false},
        {"PMI_SIZE", "", false},
        {"PMI_SIZE", "many", false},
        {"SLURM_NTASKS", "8", false}, // of a whole allocation
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        forget_launchers();
        (void)setenv(ROWS[i].name, ROWS[i].value, 1);
        assert_int_equal(PS_OK, ps_comm_launcher_check(2));
        assert_int_equal(ROWS[i].is_wrong ? PS_INVALID : PS_OK, ps_comm_launcher_check(1));
        if (ROWS[i].is_wrong) {
            assert_non_null(strstr(ps_error_message(), ROWS[i].name));
            assert_non_null(strstr(ps_error_message(), "mpirun.openmpi"));
        }
    }
    forget_launchers();
    assert_int_equal(PS_OK, ps_comm_launcher_check(1));
}

static void test_crowds(void **state)
{
    (void)state;
    static const struct {
        ps_comm_crowd crowd;
        const char *says; // NULL: nothing
    } ROWS[] = {
        {{2, 1, 2, 2, false}, NULL},
        {{1, 2, 2, 2, false}, NULL},
        {{2, 2, 2, 2, false},
         "2 ranks with -t 2 share 2 CPUs: they will wait for each other; -t 1"},
        {{4, 4, 8, 16, false},
         "4 ranks with -t 4 share 8 CPUs: they will wait for each other; -t 2"},
        {{3, 1, 2, 2, false},
         "3 ranks with -t 1 share 2 CPUs: they will wait for each other; ranks up to 2"},
        {{2, 1, 1, 2, false},
         "2 ranks with -t 1 share 1 CPU: they will wait for each other; ranks up to 1"},
        {{2, 4, 1, 8, true},
         "lets this one use 1 of 8 CPUs: give mpirun --bind-to none or --map-by slot:PE=4"},
        {{2, 4, 4, 8, true}, NULL},
        {{2, 4, 8, 8, true}, NULL},
        {{4, 4, 4, 8, true}, "4 ranks with -t 4 share 8 CPUs"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[256] = "";
        assert_int_equal(ROWS[i].says != NULL,
                         ps_comm_crowd_warning(&ROWS[i].crowd, text, sizeof text));
        if (ROWS[i].says != NULL) {
            assert_non_null(strstr(text, ROWS[i].says));
        }
    }
    forget_launchers();
    const ps_comm_crowd alone = ps_comm_crowd_here(3, 2);
    assert_int_equal(3, alone.ranks);
    assert_int_equal(2, alone.rank_threads);
    assert_true(alone.cpus_allowed >= 1 && alone.cpus_allowed <= alone.cpus);
    assert_false(alone.is_bound);
    (void)setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "5", 1);
    const ps_comm_crowd started = ps_comm_crowd_here(9, 2);
    assert_int_equal(5, started.ranks);
    assert_true(started.is_bound);
    forget_launchers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),        cmocka_unit_test(test_link_right),
        cmocka_unit_test(test_link_wrong), cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_crowds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
