// hw/machine.c - limits that the kernel puts on this process.
#include "hw/machine.h"

#include "base/hash.h"
#include "hw/topology.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// True when a comma-separated list holds the word.
static bool list_holds(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

// The path of this process below a cgroup hierarchy: v2 has an empty controller list, v1 names its
// controllers.
static bool cgroup_path(const char *controller, char *path, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return false;
    }
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *where = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (where == NULL) {
            continue;
        }
        *where++ = '\0';
        controllers++;
        if (list_holds(controllers, controller)) {
            (void)snprintf(path, size, "%s", strcmp(where, "/") == 0 ? "" : where);
            found = true;
        }
    }
    (void)fclose(file);
    return found;
}

// Opens `file` of this process's cgroup and, where that is not mounted (in a container), of the
// hierarchy's root; NULL when there is neither.
static FILE *open_cgroup(const char *mount, const char *controller, const char *file)
{
    char inner[512];
    char path[1200];
    if (!cgroup_path(controller, inner, sizeof inner)) {
        return NULL;
    }
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", mount, inner, file);
    FILE *opened = fopen(path, "re");
    if (opened != NULL) {
        return opened;
    }
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", mount, file);
    return fopen(path, "re");
}

// The first line of such a file; false when it cannot be read.
static bool read_cgroup(const char *mount, const char *controller, const char *file, char *line,
                        size_t size)
{
    FILE *opened = open_cgroup(mount, controller, file);
    if (opened == NULL) {
        return false;
    }
    const bool ok = fgets(line, (int)size, opened) != NULL;
    (void)fclose(opened);
    return ok;
}

// CPUs that the cgroup's quota allows, 0 for no quota.
static double cgroup_cpus(void)
{
    char line[128];
    double quota = 0;
    double period = 0;
    if (read_cgroup("", "", "cpu.max", line, sizeof line) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0) {
        return quota / period;
    }
    if (read_cgroup("/cpu", "cpu", "cpu.cfs_quota_us", line, sizeof line)) {
        quota = strtod(line, NULL);
    }
    if (quota > 0 && read_cgroup("/cpu", "cpu", "cpu.cfs_period_us", line, sizeof line)) {
        period = strtod(line, NULL);
        return period > 0 ? quota / period : 0;
    }
    return 0;
}

uint32_t ps_machine_affinity_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    const int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

void ps_machine_get_place(ps_cpu_place *out)
{
    *out = (ps_cpu_place){0};
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        if (fgets(boot, sizeof boot, file) == NULL) {
            boot[0] = '\0';
        }
        (void)fclose(file);
    }
    out->host = ps_hash(boot, strlen(boot), 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)sched_getaffinity(0, sizeof set, &set);
    for (uint32_t cpu = 0; cpu < 1024 && cpu < CPU_SETSIZE; cpu++) {
        out->cpus[cpu / 64] |= (uint64_t)(CPU_ISSET(cpu, &set) != 0) << cpu % 64;
    }
}

void ps_machine_take_share(uint32_t index, uint32_t count)
{
    cpu_set_t all, part;
    CPU_ZERO(&all);
    CPU_ZERO(&part);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || (uint32_t)CPU_COUNT(&all) < count) {
        return;
    }
    const uint32_t cpus = (uint32_t)CPU_COUNT(&all);
    uint32_t seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            if (seen >= cpus * index / count && seen < cpus * (index + 1) / count) {
                CPU_SET(cpu, &part);
            }
            seen++;
        }
    }
    (void)sched_setaffinity(0, sizeof part, &part); // slower without, not wrong
}

void ps_machine_return_to(const ps_cpu_place *place)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t cpu = 0; cpu < 1024 && cpu < CPU_SETSIZE; cpu++) {
        if ((place->cpus[cpu / 64] >> cpu % 64 & 1) != 0) {
            CPU_SET(cpu, &set);
        }
    }
    (void)sched_setaffinity(0, sizeof set, &set); // slower without, not wrong
}

uint32_t ps_machine_default_threads(uint32_t ranks)
{
    uint32_t threads = ps_machine_affinity_count();
    const double quota = cgroup_cpus() / ranks;
    if (quota > 0 && quota < threads) {
        threads = (uint32_t)quota + (quota > (uint32_t)quota);
    }
    return threads < 1 || ranks > threads ? 1 : threads;
}

typedef struct memory_hierarchy {
    const char *mount, *controller, *limit, *used;
    const char *prefix; // of what memory.stat says of a cgroup with all below it
} memory_hierarchy;

