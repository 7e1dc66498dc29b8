// exec/op_prefetch.c - what a worker does while it waits: it reads the bytes that it will need
// next.
//
// A prefetch has no turn of its own: the bytes move in the wait that follows it, a few KiB between
// two looks at what is waited for, and stop moving when it is over. Plain loads fill a cache on
// every CPU; prefetch instructions that come faster than lines arrive are dropped on some.
//
// Which bytes: those that this worker will read first. Of a weight, the groups of rows that its
// columns of the reader's output are made of. Of a KV cache, the blocks of its part of attention,
// but for those that the step itself writes.
#include "exec/record.h"

#include <string.h>

// Between two looks: little in a short wait, which would last longer by what is too much; more in a
// long one, for a look reads the clock, and the clock waits for the loads before it. Half as much
// again each time keeps what is too much below a third of the wait; and it is not lost, but read
// early.
#define TOUCH_BYTES_FIRST 2048u
#define TOUCH_BYTES_MOST 65536u
#define READ_UNIT_BYTES 512u

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// ---- weights

// The packed groups of `weight` that make columns [begin, end) of the reader's output, of which the
// weight's first one is `column`.
static void weight_range(const ps_weight *weight, uint32_t column, uint32_t begin, uint32_t end,
                         const char **from, const char **to)
{
    const uint32_t first = begin > column ? begin - column : 0;
    const uint32_t last = end < column + weight->outputs ? end - column : weight->outputs;
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    const char *data = weight->data;
    *from = data;
    *to = data;
    if (end > column && first < last) {
        *from = data + first / PS_GROUP_ROWS * group_bytes;
        *to = data + ps_divide_up(last, PS_GROUP_ROWS) * group_bytes;
    }
}

// Of experts nobody knows yet which ones whose rows will need: each worker moves its part of the
// first ones.
static void expert_range(const ps_bound_step *step, uint32_t worker, uint32_t workers,
                         ps_prefetch_part *out)
{
    const ps_weight *weight = step->inputs[0].weight;
    const ps_op_attributes *attributes = &step->plan->attributes;
    const uint64_t matrix = ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
    const uint64_t whole = weight->experts * matrix;
    const uint64_t skip = smaller(attributes->skip, whole);
    const uint64_t bytes = attributes->bytes == 0 ? whole - skip
                                                  : smaller(attributes->bytes, whole - skip);
    uint64_t first, last;
    ps_plan_share(bytes / PS_CACHE_LINE_BYTES, worker, workers, &first, &last);
    const uint64_t at = skip + first * PS_CACHE_LINE_BYTES;
    out->bytes = (last - first) * PS_CACHE_LINE_BYTES;
    out->first_bytes = smaller(matrix - at % matrix, out->bytes);
    out->from = out->bytes == 0 ? weight->data
                                : ps_weight_expert(weight, at / matrix) + at % matrix;
}

// The matrix of the next expert; false: it is no weight of experts.
static bool next_matrix(ps_touch *touch)
{
    const ps_weight *weight = touch->parts[touch->at].step->inputs[0].weight;
    if (weight->experts == 0) {
        return false;
    }
    const uint64_t matrix = ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
    touch->from = touch->to - matrix + weight->expert_stride_bytes;
    touch->to = touch->from + matrix;
    return true;
}

// A worker's part of `bytes` of a weight: as much as it reads of the weight. Of several weights
// that make one output, a worker may read most of one and nothing of another.
static uint64_t part_of(const ps_bound_step *step, uint64_t bytes, uint64_t own_bytes,
                        uint32_t workers)
{
    const ps_weight *weight = step->inputs[0].weight;
    const uint64_t whole = ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
    return step->reader->plan->split == PS_SPLIT_COLUMNS
               ? (uint64_t)((double)bytes * (double)own_bytes / (double)whole)
               : bytes / workers;
}

static void linear_range(const ps_bound_step *step, uint32_t worker, uint32_t workers,
                         ps_prefetch_part *out)
{
    const char *from, *to;
    const ps_bound_step *reader = step->reader;
    const ps_weight *weight = step->inputs[0].weight;
    const ps_op_attributes *attributes = &step->plan->attributes;
    uint32_t begin, end;
    uint32_t column = 0;
    ps_worker_columns(reader, &reader->output, worker, workers, &begin, &end);
    if (reader->plan->op == PS_OP_LINEAR) {
        for (uint32_t i = 1; reader->inputs[i].weight != weight; i++) {
            column += reader->inputs[i].weight->outputs;
        }
    }
    weight_range(weight, column, begin, end, &from, &to);
    const uint64_t own = (uint64_t)(to - from);
    const uint64_t skip = part_of(step, attributes->skip, own, workers) / PS_CACHE_LINE_BYTES *
                          PS_CACHE_LINE_BYTES;
    out->from = from + smaller(skip, own);
    out->bytes = (uint64_t)(to - out->from);
    if (attributes->bytes > 0) {
        out->bytes = smaller(part_of(step, attributes->bytes, own, workers), out->bytes);
    }
    out->first_bytes = out->bytes;
}

