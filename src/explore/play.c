// explore/play.c - one clock for operators, one collective in flight, prefetches in their order,
// and the bytes of each value that are near.
//
// L2 is a stream of touches: what is moved, read or written takes its place at the end, and the
// last bytes of the stream, as many as L2 has, are there. A value that was moved stands where its
// prefetches ended, so that what is left of it is known without a list.
#include "explore/play.h"

#include "cost/cost.h"
#include "explore/play_workers.h"

// A prefetch on a stream of its own that may still be under way.
typedef struct flight {
    uint32_t value;
    double done_ns;
    uint32_t span; // of its
} flight;

typedef struct player {
    ps_play_work work;
    double now;
    double comm_done; // of the last collective started; <= now: none in flight
    double side_done; // of the last prefetch on a stream of its own
    double touched;   // bytes that went through L2
    double l2_bytes;  //
    double *near;     // [values] bytes that prefetches have moved since they were last read,
    double *near_end; //   what had been touched when the last of them was moved,
    double *ready_ns; //   and when it was, on a stream of its own
    const ps_plan_step **pending; // prefetches that stand before the next wait
    uint32_t pending_count;
    flight *flights;
    uint32_t flight_first, flight_end;
    bool is_ffn; // the operators at hand
    ps_play sums;
    ps_play *layer_begin; // [layer_count + 1]
    uint32_t layer_count;
    uint32_t layer;      // the last one begun; layer_count + 1 behind it
    ps_play_span *spans; // NULL: not wanted
    uint32_t span_count;
} player;

