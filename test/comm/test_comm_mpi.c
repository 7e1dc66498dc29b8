// ctest-labels: unit;cts;fault
// ctest-timeout: 180
// Goal: the mpi back end keeps the contract of comm/comm.h; lost and diverged ranks and wrong
// launchers end the job soon, with one line.
// Method: this program starts itself under mpirun with a scenario's name; without mpirun, or built
// without MPI, it is skipped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/status.h"
#include "comm_cases.h"

#include <signal.h>
#include <sys/wait.h>

static const char *program;
static uint64_t seed;

typedef struct outcome {
    int code; // of mpirun; -1: a signal
    double seconds;
    char output[16384];
    uint32_t told; // lines that start with "told: "
} outcome;

static void run_command(const char *command, outcome *out)
{
    const uint64_t start = now_us();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t length = fread(out->output, 1, sizeof out->output - 1, pipe);
    out->output[length] = '\0';
    const int status = pclose(pipe);
    out->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->seconds = (double)(now_us() - start) * 1e-6;
    out->told = 0;
    for (const char *at = out->output; (at = strstr(at, "told: ")) != NULL; at++) {
        out->told++;
    }
}

static void run_mpi(uint32_t ranks, const char *scenario, outcome *out)
{
    char command[1024];
    (void)snprintf(command, sizeof command,
                   "timeout -k 5 60 mpirun -n %u --oversubscribe --bind-to none '%s' %s %llu 2>&1",
                   ranks, program, scenario, (unsigned long long)seed);
    run_command(command, out);
}

// ---- what the ranks do ----

static ps_status do_cases(ps_comm *comm)
{
    job j = {.comm = comm, .seed = seed, .rounds = 10000};
    run_cases(&j);
    return PS_OK;
}

static ps_status do_lose(ps_comm *comm, int signal, uint32_t victim)
{
    float values[5000] = {0};
    float scratch[5000 * 4];
    for (uint32_t i = 0; i < 100; i++) {
        PS_TRY(ps_comm_all_reduce_start(comm, i, values, 5000, scratch));
        if (i == 50 && ps_comm_rank(comm) == victim) {
            (void)raise(signal);
        }
        PS_TRY(ps_comm_wait(comm));
    }
    return PS_OK;
}

static ps_status do_stop(ps_comm *comm)
{
    return do_lose(comm, SIGSTOP, 1);
}

static ps_status do_stop_rank_0(ps_comm *comm)
{
    return do_lose(comm, SIGSTOP, 0);
}

static ps_status do_kill(ps_comm *comm)
{
    return do_lose(comm, SIGKILL, 1);
}

static ps_status do_diverge(ps_comm *comm)
{
    static float values[50000];
    static float scratch[50000 * 4];
    const bool is_odd = ps_comm_rank(comm) == 1;
    PS_TRY(ps_comm_all_reduce_start(comm, 5, values, is_odd ? 40000 : 50000, scratch));
    return ps_comm_wait(comm);
}

static ps_status do_mismatch(ps_comm *comm)
{
    const char *options = ps_comm_rank(comm) == 1 ? "tp=2 seed=2" : "tp=2 seed=1";
    const ps_comm_identity identity = {"1.0", 1, ps_comm_rank(comm) == 1 ? 2 : 1, options};
    return ps_comm_handshake(comm, &identity);
}

static ps_status do_give_up(ps_comm *comm)
{
    PS_TRY(ps_comm_barrier_start(comm, 1));
    PS_TRY(ps_comm_wait(comm));
    if (ps_comm_rank(comm) == 1) {
        const ps_status status = ps_fail(PS_IO, "model.gguf: no such file");
        ps_comm_give_up(comm, status);
        return status;
    }
    PS_TRY(ps_comm_barrier_start(comm, 2));
    return ps_comm_wait(comm);
}

static const struct {
    const char *name;
    ps_status (*run)(ps_comm *comm);
} SCENARIOS[] = {
    {"cases", do_cases},    {"stop", do_stop},       {"stop0", do_stop_rank_0},
    {"kill", do_kill},      {"diverge", do_diverge}, {"mismatch", do_mismatch},
    {"giveup", do_give_up},
};

