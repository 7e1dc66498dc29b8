// exec/op_attention.c - KV in, attention out. One partial per 256 absolute positions, merged left
// to right, whoever computes it: so decode that is split over the context and prefill that is not
// give the same bits.
#include "exec/exec_internal.h"

#include <math.h>
#include <string.h>

#define CHUNK PS_ATTENTION_CHUNK
#define CHUNK_BLOCKS (PS_ATTENTION_CHUNK / PS_KV_BLOCK_TOKENS)

// K or V of the step's rows, where its columns were computed. part_bytes: from the start of a
// block.
static void write_part(const ps_walk *walk, const ps_bound_step *step, const ps_operand *from,
                       ps_kv_store_fn *store, uint64_t part_bytes)
{
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[2].kv_layer];
    const uint32_t head_dim = layer->head_dim;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    ps_columns_of(walk, step, from, &first, &last);
    for (uint32_t r = begin; r < end; r++) {
        const ps_step_row *row = &walk->rows[r];
        const float *x = ps_row_f32(walk, from, r);
        for (uint32_t h = first / head_dim; h < last / head_dim; h++) {
            char *block = ps_kv_block(walk, layer, row->sequence, row->position, h);
            store(block + part_bytes, x + (uint64_t)h * head_dim, head_dim,
                  row->position % PS_KV_BLOCK_TOKENS);
        }
    }
}

void ps_exec_op_KV_WRITE(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[2].kv_layer];
    write_part(walk, step, &step->inputs[0], ps_kernels_kv_store_k(walk->kernels, layer->k_dtype),
               0);
    write_part(walk, step, &step->inputs[1], ps_kernels_kv_store_v(walk->kernels, layer->v_dtype),
               layer->k_bytes);
}

// What the attention of one step is made of.
typedef struct shape {
    const ps_kv_layer *layer;
    uint32_t window;      // 0: all positions
    uint32_t group_heads; // query heads per KV head, of the whole model
    uint32_t head_offset; // where in its group the first query head stands
    uint32_t heads;
    uint32_t head_dim;
    float scale, softcap;
} shape;

static shape shape_of(const ps_walk *walk, const ps_bound_step *step, uint32_t columns)
{
    const ps_kv_layer *layer = &walk->exec->kv_layers[step->inputs[1].kv_layer];
    const uint32_t heads = columns / layer->head_dim;
    const uint32_t group = step->plan->attributes.group;
    return (shape){.layer = layer,
                   .window = walk->exec->kv_windows[layer->group],
                   .group_heads = group == 0 ? heads / layer->kv_heads : group,
                   .head_offset = step->plan->attributes.head_offset,
                   .heads = heads,
                   .head_dim = layer->head_dim,
                   .scale = step->plan->attributes.scale,
                   .softcap = step->plan->attributes.softcap};
}

// The query heads of a KV head: [*first, *first + result).
static uint32_t queries_of(const shape *s, uint32_t kv_head, uint32_t *first)
{
    const uint32_t begin = kv_head * s->group_heads;
    const uint32_t end = begin + s->group_heads - s->head_offset;
    *first = begin < s->head_offset ? 0 : begin - s->head_offset;
    return (end < s->heads ? end : s->heads) - *first;
}

// The first position that a row at `position` sees.
static uint32_t first_seen(uint32_t window, uint32_t position)
{
    return window == 0 || position < window ? 0 : position - window + 1;
}

// Scratch of one call of the partial kernel for `queries` queries, and a running result of as many.
typedef struct workbench {
    const float **q;
    uint16_t *begin, *end;
    float *m, *l, *o;
    float *running_m, *running_l, *running_o;
    float *scores;
} workbench;

static uint64_t workbench_bytes(uint32_t queries, uint32_t head_dim)
{
    return queries * (sizeof(float *) + 2 * sizeof(uint16_t) +
                      sizeof(float) * (4 + 2 * (uint64_t)head_dim + CHUNK)) +
           8 * PS_CACHE_LINE_BYTES;
}

static char *take(char **memory, uint64_t bytes)
{
    char *result = *memory;
    *memory += ps_round_up(bytes, PS_CACHE_LINE_BYTES);
    return result;
}