const char *ps_play_lane_name(ps_play_lane lane)
{
    static const char *const NAMES[PS_LANE_COUNT] = {"compute", "comm", "prefetch", "wait",
                                                     "barrier"};
    return (unsigned)lane < PS_LANE_COUNT ? NAMES[lane] : NULL;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static uint32_t add_span(player *p, const ps_play_span *span)
{
    if (p->spans != NULL) {
        p->spans[p->span_count] = *span;
    }
    return p->span_count++;
}

static uint32_t index_of(const player *p, const ps_plan_step *step)
{
    return (uint32_t)(step - p->work.plan->steps);
}

// ---- time on the lane of operators

static void pass(player *p, double ns)
{
    p->now += ns;
    *(p->is_ffn ? &p->sums.ffn_ns : &p->sums.attention_ns) += ns;
}

// Nothing runs on it until then.
static void stand(player *p, const ps_plan_step *step, ps_play_lane lane, double until)
{
    (void)add_span(
        p, &(ps_play_span){
               .step = index_of(p, step), .lane = lane, .begin_ns = p->now, .end_ns = until});
    pass(p, until - p->now);
}

static void wait_until(player *p, const ps_plan_step *step, double until)
{
    if (until > p->now) {
        p->sums.wait_ns += until - p->now;
        stand(p, step, PS_LANE_WAIT, until);
    }
}

// ---- what is near

// Of what prefetches moved of a value, what L2 still has.
static double kept_bytes(const player *p, uint32_t id)
{
    const double begin = p->near_end[id] - p->near[id];
    const double oldest = p->touched - p->l2_bytes;
    return oldest <= begin ? p->near[id] : larger(p->near_end[id] - oldest, 0);
}

static void note_moved(player *p, const ps_plan_step *prefetch, double bytes)
{
    const uint32_t id = prefetch->inputs[0];
    const ps_site site = (ps_site)prefetch->attributes.site;
    const bool is_attention = site == PS_SITE_ATTN_QKV || site == PS_SITE_ATTN_O ||
                              site == PS_SITE_KV;
    p->touched += bytes;
    p->near[id] += bytes;
    p->near_end[id] = p->touched;
    p->sums.moved_bytes += bytes;
    *(is_attention ? &p->sums.attention_moved_bytes : &p->sums.ffn_moved_bytes) += bytes;
}

// ---- operators

// What a step reads.
typedef struct reads {
    double cold, warm;       // bytes
    double words;            // elements
    double cold_ns, warm_ns; // that they take
    double all_cold_ns;      // if nothing were near
    double ready_ns;         // when its own prefetches are done; 0: there are none
} reads;

static reads read_operands(player *p, const ps_plan_step *step)
{
    reads r = {0};
    for (uint32_t i = 0; i < step->input_count; i++) {
        const uint32_t id = step->inputs[i];
        const double bytes = ps_play_stored_bytes(&p->work, step, id);
        if (bytes <= 0) {
            continue;
        }
        const double part = ps_play_used_part(&p->work, step, id);
        const double kept = kept_bytes(p, id);
        const double warm = smaller(kept * part, bytes);
        const double cold_gbs = ps_play_read_gbs(&p->work, id, false);
        r.warm += warm;
        r.cold += bytes - warm;
        r.words += bytes * ps_play_byte_words(&p->work, id);
        r.cold_ns += (bytes - warm) / cold_gbs;
        r.warm_ns += warm / ps_play_read_gbs(&p->work, id, true);
        r.all_cold_ns += bytes / cold_gbs;
        r.ready_ns = p->near[id] > 0 ? larger(r.ready_ns, p->ready_ns[id]) : r.ready_ns;
        p->sums.lost_bytes += p->near[id] - kept;
        p->near[id] = 0;
    }
    p->touched += r.cold + r.warm;
    return r;
}

// Who reads what a stream has moved waits as the machine's profile says. Elsewhere it is there.
static void join_prefetches(player *p, const ps_plan_step *step, const reads *r)
{
    if (r->ready_ns > 0) {
        const uint32_t join = p->work.machine->profile.join;
        wait_until(p, step,
                   join == PS_JOIN_BARRIER ? p->side_done
                   : join == PS_JOIN_EVENT ? r->ready_ns
                                           : 0);
    }
}

// Memory that serves an operator does not serve prefetches that are under way.
static void delay_prefetches(player *p, double cold)
{
    const double ns = cold / p->work.machine->read_gbs;
    while (p->flight_first < p->flight_end && p->flights[p->flight_first].done_ns <= p->now) {
        p->flight_first++;
    }
    for (uint32_t i = p->flight_first; i < p->flight_end; i++) {
        flight *f = &p->flights[i];
        f->done_ns += ns;
        p->ready_ns[f->value] = larger(p->ready_ns[f->value], f->done_ns);
        p->side_done = larger(p->side_done, f->done_ns);
        if (p->spans != NULL) {
            p->spans[f->span].end_ns = f->done_ns;
        }
    }
}

// Its results.
static double written_bytes(const player *p, const ps_plan_step *step)
{
    const ps_plan_value *output = step->output == PS_NO_VALUE ? NULL
                                                              : &p->work.plan->values[step->output];
    return output == NULL
               ? 0
               : (double)(ps_play_rows(&p->work, output) * ps_plan_row_bytes(&output->is));
}

// Layers are numbered from 1 up; what stands behind the last has none.
static void note_layer(player *p, const ps_plan_step *step)
{
    const uint32_t own = step->attributes.layer;
    const bool is_behind = own == 0 && p->layer == p->layer_count;
    const uint32_t layer = is_behind ? p->layer_count + 1 : own;
    p->sums.total_ns = p->now;
    while (p->layer < layer && p->layer <= p->layer_count) {
        p->layer_begin[p->layer++] = p->sums;
    }
}

// A linear that ends a block: what follows, the sum of its results first, belongs to the next.
static void note_segment(player *p, const ps_plan_step *step)
{
    const ps_site site = (ps_site)step->attributes.site;
    if (site == PS_SITE_ATTN_O) {
        p->is_ffn = true;
    } else if (site == PS_SITE_MLP_DOWN || site == PS_SITE_MOE_DOWN) {
        p->is_ffn = false;
    }
}

static void run_step(player *p, const ps_plan_step *step)
{
    double ops = 0;
    const reads r = read_operands(p, step);
    const double compute = ps_play_compute_ns(&p->work, step, &ops);
    join_prefetches(p, step, &r);
    delay_prefetches(p, r.cold);
    const double begin = p->now;
    const double miss_ns = p->work.options->expert_misses > 0 ? ps_play_miss_ns(&p->work, step) : 0;
    const ps_play_times t = ps_play_share(&p->work, step, r.cold_ns, r.warm_ns, compute);
    const double all_cold_ns = ps_play_share(&p->work, step, r.all_cold_ns, 0, compute).ns;
    const double fixed_ns = ps_play_fixed_ns(&p->work, step) + t.seen_ns;
    const double ns = larger(t.ns - t.seen_ns, miss_ns) + fixed_ns;
    p->sums.saved_ns += all_cold_ns - t.ns;
    p->sums.work_ns += ns;
    p->sums.miss_ns += miss_ns;
    p->sums.memory_bytes += r.cold;
    p->sums.cache_bytes += r.warm;
    p->sums.ops += ops;
    p->sums.words += r.words;
    p->touched += written_bytes(p, step);
    pass(p, ns);
    (void)add_span(p, &(ps_play_span){.step = index_of(p, step),
                                      .lane = PS_LANE_COMPUTE,
                                      .begin_ns = begin,
                                      .end_ns = p->now,
                                      .memory_bytes = r.cold,
                                      .cache_bytes = r.warm,
                                      .ops = ops,
                                      .words = r.words,
                                      .memory_ns = t.memory_ns,
                                      .cache_ns = t.cache_ns,
                                      .cold_ns = r.all_cold_ns,
                                      .compute_ns = t.compute_ns,
                                      .miss_ns = miss_ns,
                                      .fixed_ns = fixed_ns});
    // Reading behind a prefetch ends with it.
    if (p->work.machine->profile.join == PS_JOIN_STREAM) {
        wait_until(p, step, r.ready_ns);
    }
    note_segment(p, step);
}

// ---- prefetches

// Workers without a stream move bytes while something is waited for.
static void fill(player *p, double ns)
{
    double left = ns * p->work.machine->fill_gbs;
    double begin = p->now;
    p->sums.fillable_bytes += left;
    for (uint32_t i = 0; i < p->pending_count; i++) {
        const double moved = smaller(ps_play_asked_bytes(&p->work, p->pending[i]), left);
        const double end = begin + moved / p->work.machine->fill_gbs;
        note_moved(p, p->pending[i], moved);
        (void)add_span(p, &(ps_play_span){.step = index_of(p, p->pending[i]),
                                          .lane = PS_LANE_PREFETCH,
                                          .begin_ns = begin,
                                          .end_ns = end,
                                          .memory_bytes = moved});
        left -= moved;
        begin = end;
    }
    p->pending_count = 0;
}

static void start_prefetch(player *p, const ps_plan_step *prefetch)
{
    const uint32_t id = prefetch->inputs[0];
    if (!ps_play_is_made(&p->work, prefetch)) {
        return;
    }
    if (!p->work.machine->has_prefetch_stream) {
        p->pending[p->pending_count++] = prefetch;
        return;
    }
    const double bytes = ps_play_asked_bytes(&p->work, prefetch);
    const double begin = larger(p->side_done, p->now);
    p->side_done = begin + bytes / p->work.machine->fill_gbs;
    p->ready_ns[id] = p->side_done;
    p->sums.fillable_bytes += bytes;
    note_moved(p, prefetch, bytes);
    p->flights[p->flight_end++] = (flight){
        .value = id,
        .done_ns = p->side_done,
        .span = add_span(p, &(ps_play_span){.step = index_of(p, prefetch),
                                            .lane = PS_LANE_PREFETCH,
                                            .begin_ns = begin,
                                            .end_ns = p->side_done,
                                            .memory_bytes = bytes})};
}

// ---- collectives

static void wait_for_comm(player *p, const ps_plan_step *step)
{
    if (p->comm_done > p->now) {
        fill(p, p->comm_done - p->now);
        wait_until(p, step, p->comm_done);
    }
}

static void start_comm(player *p, const ps_plan_step *step)
{
    wait_for_comm(p, step);
    const uint32_t chunks = step->attributes.chunks == 0 ? 1 : step->attributes.chunks;
    double chunk_ns = 0;
    const double first_ns = ps_play_collective_ns(&p->work, step, &chunk_ns);
    const double start = p->now;
    if (step->op == PS_OP_LINEAR_ALL_REDUCE) {
        run_step(p, step);
    }
    // The last chunk starts when all has been computed, and when the ones before have gone.
    const double first = start + (p->now - start) / chunks;
    const double rest_ns = (chunks - 1) * chunk_ns;
    p->comm_done = larger(p->now, first + rest_ns) + first_ns;
    p->sums.comm_ns += first_ns + rest_ns;
    (void)add_span(
        p, &(ps_play_span){.step = index_of(p, step),
                           .lane = PS_LANE_COMM,
                           .begin_ns = step->op == PS_OP_LINEAR_ALL_REDUCE ? first : start,
                           .end_ns = p->comm_done,
                           .memory_bytes = (double)ps_play_collective_bytes(&p->work, step)});
}

// ---- the plan

static void pass_barrier(player *p, const ps_plan_step *step)
{
    const ps_machine *machine = p->work.machine;
    const double once_ns = larger(machine->barrier_ns, machine->workers.meet_ns);
    const double ns = machine->threads > 1 ? once_ns : 0;
    p->pending_count = 0;
    p->sums.barrier_ns += ns;
    if (ns > 0) {
        stand(p, step, PS_LANE_BARRIER, p->now + ns);
    }
}

static void walk(player *p)
{
    const ps_plan *plan = p->work.plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op == PS_OP_PREFETCH) {
            start_prefetch(p, step);
            continue;
        }
        note_layer(p, step);
        if (step->join > 0) {
            wait_for_comm(p, step);
        }
        if (step->barrier) {
            pass_barrier(p, step);
        }
        if (step->stream == PS_STREAM_COMM) {
            start_comm(p, step);
        } else {
            run_step(p, step);
        }
    }
    if (plan->step_count > 0) {
        wait_for_comm(p, &plan->steps[plan->step_count - 1]);
    }
    p->sums.total_ns = p->now;
    while (p->layer <= p->layer_count) {
        p->layer_begin[p->layer++] = p->sums;
    }
}

