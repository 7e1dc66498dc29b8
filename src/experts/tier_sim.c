// experts/tier_sim.c - memory behind a link: one thread that copies, and keeps the link's time.
//
// The link's time is planned: a read starts when the one before ends, or when it was asked for, and
// its end is what the thread sleeps until. That it wakes late moves no later read. Where copying
// itself takes longer than the link would, that is the read's time.
#include "base/clock.h"
#include "base/pages.h"
#include "base/thread.h"
#include "experts/cold.h"
#include "hw/machine.h"
#include "io/read_list.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

typedef struct sim {
    ps_tier tier;
    const ps_cold_experts *cold;
    ps_tier_link link;
    char way[64];
    pthread_t thread; // where tier.memory is
    pthread_mutex_t lock;
    pthread_cond_t work, done_changed;  // work: a read waits, or the tier is stopping
    ps_read_list demanded, speculative; // lock; those that wait
    bool is_stopping;                   // lock
    uint64_t bytes, busy_ns;            // lock
    uint64_t free_ns;                   // the thread's: when the link ends what it has had
    _Atomic uint64_t done_count;        // as of ps_reader
} sim;

static ps_read_list *list_of(sim *s, const ps_read *read)
{
    return read->is_speculative ? &s->speculative : &s->demanded;
}

static void sim_submit(ps_tier *tier, ps_read *read)
{
    sim *s = (sim *)tier;
    ps_assert(read->size_bytes > 0 && read->done != NULL);
    read->asked_ns = ps_clock_ns();
    read->error = 0;
    (void)pthread_mutex_lock(&s->lock);
    ps_assert(read->state == PS_READ_AT_REST);
    read->state = PS_READ_WAITS;
    ps_read_list_append(list_of(s, read), read);
    (void)pthread_cond_signal(&s->work);
    (void)pthread_mutex_unlock(&s->lock);
}

static void sim_promote(ps_tier *tier, ps_read *read)
{
    sim *s = (sim *)tier;
    (void)pthread_mutex_lock(&s->lock);
    if (read->state == PS_READ_WAITS && read->is_speculative) {
        ps_read_list_remove(&s->speculative, read);
        ps_read_list_append(&s->demanded, read);
    }
    read->is_speculative = false;
    (void)pthread_mutex_unlock(&s->lock);
}

// The read to start next, or NULL. Under the lock.
static ps_read *take(sim *s)
{
    ps_read_list *list = s->demanded.first != NULL ? &s->demanded : &s->speculative;
    ps_read *read = list->first;
    if (read != NULL) {
        ps_read_list_remove(list, read);
        read->state = PS_READ_STARTED;
    }
    return read;
}

static uint64_t link_ns(const sim *s, uint64_t bytes)
{
    const double rate = s->link.bytes_per_second;
    return s->link.latency_ns + (rate > 0 ? (uint64_t)((double)bytes / rate * 1e9) : 0);
}

// Nobody waits for the link any more when the tier ends. Under the lock.
static void sleep_until(sim *s, uint64_t ns)
{
    const struct timespec end = {.tv_sec = (time_t)(ns / 1000000000u),
                                 .tv_nsec = (long)(ns % 1000000000u)};
    while (!s->is_stopping && ps_clock_ns() < ns) {
        (void)pthread_cond_timedwait(&s->work, &s->lock, &end);
    }
}

// Comes and goes with the lock.
static void copy(sim *s, ps_read *read)
{
    (void)pthread_mutex_unlock(&s->lock);
    const uint64_t start = ps_clock_ns();
    memcpy(read->memory + read->offset_bytes % PS_READ_ALIGN_BYTES,
           ps_cold_experts_find(s->cold, read->file, read->offset_bytes), read->size_bytes);
    const uint64_t copied_ns = ps_clock_ns() - start;
    const uint64_t planned_ns = link_ns(s, read->size_bytes);
    const uint64_t taken_ns = copied_ns > planned_ns ? copied_ns : planned_ns;
    s->free_ns = (read->asked_ns > s->free_ns ? read->asked_ns : s->free_ns) + taken_ns;
    (void)pthread_mutex_lock(&s->lock);
    sleep_until(s, s->free_ns);
    s->bytes += read->size_bytes;
    s->busy_ns += taken_ns;
    read->state = PS_READ_AT_REST;
    (void)pthread_mutex_unlock(&s->lock);
    read->done(read);
    (void)pthread_mutex_lock(&s->lock);
    (void)atomic_fetch_add_explicit(&s->done_count, 1, memory_order_release);
    (void)pthread_cond_broadcast(&s->done_changed);
}