static int be_rank(const char *name)
{
    // mpirun needs about a second to end a job that one rank has left. A rank 0 that was stopped
    // goes on for that second, which is more than the others would then be late by; where a rank
    // gives up by itself, nobody may be found late before.
    const bool is_ended = strcmp(name, "giveup") == 0;
    const bool is_short = strcmp(name, "stop0") == 0;
    const ps_comm_options options = {.timeout_ns = is_ended   ? 0
                                                   : is_short ? 500000000
                                                              : 1000000000};
    ps_comm *comm = NULL;
    if (ps_comm_mpi_open(&options, &comm) != PS_OK) {
        printf("told: %s\n", ps_error_message());
        return 2;
    }
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof SCENARIOS[0]; i++) {
        if (strcmp(name, SCENARIOS[i].name) == 0) {
            const ps_status status = SCENARIOS[i].run(comm);
            if (status != PS_OK && ps_comm_speaks(comm)) {
                printf("told: %s\n", ps_error_message());
                fflush(stdout);
            }
            const ps_status closed = ps_comm_close(comm);
            return status != PS_OK || closed != PS_OK ? 3 : 0;
        }
    }
    return 4;
}

// ---- tests ----

static void test_cases(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        outcome out;
        run_mpi(ranks, "cases", &out);
        print_message("mpi, %u ranks: %.2f s\n%s", ranks, out.seconds, out.output);
        assert_int_equal(0, out.code);
        assert_int_equal(0, out.told);
    }
}

static void check_told(const outcome *out, const char *text)
{
    print_message("%.2f s, code %d: %s\n", out->seconds, out->code, out->output);
    assert_int_not_equal(0, out->code);
    assert_int_equal(1, out->told);
    assert_non_null(strstr(out->output, text));
    assert_true(out->seconds < 10);
}

static void test_stopped(void **state)
{
    (void)state;
    outcome out;
    run_mpi(3, "stop", &out);
    check_told(&out, "rank 1 has not come to collective 51");
    run_mpi(2, "stop0", &out);
    check_told(&out, "rank 0 has not come to collective 51");
}

// mpirun sees it first, and says which rank it was.
static void test_killed(void **state)
{
    (void)state;
    outcome out;
    run_mpi(3, "kill", &out);
    assert_int_not_equal(0, out.code);
    assert_non_null(strstr(out.output, "signal 9"));
    assert_true(out.seconds < 10);
}

static void test_diverged(void **state)
{
    (void)state;
    outcome out;
    run_mpi(3, "diverge", &out);
    check_told(&out, "the ranks have diverged");
}

static void test_mismatch(void **state)
{
    (void)state;
    outcome out;
    run_mpi(3, "mismatch", &out);
    check_told(&out, "rank 1 was started with 'seed=2', rank 0 with 'seed=1'");
}

static void test_give_up(void **state)
{
    (void)state;
    outcome out;
    run_mpi(3, "giveup", &out);
    check_told(&out, "rank 1: model.gguf: no such file");
}

// Another MPI's mpirun starts copies that each are rank 0 of 1.
static void test_wrong_launcher(void **state)
{
    (void)state;
    char command[1024];
    (void)snprintf(command, sizeof command, "PMI_SIZE=4 PMI_RANK=0 timeout 60 '%s' cases 1 2>&1",
                   program);
    outcome out;
    run_command(command, &out);
    check_told(&out, "PMI_SIZE=4");
    assert_int_equal(2, out.code);
}

// Without a launcher it is a job of one.
static void test_alone(void **state)
{
    (void)state;
    char command[1024];
    (void)snprintf(command, sizeof command, "timeout 60 '%s' cases 1 2>&1", program);
    outcome out;
    run_command(command, &out);
    assert_int_equal(0, out.code);
}

static bool is_here(const char *command)
{
    return system(command) == 0; // NOLINT(bugprone-command-processor)
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        seed = strtoull(argv[2], NULL, 10);
        return be_rank(argv[1]);
    }
    program = argv[0];
    ps_comm *none = NULL;
#ifndef PS_HAVE_MPI
    if (ps_comm_mpi_open(NULL, &none) != PS_UNSUPPORTED) {
        return 1;
    }
    printf("skipped: built without MPI\n");
    return 77;
#endif
    (void)none;
    if (!is_here("mpirun --version 2>&1 | grep -q 'Open MPI'")) {
        printf("skipped: there is no mpirun of Open MPI\n");
        return 77;
    }
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // MPI's own are many
    // It refuses root otherwise.
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    seed = ps_gen_start().state;
    fflush(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),          cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed),         cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_mismatch),       cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_wrong_launcher), cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
