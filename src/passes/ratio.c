// passes/ratio.c - what users of weight_prefetch_config ask for, where vector operators hide it.
//
// The window of a linear is what runs between it and the last operator before it that reads a
// weight or a KV cache, or is a collective. Its vector operators leave the memory system room.
#include "passes/prefetch_internal.h"

#include "base/shapes.h"

#include <string.h>

// As vLLM-Ascend caps its MLP prefetches.
#define CAP_BYTES ((uint64_t)18 << 20)

static const struct {
    ps_site site;
    ps_ratio_module module;
} SITES[PS_RATIO_COUNT] = {
    [PS_RATIO_ATTN_QKV] = {PS_SITE_ATTN_QKV, PS_MODULE_ATTN},
    [PS_RATIO_ATTN_O] = {PS_SITE_ATTN_O, PS_MODULE_ATTN},
    [PS_RATIO_MLP_GATE_UP] = {PS_SITE_MLP_GATE_UP, PS_MODULE_MLP},
    [PS_RATIO_MLP_DOWN] = {PS_SITE_MLP_DOWN, PS_MODULE_MLP},
    [PS_RATIO_MOE_GATE_UP] = {PS_SITE_MOE_GATE_UP, PS_MODULE_MOE},
};

ps_site ps_ratio_site_of(ps_ratio_site ratio)
{
    return SITES[ratio].site;
}

typedef struct placing {
    const ps_plan *plan; // with its steps as they were
    const ps_pass_options *options;
    ps_plan_step *steps; // that take their place
    uint32_t step_count;
    uint64_t cap_bytes; // of one linear
} placing;

uint64_t ps_ratio_cap_bytes(const ps_pass_options *options, const char **out_source)
{
    const uint64_t cache = ps_prefetch_cache_bytes(options->machine);
    if (options->ratios.max_bytes > 0) {
        *out_source = "max_prefetch_bytes";
        return options->ratios.max_bytes;
    }
    *out_source = cache < CAP_BYTES ? "15/16 of the L2 of all workers" : "18 MiB, the usual cap";
    return cache < CAP_BYTES ? cache : CAP_BYTES;
}

// Bytes of one operand of a linear that can be prefetched; 0: none.
static uint64_t weight_bytes(const ps_plan *plan, const ps_plan_step *step, uint32_t index)
{
    const ps_value *value = &plan->values[step->inputs[index]].is;
    switch (step->op) {
    case PS_OP_LINEAR:
    case PS_OP_LINEAR_ALL_REDUCE:
    case PS_OP_GATE_UP:
    case PS_OP_EXPERT_GATE_UP:
        return value->kind == PS_VALUE_WEIGHT ? ps_value_weight_bytes(value) : 0;
    default:
        return 0;
    }
}

static uint64_t linear_bytes(const ps_plan *plan, const ps_plan_step *step)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step->input_count; i++) {
        bytes += weight_bytes(plan, step, i);
    }
    return bytes;
}

// Which ratio a step goes by; PS_RATIO_COUNT: none.
static uint32_t ratio_of(const ps_plan *plan, const ps_plan_step *step)
{
    uint32_t i = 0;
    while (i < PS_RATIO_COUNT && SITES[i].site != (ps_site)step->attributes.site) {
        i++;
    }
    return i < PS_RATIO_COUNT && linear_bytes(plan, step) > 0 ? i : PS_RATIO_COUNT;
}

static bool is_vector(const ps_plan_step *step)
{
    return (ps_op_get(step->op)->flags & PS_OP_VECTOR) != 0;
}

// What is asked for of one linear.
typedef struct request {
    ps_reason reason;
    uint64_t bytes, whole_bytes;
    uint32_t tokens_min, tokens_max;
} request;

static request request_of(const placing *p, const ps_plan_step *reader, bool has_window)
{
    const ps_prefetch_ratios *ratios = &p->options->ratios;
    const uint32_t i = ratio_of(p->plan, reader);
    request r = {.whole_bytes = linear_bytes(p->plan, reader)};
    const uint64_t wanted = (uint64_t)(ratios->ratio[i] * (double)r.whole_bytes);
    r.bytes = wanted < p->cap_bytes ? wanted : p->cap_bytes;
    r.tokens_min = ratios->min_tokens[SITES[i].module];
    r.tokens_max = ratios->max_tokens[SITES[i].module];
    const bool is_asked = p->plan->rows_max >= r.tokens_min && r.tokens_max > 0;
    r.reason = ratios->ratio[i] == 0      ? PS_REASON_RATIO_ZERO
               : !is_asked                ? PS_REASON_TOKENS
               : !has_window              ? PS_REASON_NO_WINDOW
               : r.bytes == r.whole_bytes ? PS_REASON_WHOLE
               : r.bytes == p->cap_bytes  ? PS_REASON_PART_CAP
                                          : PS_REASON_PART_RATIO;
    return r;
}

