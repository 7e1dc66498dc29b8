// Goal: the default thread count is what this process may really use (case: threads above the quota
// run 45 times slower). Method: the affinity mask and, where this user may make one, a cgroup with
// a CPU quota are narrowed around the call; a memory limit likewise, with files in the page cache.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "hw/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(0, sched_getaffinity(0, sizeof before, &before));
    assert_int_equal(CPU_COUNT(&before), ps_machine_affinity_count());
    assert_true(ps_machine_default_threads(1) <= ps_machine_affinity_count());
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(0, sched_setaffinity(0, sizeof one, &one));
    assert_int_equal(1, ps_machine_affinity_count());
    assert_int_equal(1, ps_machine_default_threads(1));
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

// A cgroup of either version, limited by one of its files; this process moves into it and back.
typedef struct cgroup {
    char folder[256], home[256];
} cgroup;

static bool enter_cgroup(const char *root, const char *file, const char *limit, cgroup *out)
{
    char path[512], pid[32];
    (void)snprintf(out->folder, sizeof out->folder, "%s/prestage-test-%d", root, (int)getpid());
    (void)snprintf(out->home, sizeof out->home, "%s/cgroup.procs", root);
    if (mkdir(out->folder, 0755) != 0) {
        return false;
    }
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    (void)snprintf(path, sizeof path, "%s/%s", out->folder, file);
    bool ok = access(path, W_OK) == 0 && write_text(path, limit);
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", out->folder);
    ok = ok && write_text(path, pid);
    if (!ok) {
        (void)rmdir(out->folder);
    }
    return ok;
}

static void leave_cgroup(const cgroup *group)
{
    char pid[32];
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_true(write_text(group->home, pid));
    (void)rmdir(group->folder);
}

static void test_quota(void **state)
{
    (void)state;
    if (ps_machine_default_threads(1) < 2) {
        print_message("one CPU only: a quota would change nothing\n");
        skip();
    }
    cgroup group;
    if (!enter_cgroup("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000", &group) &&
        !enter_cgroup("/sys/fs/cgroup", "cpu.max", "50000 100000", &group)) {
        print_message("no cgroup with a CPU quota can be made here\n");
        skip();
    }
    const uint32_t threads = ps_machine_default_threads(1);
    leave_cgroup(&group);
    assert_int_equal(1, threads);
    assert_true(ps_machine_default_threads(1) >= 2);
}

// Files that the kernel keeps in memory count as used by a cgroup, but it gives them back.
static void test_memory_limit(void **state)
{
    (void)state;
    static char megabyte[1 << 20];
    const uint64_t limit_bytes = (uint64_t)256 << 20;
    cgroup group;
    if (!enter_cgroup("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "268435456", &group) &&
        !enter_cgroup("/sys/fs/cgroup", "memory.max", "268435456", &group)) {
        print_message("no cgroup with a memory limit can be made here\n");
        skip();
    }
    char path[] = "/var/tmp/prestage-test-XXXXXX";
    const int file = mkstemp(path);
    bool ok = file >= 0;
    for (int i = 0; i < 128 && ok; i++) {
        ok = write(file, megabyte, sizeof megabyte) == (ssize_t)sizeof megabyte;
    }
    ok = ok && fsync(file) == 0;
    const uint64_t available = ps_machine_available_bytes();
    (void)close(file);
    (void)unlink(path);
    leave_cgroup(&group);
    assert_true(ok);
    assert_true(available <= limit_bytes);
    assert_true(available > limit_bytes / 4 * 3);
}

static void test_discovery(void **state)
{
    (void)state;
    ps_machine machine;
    assert_int_equal(PS_OK, ps_machine_discover(3, &machine));
    assert_int_equal(3, machine.threads);
    assert_true(machine.name[0] != '\0');
    assert_true(machine.l2_bytes >= (uint64_t)64 << 10 && machine.llc_bytes >= machine.l2_bytes);
    assert_true(machine.read_gbs > 0 && machine.int8_gops > 0 &&
                strcmp(machine.source, PS_RATES_DEFAULT) == 0);
    const uint64_t available = ps_machine_available_bytes();
    assert_true(available > (uint64_t)1 << 20 && available < (uint64_t)1 << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affinity), cmocka_unit_test(test_quota),
        cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_discovery)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
