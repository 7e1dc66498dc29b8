// Goal: the default thread count is what this process may really use (case: threads above the quota
// run 45 times slower). Method: the affinity mask and, where this user may make one, a cgroup with
// a CPU quota are narrowed around the call.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "hw/machine.h"

#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(0, sched_getaffinity(0, sizeof before, &before));
    assert_int_equal(CPU_COUNT(&before), ps_machine_affinity_count());
    assert_true(ps_machine_default_threads() <= ps_machine_affinity_count());
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(0, sched_setaffinity(0, sizeof one, &one));
    assert_int_equal(1, ps_machine_affinity_count());
    assert_int_equal(1, ps_machine_default_threads());
    assert_int_equal(0, sched_setaffinity(0, sizeof before, &before));
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    const bool ok = fputs(text, file) >= 0;
    return fclose(file) == 0 && ok;
}

// A cgroup of either version with a quota of half a CPU; this process moves into it and out again.
static void test_quota(void **state)
{
    (void)state;
    static const struct {
        const char *root, *file, *quota;
    } VERSIONS[] = {{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"},
                    {"/sys/fs/cgroup", "cpu.max", "50000 100000"}};
    if (ps_machine_default_threads() < 2) {
        print_message("one CPU only: a quota would change nothing\n");
        skip();
    }
    for (size_t i = 0; i < sizeof VERSIONS / sizeof VERSIONS[0]; i++) {
        char folder[256], path[512], pid[32];
        (void)snprintf(folder, sizeof folder, "%s/prestage-test-%d", VERSIONS[i].root,
                       (int)getpid());
        (void)snprintf(path, sizeof path, "%s/%s", folder, VERSIONS[i].file);
        if (mkdir(folder, 0755) != 0) {
            continue;
        }
        (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
        char tasks[512], home[512];
        (void)snprintf(tasks, sizeof tasks, "%s/cgroup.procs", folder);
        (void)snprintf(home, sizeof home, "%s/cgroup.procs", VERSIONS[i].root);
        const bool limited = access(path, W_OK) == 0 && write_text(path, VERSIONS[i].quota) &&
                             write_text(tasks, pid);
        const uint32_t threads = ps_machine_default_threads();
        const bool back = write_text(home, pid);
        (void)rmdir(folder);
        if (limited) {
            assert_true(back);
            assert_int_equal(1, threads);
            assert_true(ps_machine_default_threads() >= 2);
            return;
        }
    }
    print_message("no cgroup with a CPU quota can be made here\n");
    skip();
}

static void test_discovery(void **state)
{
    (void)state;
    ps_machine machine;
    assert_int_equal(PS_OK, ps_machine_discover(3, &machine));
    assert_int_equal(3, machine.threads);
    assert_true(machine.name[0] != '\0');
    assert_true(machine.l2_bytes >= (uint64_t)64 << 10 && machine.llc_bytes >= machine.l2_bytes);
    assert_true(machine.read_gbs > 0 && machine.int8_gops > 0 && !machine.is_measured);
    const uint64_t available = ps_machine_available_bytes();
    assert_true(available > (uint64_t)1 << 20 && available < (uint64_t)1 << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_affinity),
                                       cmocka_unit_test(test_quota),
                                       cmocka_unit_test(test_discovery)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