// The number in a file of a cgroup; false where there is none: "max", or no such file.
static bool read_bytes(const char *folder, const char *name, uint64_t *out)
{
    char path[1200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const bool ok = fscanf(file, "%" SCNu64, out) == 1;
    (void)fclose(file);
    return ok;
}

// Files that a cgroup keeps in memory: they count as used, but are given up before anything fails.
static uint64_t cgroup_cache_bytes(const char *folder, const char *prefix)
{
    char path[1200];
    (void)snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *file = fopen(path, "re");
    const size_t skipped = strlen(prefix);
    uint64_t sum = 0;
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t bytes = 0;
        if (strncmp(line, prefix, skipped) == 0 &&
            (sscanf(line + skipped, "inactive_file %" SCNu64, &bytes) == 1 ||
             sscanf(line + skipped, "active_file %" SCNu64, &bytes) == 1)) {
            sum += bytes;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return sum;
}

static uint64_t free_below(const memory_hierarchy *of, const char *inner)
{
    char folder[1100];
    uint64_t limit = 0;
    uint64_t used = 0;
    (void)snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", of->mount, inner);
    if (!read_bytes(folder, of->limit, &limit) || !read_bytes(folder, of->used, &used)) {
        return UINT64_MAX;
    }
    const uint64_t cache = cgroup_cache_bytes(folder, of->prefix);
    const uint64_t kept = used > cache ? used - cache : 0;
    return limit > kept ? limit - kept : 0;
}

// What is left below the limits of the process's cgroup and of those that it is in, up to the root,
// which is all that is mounted in a container; UINT64_MAX for no limit.
static uint64_t cgroup_free_bytes(void)
{
    static const memory_hierarchy HIERARCHIES[] = {
        {"", "", "memory.max", "memory.current", ""},
        {"/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof HIERARCHIES / sizeof HIERARCHIES[0]; i++) {
        char inner[512];
        if (!cgroup_path(HIERARCHIES[i].controller, inner, sizeof inner)) {
            continue;
        }
        for (char *end = inner; end != NULL;) {
            const uint64_t bytes = free_below(&HIERARCHIES[i], inner);
            least = bytes < least ? bytes : least;
            end = strrchr(inner, '/');
            if (end != NULL) {
                *end = '\0';
            }
        }
    }
    return least;
}

uint64_t ps_machine_available_bytes(void)
{
    uint64_t available = UINT64_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t kib = 0;
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
            available = kib << 10;
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    const uint64_t cgroup = cgroup_free_bytes();
    return cgroup < available ? cgroup : available;
}

uint64_t ps_machine_resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%*u %" SCNu64, &pages) != 1) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void cpu_name(char *name, size_t size)
{
    (void)snprintf(name, size, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(name, size, "%s", colon + 2);
            name[strcspn(name, "\n")] = '\0';
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

const char *ps_comm_shape_name(ps_comm_shape shape)
{
    static const char *const NAMES[PS_COMM_SHAPE_COUNT] = {"flat", "ring", "mesh", "tree"};
    return (unsigned)shape < PS_COMM_SHAPE_COUNT ? NAMES[shape] : NULL;
}

const char *ps_prefetch_join_name(ps_prefetch_join join)
{
    static const char *const NAMES[PS_JOIN_COUNT] = {"barrier", "event", "stream"};
    return (unsigned)join < PS_JOIN_COUNT ? NAMES[join] : NULL;
}

uint64_t ps_machine_l2_bytes(const ps_machine *machine)
{
    const double share = ps_machine_share(machine->profile.l2_share);
    return (uint64_t)((double)(machine->l2_bytes * machine->threads) * share);
}

ps_status ps_machine_discover(uint32_t threads, ps_machine *out)
{
    ps_machine machine = {
        .threads = threads,
        .read_gbs = 10.0 * threads,
        .cache_read_gbs = 80.0 * threads,
        .linear_share = 1,
        .int8_gops = 100.0 * threads,
        .f32_gops = 20.0 * threads,
        .barrier_ns = 500,
        .fill_gbs = 10.0 * threads,
        .comm_ns = 2000,
        .comm_gbs = 5,
        .source = PS_RATES_DEFAULT,
    };
    cpu_name(machine.name, sizeof machine.name);
    PS_TRY(ps_topology_cache_bytes(&machine.l2_bytes, &machine.llc_bytes));
    *out = machine;
    return PS_OK;
}

void ps_machine_describe(const ps_machine *machine, uint32_t ranks,
                         char text[PS_MACHINE_TEXT_BYTES])
{
    int length = snprintf(
        text, PS_MACHINE_TEXT_BYTES,
        "%s, %u thread%s, %s: read %.1f GB/s, L2 %.0f GB/s (linears %.0f), int8 %.0f "
        "Gmac/s, f32 %.0f Gmac/s, barrier %.0f ns",
        machine->name, machine->threads, machine->threads == 1 ? "" : "s", machine->source,
        machine->read_gbs, machine->cache_read_gbs, machine->cache_read_gbs * machine->linear_share,
        machine->int8_gops, machine->f32_gops, machine->barrier_ns);
    if (ranks > 1 && length >= 0 && (size_t)length < PS_MACHINE_TEXT_BYTES) {
        (void)snprintf(text + length, PS_MACHINE_TEXT_BYTES - (size_t)length,
                       ", fill %.1f GB/s, a collective %.1f us + bytes at %.2f GB/s",
                       machine->fill_gbs, machine->comm_ns / 1e3, machine->comm_gbs);
    }
}
