// ctest-labels: unit;cts;fault
// ctest-timeout: 180
// Goal: every back end keeps the contract of comm/comm.h; a rank that dies, stalls or diverges ends
// the others, with one message, soon.
// Method: each job is a process of its own that forks its ranks; every rank runs the cases of
// comm_cases.h or loses a rank on purpose, and leaves what it saw in shared memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/status.h"
#include "comm/comm_internal.h"
#include "comm_cases.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define JOB_SECONDS_MAX 60

typedef struct seen {
    bool is_there;
    bool speaks;
    ps_status status;
    ps_status again; // of a collective started after the failure
    pid_t pid;
    char message[512];
    char message_again[512];
} seen;

static seen *all_seen; // [PS_COMM_RANKS_MAX], shared by all processes
static uint64_t seed;

typedef struct scenario {
    const char *name;
    uint32_t size;
    ps_comm_options options;
    const char *link;                // sim over local; NULL: local
    ps_status (*run)(ps_comm *comm); // what each rank does
    int signal;                      // that ends or stops `victim`
    uint32_t victim;
} scenario;

static ps_status run_all_cases(ps_comm *comm)
{
    const uint32_t size = ps_comm_size(comm);
    (void)ps_comm_set_way(comm, size % 2); // both ways of local, whatever the machine likes
    job j = {.comm = comm, .seed = seed, .rounds = 10000};
    if (strcmp(ps_comm_backend_name(comm), "sim") == 0 || size > 4) {
        j.rounds = 1000; // slow ones
    }
    run_cases(&j);
    return PS_OK;
}

static ps_comm *open_ranks(const scenario *s)
{
    ps_comm *comm = NULL;
    if (ps_comm_local_fork(s->size, &s->options, &comm) != PS_OK) {
        _exit(4);
    }
    ps_comm_link link;
    if (s->link != NULL && (ps_comm_link_parse(s->link, &link) != PS_OK ||
                            ps_comm_sim_open_take(comm, &link, &comm) != PS_OK)) {
        _exit(5);
    }
    return comm;
}

// One rank, from its birth to its exit code.
static void be_rank(const scenario *s)
{
    ps_comm *comm = open_ranks(s);
    const uint32_t rank = ps_comm_rank(comm);
    (void)alarm(JOB_SECONDS_MAX);
    seen *own = &all_seen[rank];
    own->pid = getpid();
    own->status = s->run(comm);
    own->speaks = ps_comm_speaks(comm);
    (void)snprintf(own->message, sizeof own->message, "%s", ps_error_message());
    if (own->status != PS_OK) {
        own->again = ps_comm_barrier_start(comm, 0);
        (void)snprintf(own->message_again, sizeof own->message_again, "%s", ps_error_message());
    }
    own->is_there = true;
    const ps_status closed = ps_comm_close(comm);
    fflush(NULL);
    _exit(own->status != PS_OK ? 3 : closed != PS_OK ? 6 : 0);
}

// Returns the wait status of rank 0, and how long it took.
static int run_job(const scenario *s, double *out_seconds)
{
    memset(all_seen, 0, PS_COMM_RANKS_MAX * sizeof *all_seen);
    fflush(NULL);
    const uint64_t start = now_us();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        be_rank(s);
    }
    int status = 0;
    const bool is_stopped = s->signal == SIGSTOP && s->victim == 0;
    if (is_stopped) {
        // Rank 0 will not end by itself, but all others must.
        for (uint32_t r = 1; r < s->size; r++) {
            while (!all_seen[r].is_there && now_us() - start < 20000000) {
                sleep_us(1000);
            }
        }
        *out_seconds = (double)(now_us() - start) * 1e-6;
        (void)kill(pid, SIGKILL);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    if (!is_stopped) {
        *out_seconds = (double)(now_us() - start) * 1e-6;
    }
    return status;
}

