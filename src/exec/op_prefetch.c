// exec/op_prefetch.c - what a worker does while it waits: it reads the bytes that it will need
// next.
//
// A prefetch step in the plan only puts itself on the worker's list; the bytes move in the wait
// that follows, a few KiB between two looks at what is waited for, and stop moving when it is over.
// Plain loads fill a cache on every CPU; prefetch instructions that come faster than lines arrive
// are dropped on some.
//
// Which bytes: those that this worker will read first. Of a weight, the groups of rows that its
// columns of the reader's output are made of. Of a KV cache, the blocks of its part of attention,
// but for those that the step itself writes.
#include "exec/record.h"

// Between two looks: little in a short wait, which would last longer by what is too much; more in a
// long one, in which looking takes time from reading.
#define TOUCH_BYTES_FIRST 2048u
#define TOUCH_BYTES_MOST 16384u
#define READ_UNIT_BYTES 512u

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

static void find_weight(const ps_walk *walk, const ps_bound_step *step, const char **from,
                        const char **to)
{
    const ps_bound_step *reader = step->reader;
    const ps_weight *weight = step->inputs[0].weight;
    uint32_t begin, end;
    uint32_t column = 0;
    ps_columns_of(walk, reader, &reader->output, &begin, &end);
    if (reader->plan->op == PS_OP_LINEAR) {
        for (uint32_t i = 1; reader->inputs[i].weight != weight; i++) {
            column += reader->inputs[i].weight->outputs;
        }
    }
    weight_range(weight, column, begin, end, from, to);
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

// The next range of what is being moved: a weight is one, a kv has one for each block.
static bool next_range(const ps_walk *walk, ps_touch *touch)
{
    const ps_bound_step *step = touch->step;
    if (step->inputs[0].kind == PS_VALUE_WEIGHT ||
        (touch->span.block == touch->span.end &&
         !ps_exec_next_kv_span(walk, step->reader, &touch->cursor, &touch->span))) {
        return false;
    }
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[0].kv_layer];
    touch->from = ps_kv_block(walk, layer, touch->span.sequence,
                              touch->span.block++ * PS_KV_BLOCK_TOKENS, touch->span.head);
    touch->end = touch->from + layer->head_bytes;
    return true;
}

// ---- the list

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static ps_prefetch_count *count_of(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_program *program = walk->program;
    return &program->prefetches[(uint64_t)walk->worker * program->prefetch_count + step->number];
}

void ps_exec_op_PREFETCH(const ps_walk *walk, const ps_bound_step *step)
{
    ps_touch *touch = walk->touch;
    if (step->reader == NULL) {
        return; // declined
    }
    if (touch->limit == 0) {
        touch->next = step->number;
        touch->chunk_bytes = TOUCH_BYTES_FIRST;
    }
    touch->limit = step->number + 1;
}

static ps_trace_lane *lane_of(const ps_walk *walk)
{
    const ps_exec_lanes *lanes = walk->exec->options.lanes;
    return lanes == NULL          ? NULL
           : walk->touch->is_side ? lanes->side[walk->worker]
                                  : lanes->prefetch[walk->worker];
}

// Whether the prefetch is not made in this run, or not by this thread.
static bool is_left_out(const ps_walk *walk, const ps_bound_step *step)
{
    return (walk->prefetch_mask >> ps_prefetch_slot(step) & 1) != 0 ||
           ps_is_side(step) != walk->touch->is_side;
}

// Bytes that the worker reads of what the prefetch is of.
static uint64_t whole_bytes(const ps_walk *walk, ps_touch *touch)
{
    touch->cursor = (ps_kv_cursor){0};
    touch->span = (ps_kv_span){0};
    touch->from = touch->end = NULL;
    if (touch->step->inputs[0].kind == PS_VALUE_KV) {
        return kv_bytes(walk, touch->step);
    }
    find_weight(walk, touch->step, &touch->from, &touch->end);
    return (uint64_t)(touch->end - touch->from);
}

static void skip_bytes(const ps_walk *walk, ps_touch *touch, uint64_t bytes)
{
    while (bytes > 0 && (touch->from < touch->end || next_range(walk, touch))) {
        const uint64_t part = smaller(bytes, (uint64_t)(touch->end - touch->from));
        touch->from += part;
        bytes -= part;
    }
}

// Begins the next prefetch of the list.
static bool begin_next(const ps_walk *walk, ps_touch *touch)
{
    if (touch->step != NULL) {
        ps_record_prefetch(lane_of(walk), touch->step, touch->start_ns,
                           ps_record_now(lane_of(walk)), touch->asked_bytes, touch->moved_bytes);
    }
    do {
        if (touch->next >= touch->limit) {
            touch->step = NULL;
            return false;
        }
        touch->step = walk->program->prefetch_steps[touch->next++];
    } while (is_left_out(walk, touch->step));
    const ps_op_attributes *attributes = &touch->step->plan->attributes;
    const uint64_t whole = whole_bytes(walk, touch);
    const uint64_t skip = smaller(whole, attributes->skip / walk->workers / PS_CACHE_LINE_BYTES *
                                             PS_CACHE_LINE_BYTES);
    skip_bytes(walk, touch, skip);
    touch->left_bytes = attributes->bytes == 0
                            ? whole - skip
                            : smaller(whole - skip, attributes->bytes / walk->workers);
    touch->asked_bytes = touch->left_bytes;
    touch->moved_bytes = 0;
    touch->start_ns = ps_record_now(lane_of(walk));
    ps_prefetch_count *count = count_of(walk, touch->step);
    count->fired++;
    count->asked_bytes += touch->left_bytes;
    return true;
}

bool ps_exec_touch_next(void *context)
{
    const ps_walk *walk = context;
    ps_touch *touch = walk->touch;
    while (touch->step == NULL || touch->left_bytes == 0 ||
           (touch->from == touch->end && !next_range(walk, touch))) {
        if (!begin_next(walk, touch)) {
            return false;
        }
    }
    uint64_t bytes = smaller((uint64_t)(touch->end - touch->from), touch->chunk_bytes);
    touch->chunk_bytes += touch->chunk_bytes < TOUCH_BYTES_MOST ? touch->chunk_bytes : 0;
    bytes = smaller(bytes, touch->left_bytes);
    walk->kernels->read(touch->from, bytes / READ_UNIT_BYTES * READ_UNIT_BYTES);
    touch->from += bytes;
    touch->left_bytes -= bytes;
    touch->moved_bytes += bytes;
    count_of(walk, touch->step)->moved_bytes += bytes;
    return true;
}

void ps_exec_touch_end(const ps_walk *walk)
{
    // What the wait was too short to begin was asked for all the same.
    while (begin_next(walk, walk->touch)) {
    }
    walk->touch->limit = 0;
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
    for (uint32_t i = 0; i < program->prefetch_count; i++) {
        if (slot != PS_GUARD_ALL && ps_prefetch_slot(program->prefetch_steps[i]) != slot) {
            continue;
        }
        out->planned++;
        for (uint32_t w = 0; w < ps_team_workers(exec->team); w++) {
            const ps_prefetch_count *count =
                &program->prefetches[(uint64_t)w * program->prefetch_count + i];
            out->fired += w == 0 ? count->fired : 0;
            out->asked_bytes += count->asked_bytes;
            out->moved_bytes += count->moved_bytes;
        }
    }
}
