// exec/op_prefetch.c - what a worker does while it waits: it reads the bytes that it will need
// next.
//
// A prefetch step in the plan only puts itself on the worker's list; the bytes move in the wait
// that follows, a few KiB between two looks at what is waited for, and stop moving when it is over.
// Plain loads fill a cache on every CPU; prefetch instructions that come faster than lines arrive
// are dropped on some.
//
// Which bytes: those that this worker will read first. Of a weight, the groups of rows that its
// columns of the reader's output are made of. Of a KV cache, the blocks of its units of attention,
// but for the block that the step itself writes.
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

// Blocks of a unit that earlier steps have filled: [*first, result).
static uint32_t blocks_of(const ps_attention_unit *unit, const ps_step_row *row, uint32_t *first)
{
    const uint32_t written = row->position / PS_KV_BLOCK_TOKENS;
    const uint32_t last = unit->last / PS_KV_BLOCK_TOKENS + 1;
    *first = unit->first / PS_KV_BLOCK_TOKENS;
    return last < written ? last : written;
}

static uint64_t kv_bytes(const ps_walk *walk, const ps_bound_step *step, uint64_t begin,
                         uint64_t end)
{
    uint64_t blocks = 0;
    for (uint64_t u = begin; u < end; u++) {
        const ps_attention_unit unit = ps_exec_attention_unit(walk, step->reader, u);
        uint32_t first;
        const uint32_t last = blocks_of(&unit, &walk->rows[unit.row], &first);
        blocks += last > first ? last - first : 0;
    }
    return blocks * walk->exec->kv_layers[step->inputs[0].kv_layer].head_bytes;
}

static bool next_block(const ps_walk *walk, const ps_bound_step *step, ps_touch *touch)
{
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[0].kv_layer];
    for (; touch->unit < touch->unit_end; touch->unit++, touch->block = 0) {
        const ps_attention_unit unit = ps_exec_attention_unit(walk, step->reader, touch->unit);
        const ps_step_row *row = &walk->rows[unit.row];
        uint32_t first;
        const uint32_t last = blocks_of(&unit, row, &first);
        if (first + touch->block < last) {
            const uint32_t position = (first + touch->block++) * PS_KV_BLOCK_TOKENS;
            touch->from = ps_kv_block(walk, layer, row->sequence, position, unit.head);
            touch->end = touch->from + layer->head_bytes;
            return true;
        }
    }
    return false;
}

// ---- the list

static ps_prefetch_count *count_of(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_program *program = walk->program;
    return &program->prefetches[(uint64_t)walk->worker * program->prefetch_count + step->number];
}

void ps_exec_op_PREFETCH(const ps_walk *walk, const ps_bound_step *step)
{
    ps_touch *touch = walk->touch;
    if (step->reader != NULL && (walk->prefetch_mask >> step->plan->attributes.site & 1) == 0 &&
        touch->count < PS_TOUCH_STEPS_MAX) {
        touch->steps[touch->count++] = step;
        if (touch->count == 1) {
            touch->at = UINT32_MAX; // none begun
            touch->chunk_bytes = TOUCH_BYTES_FIRST;
        }
    }
}

static ps_trace_lane *lane_of(const ps_walk *walk)
{
    return walk->exec->options.lanes == NULL ? NULL
                                             : walk->exec->options.lanes->prefetch[walk->worker];
}

