// Goal: a team runs every job on every worker exactly once, barriers hold, and nobody misses a
// wake-up, with fewer and with more threads than CPUs. Method: counters that are only right if each
// barrier separated the rounds; pauses between runs put workers to sleep.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/team.h"

#include <stdatomic.h>
#include <time.h>

#define ROUNDS 50
#define WORKERS_MAX 64

typedef struct job {
    ps_team *team;
    uint32_t values[WORKERS_MAX]; // plain memory: a barrier must order it
    atomic_uint wrong;
} job;

static void count_rounds(void *argument, uint32_t worker, uint32_t workers)
{
    job *j = argument;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        j->values[worker]++;
        ps_team_barrier(j->team, NULL);
        for (uint32_t i = 0; i < workers; i++) {
            if (j->values[i] % ROUNDS != round % ROUNDS) {
                atomic_fetch_add(&j->wrong, 1);
            }
        }
        ps_team_barrier(j->team, NULL);
    }
}

static void test_rounds(void **state)
{
    (void)state;
    static const uint32_t WORKERS[] = {1, 2, 3, 7, 16, WORKERS_MAX};
    for (size_t i = 0; i < sizeof WORKERS / sizeof WORKERS[0]; i++) {
        static job j;
        j = (job){0};
        assert_int_equal(PS_OK, ps_team_create(WORKERS[i], &j.team));
        assert_int_equal(WORKERS[i], ps_team_workers(j.team));
        for (int run = 0; run < 3; run++) {
            ps_team_run(j.team, count_rounds, &j);
            // Long enough for idle workers to sleep in the kernel.
            (void)nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        }
        for (uint32_t w = 0; w < WORKERS[i]; w++) {
            assert_int_equal(3 * ROUNDS, j.values[w]);
        }
        assert_int_equal(0, j.wrong);
        ps_team_destroy(j.team);
    }
}

static void test_refused_sizes(void **state)
{
    (void)state;
    ps_team *team = NULL;
    assert_int_equal(PS_INVALID, ps_team_create(0, &team));
    assert_int_equal(PS_INVALID, ps_team_create(PS_TEAM_WORKERS_MAX + 1, &team));
    assert_null(team);
    ps_team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_refused_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