static void test_local(void **state)
{
    (void)state;
    static const uint32_t COUNTS[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        const scenario s = {.size = COUNTS[i], .run = run_all_cases};
        double seconds;
        const int status = run_job(&s, &seconds);
        print_message("local, %u ranks: %.2f s\n", COUNTS[i], seconds);
        assert_true(WIFEXITED(status));
        assert_int_equal(0, WEXITSTATUS(status));
    }
}

static void test_sim_over_local(void **state)
{
    (void)state;
    const scenario s = {.size = 2, .link = "latency=20us,bandwidth=10Gbps", .run = run_all_cases};
    double seconds;
    const int status = run_job(&s, &seconds);
    print_message("sim over local, 2 ranks: %.2f s\n", seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
}

static void run_cases_here(ps_comm *comm)
{
    job j = {.comm = comm, .seed = seed, .is_simulated = ps_comm_size(comm) > 1, .rounds = 1000};
    run_cases(&j);
    assert_int_equal(PS_OK, ps_comm_close(comm));
}

static void test_self(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 4; size++) {
        ps_comm *comm = NULL;
        assert_int_equal(PS_OK, ps_comm_self_open(size, NULL, &comm));
        run_cases_here(comm);
        const ps_comm_link link = {.latency_ns = 5000};
        ps_comm *sim = NULL;
        assert_int_equal(PS_OK, ps_comm_self_open(size, NULL, &comm));
        assert_int_equal(PS_OK, ps_comm_sim_open_take(comm, &link, &sim));
        run_cases_here(sim);
    }
    ps_comm *none = NULL;
    assert_int_equal(PS_INVALID, ps_comm_self_open(0, NULL, &none));
    assert_int_equal(PS_INVALID, ps_comm_self_open(PS_COMM_RANKS_MAX + 1, NULL, &none));
    assert_int_equal(PS_INVALID, ps_comm_local_fork(0, NULL, &none));
    assert_int_equal(PS_INVALID, ps_comm_local_fork(PS_COMM_RANKS_MAX + 1, NULL, &none));
    assert_int_equal(PS_OK, ps_comm_close(NULL));
}

// A collective takes latency plus bytes over bandwidth, and not much more.
static void test_sim_delays(void **state)
{
    (void)state;
    ps_comm *comm = NULL;
    ps_comm_link link;
    assert_int_equal(PS_OK, ps_comm_link_parse("bandwidth=800Mbps,latency=2ms", &link));
    assert_int_equal(PS_OK, ps_comm_self_open(2, NULL, &comm));
    assert_int_equal(PS_OK, ps_comm_sim_open_take(comm, &link, &comm));
    static char all[2 * 100000];
    const uint64_t sizes[2] = {100000, 100000};
    uint64_t best_us = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t start = now_us();
        assert_int_equal(PS_OK, ps_comm_all_gather_start(comm, 0, all, all, sizes));
        assert_int_equal(PS_OK, ps_comm_wait(comm));
        const uint64_t us = now_us() - start;
        assert_true(us >= 2999); // 2 ms + 100 kB at 100 MB/s
        best_us = us < best_us ? us : best_us;
    }
    assert_true(best_us < 6000);
    assert_int_equal(PS_OK, ps_comm_close(comm));
}

// ---- ranks that are lost ----

#define LOSE_AT 50u

static const scenario *losing; // set before the job is forked

static ps_status run_and_lose(ps_comm *comm)
{
    float values[5000];
    float scratch[5000 * 8];
    memset(values, 0, sizeof values);
    for (uint32_t i = 0; i < 1000; i++) {
        if (i == LOSE_AT && ps_comm_rank(comm) == losing->victim) {
            (void)raise(losing->signal);
        }
        PS_TRY(ps_comm_all_reduce_start(comm, i, values, 5000, scratch));
        if (i == 2 * LOSE_AT && ps_comm_rank(comm) == losing->victim) {
            (void)raise(losing->signal);
        }
        PS_TRY(ps_comm_wait(comm));
    }
    return PS_OK;
}