static uint32_t count_layers(const ps_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const uint32_t layer = plan->steps[i].attributes.layer;
        count = layer > count && layer <= plan->step_count ? layer : count;
    }
    return count;
}

ps_status ps_play_plan(const ps_plan *plan, const ps_machine *machine,
                       const ps_play_options *options, ps_arena *arena, ps_played *out)
{
    ps_assert(options->rows > 0 && options->rows <= plan->rows_max);
    const uint32_t layers = count_layers(plan);
    // What L2 gives up, a larger last level has.
    const uint64_t l2 = ps_machine_l2_bytes(machine);
    player p = {.work = {.plan = plan, .machine = machine, .options = options},
                .l2_bytes = (double)(machine->llc_bytes > l2 ? machine->llc_bytes : l2),
                .near = PS_ARENA_NEW(arena, double, plan->value_count),
                .near_end = PS_ARENA_NEW(arena, double, plan->value_count),
                .ready_ns = PS_ARENA_NEW(arena, double, plan->value_count),
                .pending = PS_ARENA_NEW(arena, const ps_plan_step *, plan->step_count),
                .flights = PS_ARENA_NEW(arena, flight, plan->step_count),
                .layer_count = layers,
                .layer_begin = PS_ARENA_NEW(arena, ps_play, layers + (uint64_t)1)};
    // Of a step one, and up to two waits, a barrier and a collective beside it.
    p.spans = options->records
                  ? PS_ARENA_NEW(arena, ps_play_span, 5 * (uint64_t)plan->step_count + 1)
                  : NULL;
    if (p.near == NULL || p.near_end == NULL || p.ready_ns == NULL || p.pending == NULL ||
        p.flights == NULL || p.layer_begin == NULL || (options->records && p.spans == NULL)) {
        return PS_NO_MEMORY;
    }
    walk(&p);
    *out = (ps_played){.sums = p.sums,
                       .layer_begin = p.layer_begin,
                       .layer_count = layers,
                       .spans = p.spans,
                       .span_count = p.spans == NULL ? 0 : p.span_count};
    return PS_OK;
}