void ps_exec_bind_prefetch(const ps_bound_step *step, uint32_t worker, uint32_t workers,
                           ps_prefetch_part *out)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    *out = (ps_prefetch_part){
        .step = step,
        .slot = (uint16_t)ps_guard_slot((ps_site)attributes->site, (ps_window)attributes->window),
        .is_side = step->plan->stream == PS_STREAM_SIDE,
        .tokens_min = attributes->tokens_min,
        .tokens_max = attributes->tokens_max == 0 ? UINT32_MAX : attributes->tokens_max,
        .skip_bytes = attributes->skip / workers / PS_CACHE_LINE_BYTES * PS_CACHE_LINE_BYTES,
        .bytes = attributes->bytes == 0 ? UINT64_MAX : attributes->bytes / workers};
    if (step->inputs[0].kind == PS_VALUE_WEIGHT) {
        if (step->inputs[0].weight->experts > 0) {
            expert_range(step, worker, workers, out);
        } else {
            linear_range(step, worker, workers, out);
        }
    }
}

// ---- KV

static uint64_t kv_bytes(const ps_walk *walk, const ps_bound_step *step)
{
    ps_kv_cursor cursor = {0};
    ps_kv_span span;
    uint64_t blocks = 0;
    while (ps_exec_next_kv_span(walk, step->reader, &cursor, &span)) {
        blocks += span.end - span.block;
    }
    return blocks * walk->exec->kv_layers[step->inputs[0].kv_layer].head_bytes;
}

// The next block of what is being moved; false: that was all.
static bool next_block(const ps_walk *walk, ps_touch *touch)
{
    const ps_bound_step *step = touch->parts[touch->at].step;
    if (touch->span.block == touch->span.end &&
        !ps_exec_next_kv_span(walk, step->reader, &touch->cursor, &touch->span)) {
        return false;
    }
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[0].kv_layer];
    touch->from = ps_kv_block(walk, layer, touch->span.sequence,
                              touch->span.block++ * PS_KV_BLOCK_TOKENS, touch->span.head);
    touch->to = touch->from + layer->head_bytes;
    return true;
}

static void begin_kv(const ps_walk *walk, ps_touch *touch)
{
    const ps_prefetch_part *part = &touch->parts[touch->at];
    touch->cursor = (ps_kv_cursor){0};
    touch->span = (ps_kv_span){0};
    touch->from = touch->to = NULL;
    const uint64_t whole = kv_bytes(walk, part->step);
    uint64_t skip = smaller(part->skip_bytes, whole);
    touch->left_bytes = smaller(whole - skip, part->bytes);
    while (skip > 0 && (touch->from < touch->to || next_block(walk, touch))) {
        const uint64_t bytes = smaller(skip, (uint64_t)(touch->to - touch->from));
        touch->from += bytes;
        skip -= bytes;
    }
}

// ---- the list

// Waits find prefetches by their numbers.
void ps_exec_op_PREFETCH(const ps_walk *walk, const ps_bound_step *step)
{
    (void)walk;
    (void)step;
}

static ps_trace_lane *lane_of(const ps_walk *walk)
{
    const ps_exec_lanes *lanes = walk->exec->options.lanes;
    return lanes == NULL          ? NULL
           : walk->touch->is_side ? lanes->side[walk->worker]
                                  : lanes->prefetch[walk->worker];
}

static bool is_made(const ps_walk *walk, const ps_prefetch_part *part)
{
    return part->is_side == walk->touch->is_side && (walk->prefetch_mask >> part->slot & 1) == 0 &&
           walk->row_count >= part->tokens_min && walk->row_count <= part->tokens_max;
}

static void begin(const ps_walk *walk, ps_touch *touch)
{
    ps_prefetch_part *part = &touch->parts[touch->at];
    if (part->from != NULL) {
        touch->from = part->from;
        touch->to = part->from + part->first_bytes;
        touch->left_bytes = part->bytes;
    } else {
        begin_kv(walk, touch);
    }
    touch->is_begun = true;
    touch->asked_bytes = touch->left_bytes;
    touch->start_ns = ps_record_now(lane_of(walk));
    part->fired++;
    part->asked_bytes += touch->left_bytes;
}

static void end(const ps_walk *walk, ps_touch *touch)
{
    ps_prefetch_part *part = &touch->parts[touch->at++];
    const uint64_t moved_bytes = touch->asked_bytes - touch->left_bytes;
    touch->is_begun = false;
    part->moved_bytes += moved_bytes;
    ps_record_prefetch(lane_of(walk), part->step, touch->start_ns, ps_record_now(lane_of(walk)),
                       touch->asked_bytes, moved_bytes);
}