static ps_status run_and_lose_within(ps_comm *comm)
{
    static char all[8 * 500000];
    const uint64_t sizes[8] = {500000, 500000, 500000, 500000, 500000, 500000, 500000, 500000};
    for (uint32_t i = 0; i < 1000; i++) {
        char *own = all + (size_t)ps_comm_rank(comm) * 500000;
        PS_TRY(ps_comm_all_gather_start(comm, i, own, all, sizes));
        bool done = false;
        PS_TRY(ps_comm_test(comm, &done));
        if (i == 5 && ps_comm_rank(comm) == losing->victim) {
            (void)raise(losing->signal);
        }
        PS_TRY(ps_comm_wait(comm));
    }
    return PS_OK;
}

// The others wait for rank 0's next message when they lose it or each other.
static ps_status run_and_lose_idle(ps_comm *comm)
{
    char message[16] = "next";
    uint64_t bytes = 4;
    if (ps_comm_rank(comm) == losing->victim) {
        (void)raise(losing->signal);
    }
    if (ps_comm_rank(comm) == 0) {
        sleep_us(900000); // above the timeout: idling is no fault
    }
    PS_TRY(ps_comm_broadcast_start(comm, 0, message, sizeof message, &bytes));
    return ps_comm_wait(comm);
}

static void check_lost(const scenario *s, double seconds, double seconds_max)
{
    char name[32];
    (void)snprintf(name, sizeof name, "rank %u", s->victim);
    uint32_t speakers = 0;
    for (uint32_t r = 0; r < s->size; r++) {
        const seen *rank = &all_seen[r];
        if (r == s->victim) {
            assert_false(rank->is_there);
            continue;
        }
        if (rank->is_there && rank->speaks) {
            print_message("%s: %.2f s: rank %u says: %s\n", s->name, seconds, r, rank->message);
        }
        assert_true(rank->is_there);
        assert_int_equal(PS_LOST, rank->status);
        assert_int_equal(PS_LOST, rank->again);
        assert_string_equal(rank->message, rank->message_again);
        assert_non_null(strstr(rank->message, name));
        assert_null(strchr(rank->message, '\n'));
        speakers += rank->speaks;
    }
    assert_int_equal(1, speakers);
    assert_true(seconds < seconds_max);
}

static void test_lost(void **state)
{
    (void)state;
    const ps_comm_options brief = {.timeout_ns = 600000000};
    const scenario LOSSES[] = {
        {"killed 2", 2, {0}, NULL, run_and_lose, SIGKILL, 1},
        {"killed 4", 4, {0}, NULL, run_and_lose, SIGKILL, 2},
        {"killed within", 4, {0}, NULL, run_and_lose_within, SIGKILL, 3},
        {"killed idle", 4, {0}, NULL, run_and_lose_idle, SIGKILL, 3},
        {"killed sim", 2, {0}, "latency=10us", run_and_lose, SIGKILL, 1},
        {"stopped 2", 2, brief, NULL, run_and_lose, SIGSTOP, 1},
        {"stopped 4", 4, brief, NULL, run_and_lose, SIGSTOP, 3},
        {"stopped rank 0", 3, brief, NULL, run_and_lose, SIGSTOP, 0},
        {"stopped within", 3, brief, NULL, run_and_lose_within, SIGSTOP, 1},
        {"stopped idle", 3, brief, NULL, run_and_lose_idle, SIGSTOP, 1},
        {"stopped sim", 2, brief, "latency=10us", run_and_lose_idle, SIGSTOP, 1},
    };
    for (size_t i = 0; i < sizeof LOSSES / sizeof LOSSES[0]; i++) {
        losing = &LOSSES[i];
        double seconds;
        const int status = run_job(losing, &seconds);
        // A death is seen long before the timeout of 5 s.
        check_lost(losing, seconds, losing->signal == SIGKILL ? 4.0 : 10.0);
        if (losing->victim != 0) {
            assert_true(WIFEXITED(status));
            assert_int_equal(3, WEXITSTATUS(status));
        }
    }
}