static workbench lay_out(char *memory, uint32_t queries, uint32_t head_dim)
{
    workbench bench;
    bench.scores = (float *)(void *)take(&memory, queries * sizeof(float) * CHUNK);
    bench.o = (float *)(void *)take(&memory, queries * sizeof(float) * head_dim);
    bench.running_o = (float *)(void *)take(&memory, queries * sizeof(float) * head_dim);
    bench.q = (const float **)(void *)take(&memory, queries * sizeof(float *));
    bench.m = (float *)(void *)take(&memory, queries * sizeof(float) * 4);
    bench.l = bench.m + queries;
    bench.running_m = bench.l + queries;
    bench.running_l = bench.running_m + queries;
    bench.begin = (uint16_t *)(void *)take(&memory, queries * sizeof(uint16_t) * 2);
    bench.end = bench.begin + queries;
    return bench;
}

// Points `blocks` at the KV blocks of a chunk that hold positions in [first, last).
static void find_blocks(const ps_walk *walk, const shape *s, uint32_t sequence, uint32_t kv_head,
                        uint32_t chunk, uint32_t first, uint32_t last,
                        const void *blocks[CHUNK_BLOCKS])
{
    for (uint32_t b = 0; b < CHUNK_BLOCKS; b++) {
        const uint32_t position = chunk * CHUNK + b * PS_KV_BLOCK_TOKENS;
        const bool seen = position < last && position + PS_KV_BLOCK_TOKENS > first;
        blocks[b] = seen ? ps_kv_block(walk, s->layer, sequence, position, kv_head) : NULL;
    }
}

static uint16_t clip(uint32_t position, uint32_t chunk)
{
    const uint32_t start = chunk * CHUNK;
    const uint32_t relative = position < start ? 0 : position - start;
    return (uint16_t)(relative < CHUNK ? relative : CHUNK);
}

// Attention of rows [begin, end) of one sequence with one KV head, all chunks one after the other.
static void attend_tile(const ps_walk *walk, const ps_bound_step *step, const shape *s,
                        uint32_t begin, uint32_t end, uint32_t kv_head)
{
    uint32_t head;
    const uint32_t group = queries_of(s, kv_head, &head);
    const uint32_t queries = (end - begin) * group;
    workbench bench = lay_out(walk->scratch, queries, s->head_dim);
    for (uint32_t i = 0; i < queries; i++) {
        bench.q[i] = ps_row_f32(walk, &step->inputs[0], begin + i / group) +
                     (uint64_t)(head + i % group) * s->head_dim;
        bench.running_m[i] = -INFINITY;
        bench.running_l[i] = 0;
    }
    memset(bench.running_o, 0, (uint64_t)queries * s->head_dim * sizeof(float));

    const uint32_t first = first_seen(s->window, walk->rows[begin].position);
    const uint32_t last = walk->rows[end - 1].position + 1;
    for (uint32_t chunk = first / CHUNK; chunk * CHUNK < last; chunk++) {
        for (uint32_t i = 0; i < queries; i++) {
            const uint32_t position = walk->rows[begin + i / group].position;
            bench.begin[i] = clip(first_seen(s->window, position), chunk);
            bench.end[i] = clip(position + 1, chunk);
        }
        const void *blocks[CHUNK_BLOCKS];
        find_blocks(walk, s, walk->rows[begin].sequence, kv_head, chunk, first, last, blocks);
        walk->kernels->attention_partial(&(ps_attention_partial){.q = bench.q,
                                                                 .queries = queries,
                                                                 .head_dim = s->head_dim,
                                                                 .k_dtype = s->layer->k_dtype,
                                                                 .v_dtype = s->layer->v_dtype,
                                                                 .blocks = blocks,
                                                                 .begin = bench.begin,
                                                                 .end = bench.end,
                                                                 .scale = s->scale,
                                                                 .softcap = s->softcap,
                                                                 .scratch = bench.scores,
                                                                 .m = bench.m,
                                                                 .l = bench.l,
                                                                 .o = bench.o});
        for (uint32_t i = 0; i < queries; i++) {
            if (bench.begin[i] == bench.end[i]) {
                continue; // merging nothing would still be one more rounding
            }
            walk->kernels->attention_merge(&bench.running_m[i], &bench.running_l[i],
                                           bench.running_o + (uint64_t)i * s->head_dim, bench.m[i],
                                           bench.l[i], bench.o + (uint64_t)i * s->head_dim,
                                           s->head_dim);
        }
    }
    for (uint32_t i = 0; i < queries; i++) {
        float *y = ps_row_f32(walk, &step->output, begin + i / group) +
                   (uint64_t)(head + i % group) * s->head_dim;
        walk->kernels->scale(y, bench.running_o + (uint64_t)i * s->head_dim, 1 / bench.running_l[i],
                             s->head_dim);
    }
}