// Whether there is one in hand: begun, or the next that is made in this run.
static bool has_part(const ps_walk *walk, ps_touch *touch)
{
    while (touch->at < touch->end && !touch->is_begun) {
        if (is_made(walk, &touch->parts[touch->at])) {
            begin(walk, touch);
        } else {
            touch->at++;
        }
    }
    return touch->at < touch->end;
}

static void move_piece(const ps_walk *walk, ps_touch *touch)
{
    const uint32_t more = touch->chunk_bytes +
                          touch->chunk_bytes / 2 / READ_UNIT_BYTES * READ_UNIT_BYTES;
    touch->chunk_bytes = more == 0                 ? TOUCH_BYTES_FIRST
                         : more < TOUCH_BYTES_MOST ? more
                                                   : TOUCH_BYTES_MOST;
    uint64_t bytes = smaller((uint64_t)(touch->to - touch->from), touch->chunk_bytes);
    bytes = smaller(bytes, touch->left_bytes);
    walk->kernels->read(touch->from, bytes / READ_UNIT_BYTES * READ_UNIT_BYTES);
    touch->from += bytes;
    touch->left_bytes -= bytes;
}

// Times are those of worker 0.
static bool is_timed(const ps_walk *walk)
{
    return walk->exec->times != NULL && walk->worker == 0 && !walk->touch->is_side;
}

bool ps_exec_touch_next(void *context)
{
    const ps_walk *walk = context;
    ps_touch *touch = walk->touch;
    while (has_part(walk, touch)) {
        const bool is_kv = touch->parts[touch->at].from == NULL;
        if (touch->left_bytes > 0 &&
            (touch->from < touch->to || (is_kv ? next_block(walk, touch) : next_matrix(touch)))) {
            move_piece(walk, touch);
            return true;
        }
        end(walk, touch);
    }
    if (touch->done_ns == 0 && is_timed(walk)) {
        touch->done_ns = ps_clock_ns();
    }
    return false;
}

static void count_slack(const ps_walk *walk, ps_touch *touch)
{
    const uint64_t now = ps_clock_ns();
    uint64_t counted = 0; // slots
    for (uint32_t i = touch->wait_from; i < touch->end; i++) {
        const ps_prefetch_part *part = &touch->parts[i];
        const uint64_t bit = (uint64_t)1 << part->slot;
        if (is_made(walk, part) && (counted & bit) == 0) {
            ps_wait_slack *slack = &walk->program->slacks[part->slot];
            slack->ns += touch->done_ns == 0 ? 0 : now - touch->done_ns;
            slack->waits++;
            counted |= bit;
        }
    }
    touch->wait_from = touch->end;
    touch->done_ns = 0;
}

void ps_exec_touch_end(const ps_walk *walk)
{
    ps_touch *touch = walk->touch;
    if (is_timed(walk)) {
        count_slack(walk, touch);
    }
    // What the wait was too short to begin was asked for all the same.
    while (has_part(walk, touch)) {
        end(walk, touch);
    }
    touch->chunk_bytes = 0;
}

// ---- the report

void ps_exec_prefetch_report(const ps_exec *exec, const ps_program *program, ps_site site,
                             ps_window window, ps_prefetch_report *out)
{
    const uint32_t slot = site == PS_SITE_COUNT ? PS_GUARD_ALL : ps_guard_slot(site, window);
    const ps_gain gain = ps_guard_gain(&program->guard, slot);
    *out = (ps_prefetch_report){.controls = gain.controls,
                                .gain = gain.median,
                                .gain_lower = gain.lower,
                                .gain_upper = gain.upper,
                                .is_off = program->guard.off >> slot & 1};
    for (uint32_t s = 0; s < PS_GUARD_SLOTS; s++) {
        out->slack_ns += slot == PS_GUARD_ALL || slot == s ? program->slacks[s].ns : 0;
        out->slack_waits += slot == PS_GUARD_ALL || slot == s ? program->slacks[s].waits : 0;
    }
    const uint32_t count = program->prefetch_count;
    for (uint32_t i = 0; i < count * ps_team_workers(exec->team); i++) {
        const ps_prefetch_part *part = &program->prefetches[i];
        if (slot == PS_GUARD_ALL || part->slot == slot) {
            out->planned += i < count;
            out->fired += i < count ? part->fired : 0; // the same for all workers
            out->asked_bytes += part->asked_bytes;
            out->moved_bytes += part->moved_bytes;
        }
    }
}

void ps_exec_prefetches_made(const ps_program *program, uint64_t made[PS_SITE_COUNT])
{
    memset(made, 0, PS_SITE_COUNT * sizeof made[0]);
    for (uint32_t i = 0; i < program->prefetch_count; i++) {
        made[program->prefetches[i].slot % PS_SITE_COUNT] += program->prefetches[i].fired;
    }
}