// The kernel ends the others with rank 0.
static void test_rank_0_killed(void **state)
{
    (void)state;
    const scenario s = {
        .name = "killed rank 0", .size = 4, .run = run_and_lose, .signal = SIGKILL, .victim = 0};
    losing = &s;
    double seconds;
    const int status = run_job(&s, &seconds);
    assert_true(WIFSIGNALED(status));
    const uint64_t start = now_us();
    uint32_t ended = 0; // orphans come to this process, which is a subreaper
    while (ended < 3 && now_us() - start < 5000000) {
        if (waitpid(-1, NULL, WNOHANG) > 0) {
            ended++;
        } else {
            sleep_us(1000);
        }
    }
    assert_int_equal(3, ended);
}

// ---- ranks that have diverged ----

static ps_status diverge_by_size(ps_comm *comm)
{
    const bool is_odd = ps_comm_rank(comm) == 1;
    static char all[4 * 2000];
    const uint64_t sizes[4] = {1000, 1000, is_odd ? 999 : 1000, is_odd ? 1001 : 1000};
    PS_TRY(ps_comm_all_gather_start(comm, 7, all, all + 4000, sizes));
    return ps_comm_wait(comm);
}

static ps_status diverge_by_kind(ps_comm *comm)
{
    float values[16] = {0};
    float scratch[16 * 4];
    PS_TRY(ps_comm_rank(comm) == 1 ? ps_comm_barrier_start(comm, 7)
                                   : ps_comm_all_reduce_start(comm, 7, values, 16, scratch));
    return ps_comm_wait(comm);
}

static ps_status diverge_by_tag(ps_comm *comm)
{
    PS_TRY(ps_comm_barrier_start(comm, ps_comm_rank(comm) == 1 ? 8 : 7));
    return ps_comm_wait(comm);
}

// One collective is left out; what follows has other sizes.
static ps_status diverge_by_skipping(ps_comm *comm)
{
    float values[40] = {0};
    float scratch[40 * 4];
    for (uint32_t i = 1; i <= 20; i++) {
        if (i != 10 || ps_comm_rank(comm) != 1) {
            PS_TRY(ps_comm_all_reduce_start(comm, 3, values, i, scratch));
            PS_TRY(ps_comm_wait(comm));
        }
    }
    return PS_OK;
}

static ps_status diverge_by_capacity(ps_comm *comm)
{
    char message[64];
    uint64_t bytes = 10;
    PS_TRY(ps_comm_broadcast_start(comm, 7, message, ps_comm_rank(comm) == 1 ? 32 : 64, &bytes));
    return ps_comm_wait(comm);
}

static ps_status diverge_by_algorithm(ps_comm *comm)
{
    static float values[50000];
    static float scratch[50000 * 4];
    ps_comm_set_gather_bytes_max(comm, ps_comm_rank(comm) == 1 ? 0 : 1000000);
    PS_TRY(ps_comm_all_reduce_start(comm, 7, values, 50000, scratch));
    return ps_comm_wait(comm);
}

static void test_diverged(void **state)
{
    (void)state;
    static ps_status (*const WAYS[])(ps_comm *) = {diverge_by_size,     diverge_by_kind,
                                                   diverge_by_tag,      diverge_by_skipping,
                                                   diverge_by_capacity, diverge_by_algorithm};
    for (size_t i = 0; i < sizeof WAYS / sizeof WAYS[0]; i++) {
        const scenario s = {.size = 4, .run = WAYS[i]};
        double seconds;
        (void)run_job(&s, &seconds);
        uint32_t speakers = 0;
        for (uint32_t r = 0; r < s.size; r++) {
            if (all_seen[r].speaks) {
                print_message("rank %u says: %s\n", r, all_seen[r].message);
            }
            assert_true(all_seen[r].is_there);
            assert_int_equal(PS_LOST, all_seen[r].status);
            assert_non_null(strstr(all_seen[r].message, "diverged"));
            assert_non_null(strstr(all_seen[r].message, "rank 1 "));
            speakers += all_seen[r].speaks;
        }
        assert_int_equal(1, speakers);
        assert_true(seconds < 4);
    }
}