// The end of the rows of one sequence that start at `begin`; at most `most` of them.
static uint32_t end_of_rows(const ps_walk *walk, uint32_t begin, uint32_t most)
{
    uint32_t end = begin + 1;
    while (end < walk->row_count && end - begin < most &&
           walk->rows[end].sequence == walk->rows[begin].sequence) {
        end++;
    }
    return end;
}

void ps_exec_op_ATTENTION(const ps_walk *walk, const ps_bound_step *step)
{
    const shape s = shape_of(walk, step, step->output.columns);
    uint32_t unit = 0;
    for (uint32_t begin = 0; begin < walk->row_count;) {
        const uint32_t end = end_of_rows(walk, begin, PS_ATTENTION_ROWS);
        for (uint32_t h = 0; h < s.layer->kv_heads; h++, unit++) {
            // Tiles late in a sequence cost more; dealing them out in turn evens that out.
            if (unit % walk->workers == walk->worker) {
                attend_tile(walk, step, &s, begin, end, h);
            }
        }
        begin = end;
    }
}

// A row of partial results: for each chunk m [heads], l [heads], o [heads][head_dim].
static uint64_t partial_chunk_floats(const shape *s)
{
    return (uint64_t)s->heads * (s->head_dim + 2);
}

// One call of the partial kernel in decode.
typedef struct unit {
    uint32_t row, kv_head, chunk;
    const void *blocks[CHUNK_BLOCKS];
} unit;

static void open_unit(const ps_walk *walk, const shape *s, unit *u)
{
    const ps_step_row *row = &walk->rows[u->row];
    find_blocks(walk, s, row->sequence, u->kv_head, u->chunk, first_seen(s->window, row->position),
                row->position + 1, u->blocks);
}

// `next`: the unit that this worker does next, or NULL.
static void attend_unit(const ps_walk *walk, const ps_bound_step *step, const shape *s,
                        const unit *u, const unit *next)
{
    const uint32_t r = u->row;
    const uint32_t kv_head = u->kv_head;
    const uint32_t chunk = u->chunk;
    uint32_t head;
    const uint32_t group = queries_of(s, kv_head, &head);
    const uint32_t position = walk->rows[r].position;
    const uint32_t first = first_seen(s->window, position);
    workbench bench = lay_out(walk->scratch, group, s->head_dim);
    for (uint32_t i = 0; i < group; i++) {
        bench.q[i] = ps_row_f32(walk, &step->inputs[0], r) + (uint64_t)(head + i) * s->head_dim;
        bench.begin[i] = clip(first, chunk);
        bench.end[i] = clip(position + 1, chunk);
    }
    float *m = ps_row_f32(walk, &step->output, r) + chunk * partial_chunk_floats(s);
    float *l = m + s->heads;
    float *o = l + s->heads;
    walk->kernels->attention_partial(
        &(ps_attention_partial){.q = bench.q,
                                .queries = group,
                                .head_dim = s->head_dim,
                                .k_dtype = s->layer->k_dtype,
                                .v_dtype = s->layer->v_dtype,
                                .blocks = u->blocks,
                                .next = next == NULL ? NULL : next->blocks,
                                .begin = bench.begin,
                                .end = bench.end,
                                .scale = s->scale,
                                .softcap = s->softcap,
                                .scratch = bench.scores,
                                .m = m + head,
                                .l = l + head,
                                .o = o + (uint64_t)head * s->head_dim});
}