static uint32_t to_u32(uint64_t bytes)
{
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

// The weights of a linear share what is asked for as they share its bytes: workers read parts of
// each. fits: bytes that the window has time for.
static void place_linear(placing *p, const ps_plan_step *reader, bool has_window, uint64_t fits)
{
    const request r = request_of(p, reader, has_window);
    uint64_t before = 0; // whole bytes of the weights before
    for (uint32_t i = 0; i < reader->input_count; i++) {
        const uint64_t whole = weight_bytes(p->plan, reader, i);
        if (whole == 0) {
            continue;
        }
        const double share = (double)r.bytes / (double)r.whole_bytes;
        const uint64_t first = (uint64_t)(share * (double)before);
        before += whole;
        const uint64_t last = before == r.whole_bytes ? r.bytes
                                                      : (uint64_t)(share * (double)before);
        p->steps[p->step_count++] = (ps_plan_step){
            .op = PS_OP_PREFETCH,
            .input_count = 1,
            .inputs = {reader->inputs[i]},
            .output = PS_NO_VALUE,
            .split = PS_SPLIT_UNITS,
            .stream = PS_STREAM_PREFETCH,
            .attributes = {.layer = reader->attributes.layer,
                           .site = reader->attributes.site,
                           .bytes = r.reason == PS_REASON_WHOLE ? 0 : to_u32(last - first),
                           .reason = r.reason,
                           .fits = to_u32(fits),
                           .tokens_min = r.tokens_min,
                           .tokens_max = r.tokens_max == UINT32_MAX ? 0 : r.tokens_max,
                           .window = PS_WINDOW_VECTOR}};
    }
}

// Where the prefetches of the linear at `reader` start: before which step. after: the step behind
// the last one that needs the memory system. PS_NO_VALUE: there is no window.
static uint32_t window_of(const placing *p, uint32_t after, uint32_t reader)
{
    const ps_machine *machine = p->options->machine;
    if (machine->has_prefetch_stream) {
        return after < reader ? after : PS_NO_VALUE;
    }
    for (uint32_t i = reader + 1; i-- > after;) {
        const ps_plan_step *step = &p->plan->steps[i];
        if ((step->barrier && machine->threads > 1) || step->join > 0) {
            return i;
        }
    }
    return PS_NO_VALUE;
}

// reader_of [steps]: the linear whose prefetches stand before a step.
static void find_windows(const placing *p, uint32_t *reader_of, bool *has_window, uint64_t *fits)
{
    const ps_machine *machine = p->options->machine;
    uint32_t after = 0;
    uint64_t vector_ns = 0;
    for (uint32_t i = 0; i < p->plan->step_count; i++) {
        const ps_plan_step *step = &p->plan->steps[i];
        if (ratio_of(p->plan, step) < PS_RATIO_COUNT) {
            const uint32_t window = window_of(p, after, i);
            const uint32_t at = window == PS_NO_VALUE ? i : window;
            reader_of[at] = i;
            has_window[at] = window != PS_NO_VALUE;
            fits[at] = (uint64_t)((double)vector_ns * machine->fill_gbs);
        }
        if (is_vector(step)) {
            const uint64_t barrier_ns = step->barrier ? (uint64_t)machine->barrier_ns : 0;
            vector_ns += step->predicted_ns > barrier_ns ? step->predicted_ns - barrier_ns : 0;
        } else if (step->op != PS_OP_KV_WRITE) {
            after = i + 1;
            vector_ns = 0;
        }
    }
}

ps_status ps_pass_ratio(ps_plan *plan, const ps_pass_options *options, ps_arena *arena)
{
    const char *source;
    if (options->prefetch != PS_PREFETCH_RATIO) {
        return PS_OK;
    }
    const uint32_t count = plan->step_count;
    placing p = {.plan = plan,
                 .options = options,
                 .steps = PS_ARENA_NEW(arena, ps_plan_step, count * (uint64_t)PS_OP_INPUTS_MAX),
                 .cap_bytes = ps_ratio_cap_bytes(options, &source)};
    uint32_t *reader_of = PS_ARENA_NEW(arena, uint32_t, count);
    bool *has_window = PS_ARENA_NEW(arena, bool, count);
    uint64_t *fits = PS_ARENA_NEW(arena, uint64_t, count);
    if (p.steps == NULL || reader_of == NULL || has_window == NULL || fits == NULL) {
        return PS_NO_MEMORY;
    }
    memset(reader_of, 0xff, count * sizeof *reader_of);
    find_windows(&p, reader_of, has_window, fits);
    for (uint32_t i = 0; i < count; i++) {
        if (reader_of[i] != PS_NO_VALUE) {
            place_linear(&p, &plan->steps[reader_of[i]], has_window[i], fits[i]);
        }
        p.steps[p.step_count++] = plan->steps[i];
    }
    plan->steps = p.steps;
    plan->step_count = p.step_count;
    return PS_OK;
}