// ---- sleepers ----

// Rank 0 sleeps in the kernel, for longer than any wait loop would; rank 1 comes and wakes it.
static ps_status sleep_and_wake(ps_comm *comm)
{
    for (uint32_t i = 0; i < 5; i++) {
        if (ps_comm_rank(comm) == 1) {
            sleep_us(30000);
        }
        const uint64_t start = now_us();
        PS_TRY(ps_comm_barrier_start(comm, i));
        if (ps_comm_rank(comm) == 0) {
            comm->backend->sleep(comm, 5000000000);
        }
        PS_TRY(ps_comm_wait(comm));
        if (now_us() - start > 3000000) {
            return ps_fail(PS_INTERNAL, "nobody woke rank 0");
        }
    }
    return PS_OK;
}

static void test_wakes(void **state)
{
    (void)state;
    const scenario s = {.size = 2, .run = sleep_and_wake};
    double seconds;
    const int status = run_job(&s, &seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
}

// ---- ranks that give up ----

static ps_status give_up(ps_comm *comm)
{
    for (uint32_t i = 0; i < 20; i++) {
        if (i == 10 && ps_comm_rank(comm) == 2) {
            const ps_status status = ps_fail(PS_IO, "model.gguf: no such file");
            ps_comm_give_up(comm, status);
            ps_comm_give_up(comm, PS_INVALID); // the first one counts
            return status;
        }
        PS_TRY(ps_comm_barrier_start(comm, i));
        PS_TRY(ps_comm_wait(comm));
    }
    return PS_OK;
}

static void test_give_up(void **state)
{
    (void)state;
    const scenario s = {.size = 4, .run = give_up};
    double seconds;
    (void)run_job(&s, &seconds);
    for (uint32_t r = 0; r < s.size; r++) {
        const ps_status expected = r == 2 ? PS_IO : PS_LOST;
        assert_true(all_seen[r].is_there);
        assert_int_equal(expected, all_seen[r].status);
        assert_int_equal(expected, all_seen[r].again);
        assert_string_equal("rank 2: model.gguf: no such file", all_seen[r].message_again);
        assert_int_equal(r == 2, all_seen[r].speaks);
    }
    assert_true(seconds < 4);
}

// ---- handshakes ----

static ps_comm_identity identities[2]; // of rank 2, and of all others

static ps_status shake_hands(ps_comm *comm)
{
    return ps_comm_handshake(comm, &identities[ps_comm_rank(comm) == 2 ? 0 : 1]);
}

static void test_handshake(void **state)
{
    (void)state;
    static const struct {
        ps_comm_identity other;
        const char *says;
    } ROWS[] = {
        {{"1.3.0", 1, 2, "tp=4 experts=within"}, "rank 2 runs prestage 1.3.0, rank 0 1.2.0"},
        {{"1\033[2J\n", 1, 2, "tp=4 experts=within"}, "rank 2 runs prestage 1?[2J?, rank 0 1.2.0"},
        {{"1.2.0", 9, 2, "tp=4 experts=within"}, "rank 2 has another model file"},
        {{"1.2.0", 1, 3, "tp=4 experts=across"},
         "with 'experts=across', rank 0 with 'experts=within'"},
        {{"1.2.0", 1, 3, "tp=4"}, "rank 2 was started with '', rank 0 with 'experts=within'"},
        {{"1.2.0", 1, 3, "tp=4 experts=within"}, "rank 2 has other options than rank 0"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        identities[0] = ROWS[i].other;
        identities[1] = (ps_comm_identity){"1.2.0", 1, 2, "tp=4 experts=within"};
        const scenario s = {.size = 4, .run = shake_hands};
        double seconds;
        (void)run_job(&s, &seconds);
        for (uint32_t r = 0; r < s.size; r++) {
            assert_int_equal(PS_INVALID, all_seen[r].status);
            assert_int_equal(PS_INVALID, all_seen[r].again);
            assert_non_null(strstr(all_seen[r].message, ROWS[i].says));
            assert_string_equal(all_seen[0].message, all_seen[r].message);
            assert_int_equal(r == 0, all_seen[r].speaks);
        }
    }
}

// Rank 2 sends bytes that are no card: texts without an end.
static ps_status shake_with_garbage(ps_comm *comm)
{
    enum { CARD_BYTES = PS_COMM_VERSION_BYTES + PS_COMM_OPTIONS_BYTES + 16 };
    if (ps_comm_rank(comm) != 2) {
        return shake_hands(comm);
    }
    uint64_t sizes[4];
    static char all[4 * CARD_BYTES];
    static char own[CARD_BYTES];
    memset(own, 0xf1, sizeof own);
    for (int r = 0; r < 4; r++) {
        sizes[r] = CARD_BYTES;
    }
    PS_TRY(ps_comm_all_gather_start(comm, 0x48454c4f, own, all, sizes));
    return ps_comm_wait(comm);
}

static void test_garbage_in_a_handshake(void **state)
{
    (void)state;
    identities[1] = (ps_comm_identity){"1.2.0", 1, 2, "tp=4"};
    const scenario s = {.size = 4, .run = shake_with_garbage};
    double seconds;
    (void)run_job(&s, &seconds);
    assert_int_equal(PS_INVALID, all_seen[0].status);
    assert_non_null(strstr(all_seen[0].message, "rank 2 runs prestage ????"));
    for (const char *c = all_seen[0].message; *c != '\0'; c++) {
        assert_true(*c >= ' ' && *c <= '~');
    }
}

// A job stopped as a whole for longer than the timeout, and continued, goes on.
static ps_status run_through_pause(ps_comm *comm)
{
    float values[64] = {0};
    float scratch[64 * 3];
    for (uint32_t i = 0; i < 3000; i++) {
        PS_TRY(ps_comm_all_reduce_start(comm, i, values, 64, scratch));
        PS_TRY(ps_comm_wait(comm));
        all_seen[PS_COMM_RANKS_MAX - 1].is_there = true; // it runs
        if (i % 100 == 0) {
            sleep_us(10000);
        }
    }
    return PS_OK;
}

static void test_paused_job(void **state)
{
    (void)state;
    const scenario s = {.size = 3, .options = {.timeout_ns = 500000000}, .run = run_through_pause};
    memset(all_seen, 0, PS_COMM_RANKS_MAX * sizeof *all_seen);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setpgid(0, 0);
        be_rank(&s);
    }
    const uint64_t start = now_us();
    while (!all_seen[PS_COMM_RANKS_MAX - 1].is_there && now_us() - start < 10000000) {
        sleep_us(1000);
    }
    assert_int_equal(0, kill(-pid, SIGSTOP));
    sleep_us(1200000);
    assert_int_equal(0, kill(-pid, SIGCONT));
    int status = 0;
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
}

// A child that ends with another code than 0 is told by close, even after good collectives.
static ps_status exit_badly(ps_comm *comm)
{
    PS_TRY(ps_comm_barrier_start(comm, 0));
    PS_TRY(ps_comm_wait(comm));
    if (ps_comm_rank(comm) == 1) {
        _exit(7);
    }
    return PS_OK;
}

static void test_exit_codes(void **state)
{
    (void)state;
    const scenario s = {.size = 2, .run = exit_badly};
    double seconds;
    const int status = run_job(&s, &seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(6, WEXITSTATUS(status));
}

int main(void)
{
    seed = ps_gen_start().state;
    fflush(NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    all_seen = mmap(NULL, PS_COMM_RANKS_MAX * sizeof *all_seen, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all_seen == MAP_FAILED) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_sim_over_local),
        cmocka_unit_test(test_sim_delays),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_rank_0_killed),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_wakes),
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_garbage_in_a_handshake),
        cmocka_unit_test(test_paused_job),
        cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