// (row, chunk, head): the chunks that a row sees of one KV head each, in this order.
static uint64_t units_of_row(const ps_walk *walk, const shape *s, uint32_t r)
{
    const uint32_t position = walk->rows[r].position;
    return (position / CHUNK - first_seen(s->window, position) / CHUNK + 1) *
           (uint64_t)s->layer->kv_heads;
}

// The units [*begin, *end) that are this worker's.
static void share_units(const ps_walk *walk, const shape *s, uint64_t *begin, uint64_t *end)
{
    uint64_t units = 0;
    for (uint32_t r = 0; r < walk->row_count; r++) {
        units += units_of_row(walk, s, r);
    }
    ps_plan_share(units, walk->worker, walk->workers, begin, end);
}

// Unit `index` of row r.
static unit unit_of_row(const ps_walk *walk, const shape *s, uint32_t r, uint64_t index)
{
    const uint32_t first = first_seen(s->window, walk->rows[r].position) / CHUNK;
    return (unit){.row = r,
                  .kv_head = (uint32_t)(index % s->layer->kv_heads),
                  .chunk = first + (uint32_t)(index / s->layer->kv_heads)};
}

static unit unit_at(const ps_walk *walk, const shape *s, uint64_t index)
{
    uint32_t r = 0;
    for (; index >= units_of_row(walk, s, r); r++) {
        index -= units_of_row(walk, s, r);
    }
    return unit_of_row(walk, s, r, index);
}

void ps_exec_op_ATTENTION_PARTIAL(const ps_walk *walk, const ps_bound_step *step)
{
    const shape s = shape_of(walk, step, step->inputs[0].columns);
    uint64_t begin, end;
    share_units(walk, &s, &begin, &end);
    unit pair[2] = {0}; // each is attended when the next one's blocks are known
    for (uint64_t index = begin; index < end; index++) {
        unit *here = &pair[index % 2];
        *here = unit_at(walk, &s, index);
        open_unit(walk, &s, here);
        if (index > begin) {
            attend_unit(walk, step, &s, &pair[(index - 1) % 2], here);
        }
    }
    if (end > begin) {
        attend_unit(walk, step, &s, &pair[(end - 1) % 2], NULL);
    }
}

// ---- what a worker reads of the KV, for prefetches

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// The first row of the step that is of the same sequence as row r: from its block on, this step
// writes.
static const ps_step_row *first_of_sequence(const ps_walk *walk, uint32_t r)
{
    while (r > 0 && walk->rows[r - 1].sequence == walk->rows[r].sequence) {
        r--;
    }
    return &walk->rows[r];
}

static ps_kv_span span_of_unit(const ps_walk *walk, const shape *s, const unit *u)
{
    const ps_step_row *row = &walk->rows[u->row];
    const uint32_t written = first_of_sequence(walk, u->row)->position / PS_KV_BLOCK_TOKENS;
    const uint32_t seen = first_seen(s->window, row->position) / PS_KV_BLOCK_TOKENS;
    return (ps_kv_span){.sequence = row->sequence,
                        .head = u->kv_head,
                        .block = larger(seen, u->chunk * CHUNK_BLOCKS),
                        .end = smaller(written, (u->chunk + 1) * CHUNK_BLOCKS)};
}

// Whether this worker reads the blocks of unit `index`, which is one from `begin` on, for the row
// before, too.
static bool is_read_before(const ps_walk *walk, const shape *s, const unit *u, uint64_t index,
                           uint64_t begin)
{
    const uint32_t r = u->row;
    if (r == 0 || walk->rows[r - 1].sequence != walk->rows[r].sequence) {
        return false;
    }
    const uint32_t chunks = first_seen(s->window, walk->rows[r].position) / CHUNK -
                            first_seen(s->window, walk->rows[r - 1].position) / CHUNK;
    return index + (uint64_t)chunks * s->layer->kv_heads >= begin + units_of_row(walk, s, r - 1);
}