static void *sim_main(void *argument)
{
    sim *s = argument;
    (void)prctl(PR_SET_TIMERSLACK, 1UL); // wakes when it is time, not 50 us later
    (void)pthread_mutex_lock(&s->lock);
    while (!s->is_stopping) {
        ps_read *read = take(s);
        if (read != NULL) {
            copy(s, read);
        } else {
            (void)pthread_cond_wait(&s->work, &s->lock);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

static ps_status sim_open(ps_tier *tier, uint64_t memory_bytes)
{
    sim *s = (sim *)tier;
    void *memory;
    PS_TRY(ps_machine_check_memory(memory_bytes, "the experts of a simulated tier"));
    PS_TRY(ps_pages_map(memory_bytes, "experts", &memory));
    if (!ps_thread_start(sim_main, s, &s->thread)) {
        ps_pages_unmap(memory, memory_bytes);
        return ps_fail(PS_IO, "cannot start a thread that copies experts");
    }
    memset(memory, 0, memory_bytes); // so that no read pays for its pages
    tier->memory = memory;
    tier->memory_bytes = memory_bytes;
    return PS_OK;
}

static uint64_t sim_done_count(const ps_tier *tier)
{
    return atomic_load_explicit(&((const sim *)tier)->done_count, memory_order_acquire);
}

static void sim_wait(ps_tier *tier, uint64_t count)
{
    sim *s = (sim *)tier;
    (void)pthread_mutex_lock(&s->lock);
    while (sim_done_count(tier) <= count) {
        (void)pthread_cond_wait(&s->done_changed, &s->lock);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

// Memory does not fail.
static ps_status sim_read_status(const ps_tier *tier, const ps_read *read)
{
    (void)tier;
    ps_assert(read->error == 0);
    return PS_OK;
}

static void sim_get_info(ps_tier *tier, ps_tier_info *out)
{
    sim *s = (sim *)tier;
    (void)pthread_mutex_lock(&s->lock);
    *out = (ps_tier_info){.name = "dram", .way = s->way, .bytes = s->bytes, .busy_ns = s->busy_ns};
    (void)pthread_mutex_unlock(&s->lock);
}

static void sim_destroy(ps_tier *tier)
{
    sim *s = (sim *)tier;
    if (tier->memory != NULL) {
        (void)pthread_mutex_lock(&s->lock);
        s->is_stopping = true;
        (void)pthread_cond_signal(&s->work);
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_join(s->thread, NULL);
        ps_read_list_drop(&s->demanded);
        ps_read_list_drop(&s->speculative);
        ps_pages_unmap(tier->memory, tier->memory_bytes);
    }
    (void)pthread_cond_destroy(&s->work);
    (void)pthread_cond_destroy(&s->done_changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static const ps_tier_functions SIM = {.open = sim_open,
                                      .submit = sim_submit,
                                      .promote = sim_promote,
                                      .done_count = sim_done_count,
                                      .wait = sim_wait,
                                      .read_status = sim_read_status,
                                      .get_info = sim_get_info,
                                      .destroy = sim_destroy};

static void describe(sim *s)
{
    int length = snprintf(s->way, sizeof s->way, "simulated: %.6g us a read",
                          (double)s->link.latency_ns / 1e3);
    if (s->link.bytes_per_second > 0) {
        (void)snprintf(s->way + length, sizeof s->way - (size_t)length, ", %.4g GB/s",
                       s->link.bytes_per_second / 1e9);
    }
}

ps_status ps_tier_sim_create(const ps_cold_experts *cold, const ps_tier_link *link, ps_tier **out)
{
    sim *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a tier of experts");
    }
    s->tier.is = &SIM;
    s->cold = cold;
    s->link = *link;
    describe(s);
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->work, &clock);
    (void)pthread_condattr_destroy(&clock);
    (void)pthread_cond_init(&s->done_changed, NULL);
    (void)pthread_mutex_init(&s->lock, NULL);
    *out = &s->tier;
    return PS_OK;
}
