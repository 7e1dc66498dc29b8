// test/engine/rank_jobs.h - a model opened by several ranks, and something done with it, in a
// process of its own.
//
// Ranks are forked before there are threads, keep to their part of the CPUs, and end by themselves;
// so a job is a child of the test, and what it finds comes back in shared memory. In it nothing of
// cmocka is called: a fault ends the job with a line on stderr, and rank_job_run fails the test.
#ifndef PS_TEST_ENGINE_RANK_JOBS_H
#define PS_TEST_ENGINE_RANK_JOBS_H

#include "engine/engine_test.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANK_TIMEOUT_S 60 // loaded machines take their time

// In a job.
#define must(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PS_OK) {                                                                     \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                    \
                          ps_error_message());                                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

typedef struct rank_job {
    const char *path;
    uint32_t ranks; // 0: none are started
    uint32_t threads;
    ps_ranks_launch launch;
    const char *link;
} rank_job;

// What rank 0 does.
typedef void rank_body(ps_model *model, void *context);

// Zeros that jobs and the test see.
static inline float *shared_floats(size_t count)
{
    void *memory = mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static inline void free_shared(float *floats, size_t count)
{
    (void)munmap(floats, count * sizeof(float));
}

// Of the process of a job, all ranks of it: the code to exit with.
static inline int rank_job_do(const rank_job *job, rank_body *body, void *context)
{
    ps_ranks *ranks = NULL;
    ps_model *model = NULL;
    if (job->ranks > 0) {
        must(ps_ranks_start(&(ps_ranks_options){.launch = job->launch,
                                                .size = job->ranks,
                                                .link = job->link,
                                                .rank_threads = job->threads,
                                                .timeout_s = RANK_TIMEOUT_S},
                            &ranks));
    }
    if (ps_ranks_rank(ranks) > 0) {
        must(ps_ranks_follow(ranks, job->path, NULL));
        must(ps_ranks_stop(ranks));
        return 0;
    }
    const ps_model_options options = {.threads = job->threads, .ranks = ranks};
    must(ps_model_open(job->path, &options, &model));
    body(model, context);
    ps_model_close(model);
    must(ps_ranks_stop(ranks)); // another rank that has failed is PS_LOST
    return 0;
}

// Runs a body that starts ranks itself in a process of its own, which has to answer 0 in time.
static inline void run_in_child(int (*body)(void *context), void *context)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(RANK_TIMEOUT_S); // or it hangs
        _exit(body(context));
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
}

static inline void rank_job_run(const rank_job *job, rank_body *body, void *context)
{
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(rank_job_do(job, body, context));
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    if (status != 0) {
        fail_msg("%s, %u ranks of %u threads: status %d", job->path, job->ranks, job->threads,
                 status);
    }
}

static inline void golden_path(const char *name, char path[512])
{
    (void)snprintf(path, 512, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
}

#endif
