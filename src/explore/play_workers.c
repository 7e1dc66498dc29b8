// explore/play_workers.c - shares, and the slowest of what a worker does.
#include "explore/play_workers.h"

#define CHUNK PS_ATTENTION_CHUNK_POSITIONS

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static const ps_plan_value *value_of(const ps_play_work *w, uint32_t id)
{
    return &w->plan->values[id];
}

static uint32_t kv_heads(const ps_value *kv)
{
    return kv->columns / kv->head_dim;
}

// ---- shares

// Of `count` items as large as each other.
static double largest_part(uint64_t count, uint32_t workers)
{
    return count == 0 ? 1 : (double)ps_divide_up(count, workers) / (double)count;
}

static double largest_columns(const ps_plan_value *value, uint32_t workers)
{
    uint32_t most = 0;
    for (uint32_t w = 0; w < workers && value->part_unit > 0; w++) {
        uint32_t begin, end;
        ps_plan_columns_of(value, w, workers, &begin, &end);
        most = end - begin > most ? end - begin : most;
    }
    return most == 0 ? 1 : (double)most / value->is.columns;
}

// Positions that rows of decoding see, [first, last), and their units (row, chunk, head).
typedef struct seen {
    uint64_t first, last, heads;
} seen;

static uint64_t units_of_row(const seen *s)
{
    return ((s->last - 1) / CHUNK - s->first / CHUNK + 1) * s->heads;
}

// Positions in all units before one.
static double positions_before(const seen *s, uint64_t unit)
{
    const uint64_t row = unit / units_of_row(s);
    const uint64_t chunk = s->first / CHUNK + unit % units_of_row(s) / s->heads;
    const uint64_t head = unit % s->heads;
    const uint64_t begin = chunk * CHUNK > s->first ? chunk * CHUNK : s->first;
    const uint64_t end = (chunk + 1) * CHUNK < s->last ? (chunk + 1) * CHUNK : s->last;
    return (double)(row * s->heads * (s->last - s->first) + s->heads * (begin - s->first) +
                    head * (end - begin));
}

static seen seen_of(const ps_play_work *w, const ps_value *kv)
{
    const uint32_t window = w->plan->kv_windows[kv->kv_group];
    const uint64_t last = w->options->position + 1ULL;
    return (seen){.first = window == 0 || last <= window ? 0 : last - window,
                  .last = last,
                  .heads = kv_heads(kv)};
}

static double largest_units(const ps_play_work *w, const ps_plan_step *step, uint32_t workers)
{
    const seen s = seen_of(w, &value_of(w, step->inputs[1])->is);
    const uint64_t units = w->options->rows * units_of_row(&s);
    double most = 0;
    for (uint32_t i = 0; i < workers; i++) {
        uint64_t begin, end;
        ps_plan_share(units, i, workers, &begin, &end);
        most = larger(most, positions_before(&s, end) - positions_before(&s, begin));
    }
    return most / positions_before(&s, units);
}

double ps_play_busiest(const ps_play_work *w, const ps_plan_step *step)
{
    const uint32_t workers = w->machine->threads;
    const ps_plan_value *output = step->output == PS_NO_VALUE ? NULL : value_of(w, step->output);
    switch (step->split) {
    case PS_SPLIT_ROWS:
        return largest_part(output == NULL ? w->options->rows : ps_play_rows(w, output), workers);
    case PS_SPLIT_COLUMNS:
        return largest_columns(output == NULL ? value_of(w, step->inputs[0]) : output, workers);
    case PS_SPLIT_UNITS:
        return step->op == PS_OP_ATTENTION_PARTIAL ? largest_units(w, step, workers)
               : step->op == PS_OP_ATTENTION
                   ? largest_part((uint64_t)w->options->rows *
                                      kv_heads(&value_of(w, step->inputs[1])->is),
                                  workers)
                   : 1.0 / workers;
    default:
        return 1;
    }
}

// ---- times

// Reads that take all workers so long together. Who is left alone reads as fast as one can.
static double cold_reads_ns(const ps_play_work *w, double cold_ns, double lag)
{
    const double even_gbs = w->machine->read_gbs / w->machine->threads;
    const double alone_gbs = larger(w->machine->workers.read_gbs, even_gbs);
    return larger(cold_ns, cold_ns * lag * even_gbs / alone_gbs);
}

