// comm/local_fork.c - local ranks as processes: how they start, how one sees another's end.
#include "comm/local_internal.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPEAK_NS ((uint64_t)1000000000)

// The thread sanitizer has a thread of its own.
#ifdef __SANITIZE_THREAD__
#define FOREIGN_THREADS 1u
#else
#define FOREIGN_THREADS 0u
#endif

static uint32_t thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        return 1; // no /proc: taken on trust
    }
    uint32_t count = 0;
    for (const struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return count;
}

// Says how a child ended, "" when the system does not know (SIGCHLD is ignored). False: it has not.
static bool describe_end(pid_t pid, bool is_taken, char *out, size_t capacity)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | (is_taken ? 0 : WNOWAIT)) != 0) {
        out[0] = '\0';
        return true;
    }
    if (info.si_pid == 0) {
        return false;
    }
    if (info.si_code == CLD_EXITED) {
        (void)snprintf(out, capacity, "exited with code %d", info.si_status);
    } else {
        (void)snprintf(out, capacity, "was ended by signal %d (%s)", info.si_status,
                       strsignal(info.si_status));
    }
    return true;
}

// Works for every process that may be seen, and no other can have its number before rank 0 has
// taken its exit code.
static bool has_ended(pid_t pid)
{
    const int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    if (descriptor < 0) {
        return errno == ESRCH; // a kernel without pidfd: only the timeout is left
    }
    struct pollfd poll_end = {.fd = descriptor, .events = POLLIN};
    const bool ended = poll(&poll_end, 1, 0) == 1;
    (void)close(descriptor);
    return ended;
}

ps_status ps_local_process_check(const ps_local *local, uint32_t peer)
{
    const pid_t pid = atomic_load(&local->segment->lanes[peer].pid);
    if (pid == 0 || !has_ended(pid)) {
        return PS_OK;
    }
    char how[80] = "";
    if (local->comm.rank == 0) {
        (void)describe_end(pid, false, how, sizeof how);
    }
    if (how[0] == '\0') {
        (void)snprintf(how, sizeof how, "ended");
    }
    return ps_fail(PS_LOST, "rank %" PRIu32 " (process %d) %s before %s was done", peer, (int)pid,
                   how, ps_comm_describe(&local->comm.transfer.header).text);
}

static void kill_children(const ps_local_segment *segment, uint32_t size)
{
    for (uint32_t r = 1; r < size; r++) {
        const pid_t pid = atomic_load(&segment->lanes[r].pid);
        if (pid > 0) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, 0);
        }
    }
}

// Waits for one child until the deadline, then kills it.
static ps_status reap_child(const ps_local *local, uint32_t rank, uint64_t deadline_ns)
{
    const pid_t pid = atomic_load(&local->segment->lanes[rank].pid);
    bool is_killed = false;
    char how[80];
    while (!describe_end(pid, true, how, sizeof how)) {
        if (!is_killed && ps_clock_ns() > deadline_ns) {
            is_killed = true;
            (void)kill(pid, SIGKILL);
        }
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    if (how[0] == '\0' || strcmp(how, "exited with code 0") == 0) {
        return PS_OK;
    }
    return ps_fail(PS_LOST, "rank %" PRIu32 " (process %d) %s%s", rank, (int)pid, how,
                   is_killed ? ": it did not end by itself" : "");
}

ps_status ps_local_reap(ps_local *local)
{
    if (local->comm.rank != 0) {
        return PS_OK;
    }
    const uint64_t timeout_ns = local->comm.options.timeout_ns;
    // In a job that has failed, time for the rank that speaks.
    const uint64_t patience_ns = local->comm.status == PS_OK || timeout_ns < SPEAK_NS ? timeout_ns
                                                                                      : SPEAK_NS;
    const uint64_t deadline_ns = ps_clock_ns() + patience_ns;
    ps_status status = PS_OK;
    for (uint32_t r = 1; r < local->comm.size; r++) {
        const ps_status ended = reap_child(local, r, deadline_ns);
        status = status == PS_OK ? ended : status;
    }
    return status;
}

// In the child. Ends it when its parent has ended before the kernel was told to.
static void tie_to_parent(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    (void)signal(SIGINT, SIG_IGN);
}

// Returns in every process; *out_rank is 0 in the parent, also on failure.
static ps_status fork_all(ps_local_segment *segment, uint32_t size, uint32_t *out_rank)
{
    const pid_t parent = getpid();
    atomic_store(&segment->lanes[0].pid, parent);
    *out_rank = 0;
    (void)fflush(NULL); // or what is buffered would be written by each child
    for (uint32_t r = 1; r < size; r++) {
        const pid_t pid = fork();
        if (pid == 0) {
            tie_to_parent(parent);
            *out_rank = r;
            return PS_OK;
        }
        if (pid < 0) {
            const int error = errno;
            kill_children(segment, r);
            return ps_fail(PS_IO, "cannot start rank %" PRIu32 " of %" PRIu32 ": %s", r, size,
                           strerror(error));
        }
        atomic_store(&segment->lanes[r].pid, pid);
    }
    return PS_OK;
}

static ps_status check_fork(uint32_t size)
{
    if (size == 0 || size > PS_COMM_RANKS_MAX) {
        return ps_fail(PS_INVALID, "%" PRIu32 " ranks; there can be 1 to %u", size,
                       PS_COMM_RANKS_MAX);
    }
    const uint32_t threads = thread_count();
    return threads <= 1 + FOREIGN_THREADS ? PS_OK
                                          : ps_fail(PS_INTERNAL,
                                                    "ranks are forked by a process with %" PRIu32
                                                    " threads; fork before they start",
                                                    threads);
}

ps_status ps_comm_local_fork(uint32_t size, const ps_comm_options *options, ps_comm **out)
{
    PS_TRY(check_fork(size));
    const uint64_t bytes = ps_local_segment_bytes(size);
    // Zeroed; inherited by the children, and gone with the last of them.
    ps_local_segment *segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (segment == MAP_FAILED) {
        return ps_fail(PS_NO_MEMORY, "no shared memory of %" PRIu64 " bytes for %" PRIu32 " ranks",
                       bytes, size);
    }
    uint32_t rank;
    ps_status status = fork_all(segment, size, &rank);
    if (status == PS_OK) {
        status = ps_local_open(segment, rank, size, options, out);
        if (status != PS_OK && rank != 0) {
            _exit(1); // the child has no caller that could be told
        }
        if (status != PS_OK) {
            kill_children(segment, size);
        }
    }
    if (status != PS_OK) {
        (void)munmap(segment, bytes);
    }
    return status;
}