static bool next_of_units(const ps_walk *walk, const shape *s, ps_kv_cursor *cursor,
                          ps_kv_span *out)
{
    uint64_t begin, end;
    share_units(walk, s, &begin, &end);
    while (begin + cursor->taken < end) {
        const uint64_t index = begin + cursor->taken++;
        for (; index >= cursor->units + units_of_row(walk, s, cursor->row); cursor->row++) {
            cursor->units += units_of_row(walk, s, cursor->row);
        }
        const unit u = unit_of_row(walk, s, cursor->row, index - cursor->units);
        *out = span_of_unit(walk, s, &u);
        if (out->block < out->end && !is_read_before(walk, s, &u, index, begin)) {
            return true;
        }
    }
    return false;
}

// Whether a tile of a sequence and head is dealt to this worker; first: number of the first one.
static bool has_tile(const ps_walk *walk, uint64_t first, uint32_t tiles, uint32_t kv_heads)
{
    for (uint32_t t = 0; t < smaller(tiles, walk->workers); t++) {
        if ((first + (uint64_t)t * kv_heads) % walk->workers == walk->worker) {
            return true;
        }
    }
    return false;
}

static bool next_of_tiles(const ps_walk *walk, const shape *s, ps_kv_cursor *cursor,
                          ps_kv_span *out)
{
    const uint32_t kv_heads = s->layer->kv_heads;
    for (; cursor->row < walk->row_count; cursor->row = cursor->row_end, cursor->head = 0) {
        const ps_step_row *row = &walk->rows[cursor->row];
        if (cursor->head == 0) {
            cursor->row_end = end_of_rows(walk, cursor->row, walk->row_count);
        }
        const uint32_t tiles = (uint32_t)ps_divide_up(cursor->row_end - cursor->row,
                                                      PS_ATTENTION_ROWS);
        *out = (ps_kv_span){.sequence = row->sequence,
                            .block = first_seen(s->window, row->position) / PS_KV_BLOCK_TOKENS,
                            .end = row->position / PS_KV_BLOCK_TOKENS};
        while (cursor->head < kv_heads && out->block < out->end) {
            out->head = cursor->head++;
            if (has_tile(walk, cursor->units + out->head, tiles, kv_heads)) {
                return true;
            }
        }
        cursor->units += (uint64_t)tiles * kv_heads;
    }
    return false;
}

bool ps_exec_next_kv_span(const ps_walk *walk, const ps_bound_step *step, ps_kv_cursor *cursor,
                          ps_kv_span *out)
{
    const shape s = shape_of(walk, step, step->inputs[0].columns);
    return step->plan->op == PS_OP_ATTENTION ? next_of_tiles(walk, &s, cursor, out)
                                             : next_of_units(walk, &s, cursor, out);
}

void ps_exec_op_ATTENTION_MERGE(const ps_walk *walk, const ps_bound_step *step)
{
    const shape s = shape_of(walk, step, step->output.columns);
    uint32_t begin, end;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        const uint32_t position = walk->rows[r].position;
        for (uint32_t h = 0; h < s.heads; h++) {
            float running_m = -INFINITY;
            float running_l = 0;
            float *y = ps_row_f32(walk, &step->output, r) + (uint64_t)h * s.head_dim;
            memset(y, 0, s.head_dim * sizeof *y);
            for (uint32_t c = first_seen(s.window, position) / CHUNK; c <= position / CHUNK; c++) {
                const float *m = ps_row_f32(walk, &step->inputs[0], r) +
                                 c * partial_chunk_floats(&s);
                const float *l = m + s.heads;
                const float *o = l + s.heads;
                walk->kernels->attention_merge(&running_m, &running_l, y, m[h], l[h],
                                               o + (uint64_t)h * s.head_dim, s.head_dim);
            }
            walk->kernels->scale(y, y, 1 / running_l, s.head_dim);
        }
    }
}

uint64_t ps_exec_attention_scratch_bytes(const ps_plan_step *step, const ps_plan_value *q,
                                         const ps_plan_value *kv)
{
    const uint32_t heads = q->is.columns / kv->is.head_dim;
    const uint32_t whole = step->attributes.group;
    const uint32_t group = whole == 0      ? q->is.columns / kv->is.columns
                           : whole < heads ? whole
                                           : heads;
    const uint32_t rows = step->op == PS_OP_ATTENTION ? PS_ATTENTION_ROWS : 1;
    return workbench_bytes(rows * group, kv->is.head_dim);
}