// Bytes of rows that a vector operator reads and writes. Of partial results, those that there are.
static double row_bytes(const ps_play_work *w, const ps_plan_step *step, uint32_t id)
{
    const ps_plan_value *value = value_of(w, id);
    const double rows = (double)ps_play_rows(w, value);
    if (step->op == PS_OP_ATTENTION_MERGE && id == step->inputs[0]) {
        const ps_value *kv = &value_of(w, step->inputs[1])->is;
        const seen s = seen_of(w, kv);
        const double chunks = (double)(units_of_row(&s) / s.heads);
        const double heads = value_of(w, step->output)->is.columns / (double)kv->head_dim;
        // Each is merged into a running result, which is read and written.
        return rows * chunks * heads * (3.0 * kv->head_dim + 2) * sizeof(float);
    }
    switch (value->is.kind) {
    case PS_VALUE_ACTIVATION:
        return rows * (double)ps_plan_row_bytes(&value->is);
    case PS_VALUE_WEIGHT: // a vector, for each row
        return value->is.rows == 1 ? w->options->rows * value->is.columns * (double)sizeof(float)
                                   : 0;
    default:
        return 0;
    }
}

static double vector_bytes(const ps_play_work *w, const ps_plan_step *step)
{
    const ps_op_info *is = ps_op_get(step->op);
    const bool activates = step->op == PS_OP_GATE_UP || step->op == PS_OP_EXPERT_GATE_UP;
    double bytes = step->output == PS_NO_VALUE ? 0 : row_bytes(w, step, step->output);
    if (activates) { // gate, up and their product, in f32
        const ps_plan_value *output = value_of(w, step->output);
        return bytes + (double)ps_play_rows(w, output) * output->is.columns * 3 * sizeof(float);
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        bytes += row_bytes(w, step, step->inputs[i]);
    }
    return (is->flags & PS_OP_VECTOR) == 0 ? 0 : bytes;
}

// Columns of K that a token is written to stand apart: each is a line, read from memory first and
// written back.
static double written_ns(const ps_play_work *w, const ps_plan_step *step)
{
    if (step->op != PS_OP_KV_WRITE) {
        return 0;
    }
    const ps_value *kv = &value_of(w, step->inputs[2])->is;
    const double bytes = (double)ps_kv_part_bytes(kv->dtype, kv->head_dim) * kv_heads(kv);
    return 2 * w->options->rows * bytes / w->machine->workers.kv_gbs;
}

// Of a vector operator, or the activation of a gate_up.
static double vector_ns(const ps_play_work *w, const ps_plan_step *step, double lag)
{
    return vector_bytes(w, step) * lag / w->machine->workers.vector_gbs;
}

// Without rates of workers, as the scheduler predicts it for the largest step.
static double small_ns(const ps_play_work *w, const ps_plan_step *step)
{
    if (w->machine->workers.vector_gbs > 0) {
        const double lag = ps_play_busiest(w, step) * w->machine->threads;
        return vector_ns(w, step, lag) + cold_reads_ns(w, written_ns(w, step), lag);
    }
    const bool has_barrier = step->barrier && w->machine->threads > 1;
    const double barrier = has_barrier ? w->machine->barrier_ns : 0;
    const double ns = larger((double)step->predicted_ns - barrier, 0);
    return step->stream == PS_STREAM_COMPUTE ? ns * w->options->rows / w->plan->rows_max : 0;
}

ps_play_times ps_play_share(const ps_play_work *w, const ps_plan_step *step, double cold_ns,
                            double warm_ns, double compute_ns)
{
    ps_play_times t = {.memory_ns = cold_ns, .cache_ns = warm_ns, .compute_ns = compute_ns};
    if (cold_ns + warm_ns + compute_ns <= 0) {
        t.cache_ns = small_ns(w, step);
    } else if (w->machine->workers.vector_gbs > 0) {
        const double lag = ps_play_busiest(w, step) * w->machine->threads;
        t.memory_ns = cold_reads_ns(w, cold_ns, lag);
        t.cache_ns = warm_ns * lag;
        t.compute_ns = compute_ns * lag + vector_ns(w, step, lag);
        // Rates of attention are of kernels that wait for memory while they compute.
        t.seen_ns = ps_op_attends(step->op) ? 0
                                            : (1 - w->machine->workers.overlap) *
                                                  smaller(t.memory_ns + t.cache_ns, t.compute_ns);
    }
    t.ns = larger(t.memory_ns + t.cache_ns, t.compute_ns) + t.seen_ns;
    return t;
}