// Begins the next prefetch of the list.
static bool begin_next(const ps_walk *walk, ps_touch *touch)
{
    if (touch->at != UINT32_MAX && touch->at < touch->count) {
        ps_record_prefetch(lane_of(walk), touch->steps[touch->at], touch->start_ns,
                           ps_record_now(lane_of(walk)), touch->asked_bytes, touch->moved_bytes);
    }
    touch->at++; // from UINT32_MAX to 0
    if (touch->at >= touch->count) {
        touch->at = touch->count;
        return false;
    }
    const ps_bound_step *step = touch->steps[touch->at];
    ps_prefetch_count *count = count_of(walk, step);
    uint64_t whole;
    if (step->inputs[0].kind == PS_VALUE_WEIGHT) {
        find_weight(walk, step, &touch->from, &touch->end);
        whole = (uint64_t)(touch->end - touch->from);
        touch->unit = touch->unit_end = 0;
    } else {
        ps_exec_attention_units(walk, step->reader, &touch->unit, &touch->unit_end);
        whole = kv_bytes(walk, step, touch->unit, touch->unit_end);
        touch->block = 0;
        touch->from = touch->end = NULL;
    }
    const uint64_t limit = step->plan->attributes.bytes / walk->workers;
    const uint64_t skip = step->plan->attributes.skip / walk->workers;
    if (step->inputs[0].kind == PS_VALUE_WEIGHT) {
        touch->from += skip < whole ? skip / PS_CACHE_LINE_BYTES * PS_CACHE_LINE_BYTES : whole;
        whole = (uint64_t)(touch->end - touch->from);
    }
    touch->left_bytes = step->plan->attributes.bytes == 0 || whole < limit ? whole : limit;
    touch->asked_bytes = touch->left_bytes;
    touch->moved_bytes = 0;
    touch->start_ns = ps_record_now(lane_of(walk));
    count->fired++;
    count->asked_bytes += touch->left_bytes;
    return true;
}

bool ps_exec_touch_next(void *context)
{
    const ps_walk *walk = context;
    ps_touch *touch = walk->touch;
    for (;;) {
        if (touch->count == 0 || touch->at == touch->count) {
            return false;
        }
        const ps_bound_step *step = touch->at == UINT32_MAX ? NULL : touch->steps[touch->at];
        if (step == NULL || touch->left_bytes == 0 ||
            (touch->from == touch->end && !next_block(walk, step, touch))) {
            if (!begin_next(walk, touch)) {
                return false;
            }
            continue;
        }
        uint64_t bytes = (uint64_t)(touch->end - touch->from);
        bytes = bytes < touch->chunk_bytes ? bytes : touch->chunk_bytes;
        touch->chunk_bytes += touch->chunk_bytes < TOUCH_BYTES_MOST ? touch->chunk_bytes : 0;
        bytes = bytes < touch->left_bytes ? bytes : touch->left_bytes;
        walk->kernels->read(touch->from, bytes / READ_UNIT_BYTES * READ_UNIT_BYTES);
        touch->from += bytes;
        touch->left_bytes -= bytes;
        touch->moved_bytes += bytes;
        count_of(walk, step)->moved_bytes += bytes;
        return true;
    }
}

void ps_exec_touch_end(const ps_walk *walk)
{
    ps_touch *touch = walk->touch;
    // What the wait was too short to begin was asked for all the same.
    while (touch->count > 0 && begin_next(walk, touch)) {
    }
    touch->count = 0;
}

// ---- the report

void ps_exec_prefetch_report(const ps_exec *exec, const ps_program *program, ps_site site,
                             ps_prefetch_report *out)
{
    const ps_gain gain = ps_guard_gain(&program->guard, site);
    *out = (ps_prefetch_report){.controls = gain.controls,
                                .gain = gain.median,
                                .gain_lower = gain.lower,
                                .gain_upper = gain.upper,
                                .is_off = program->guard.off >> site & 1};
    for (uint32_t i = 0; i < program->plan->step_count; i++) {
        const ps_bound_step *step = &program->steps[i];
        if (step->reader == NULL || (site != PS_SITE_NONE && step->plan->attributes.site != site)) {
            continue;
        }
        out->planned++;
        for (uint32_t w = 0; w < ps_team_workers(exec->team); w++) {
            const ps_prefetch_count *count =
                &program->prefetches[(uint64_t)w * program->prefetch_count + step->number];
            out->fired += w == 0 ? count->fired : 0;
            out->asked_bytes += count->asked_bytes;
            out->moved_bytes += count->moved_bytes;
        }
    }
}
