// kernels/ref/attention_ref.c - attention of some queries over one chunk. Contract: kernels.h.
#include "kernels/exp.h"
#include "kernels/ref/lanes_ref.h"
#include "kernels/tables.h"

#include <math.h>

#define BLOCK PS_KV_BLOCK_TOKENS

static float half_at(const void *halves, size_t index)
{
    return ps_f16_to_f32(ps_load_u16((const char *)halves + index * sizeof(uint16_t)));
}

static float key(const ps_attention_partial *args, uint32_t t, uint32_t d)
{
    const char *keys = args->blocks[t / BLOCK];
    if (args->k_dtype == PS_DTYPE_F16) {
        return half_at(keys, (size_t)d * BLOCK + t % BLOCK);
    }
    const char *group = keys + d / PS_BLOCK_COLUMNS * PS_KV_K_GROUP_BYTES;
    const int8_t *q = (const int8_t *)group + BLOCK * sizeof(uint16_t);
    return (float)q[d % PS_BLOCK_COLUMNS * BLOCK + t % BLOCK] * half_at(group, t % BLOCK);
}

static float value(const ps_attention_partial *args, uint32_t t, uint32_t d)
{
    const char *values = (const char *)args->blocks[t / BLOCK] +
                         ps_kv_part_bytes(args->k_dtype, args->head_dim);
    const size_t row = t % BLOCK;
    if (args->v_dtype == PS_DTYPE_F16) {
        return half_at(values, row * args->head_dim + d);
    }
    const size_t groups = args->head_dim / PS_BLOCK_COLUMNS;
    const int8_t *q = (const int8_t *)values + BLOCK * groups * sizeof(uint16_t);
    return (float)q[row * args->head_dim + d] *
           half_at(values, row * groups + d / PS_BLOCK_COLUMNS);
}

static float score(const ps_attention_partial *args, const float *q, uint32_t t)
{
    float s = 0.0f;
    for (uint32_t d = 0; d < args->head_dim; d++) {
        s = fmaf(q[d], key(args, t, d), s);
    }
    s *= args->scale;
    return args->softcap > 0.0f ? args->softcap * ps_tanh(s / args->softcap) : s;
}

static void add_value(const ps_attention_partial *args, float *o, float p, uint32_t t)
{
    for (uint32_t d = 0; d < args->head_dim; d++) {
        o[d] = fmaf(p, value(args, t, d), o[d]);
    }
}

void ps_attention_partial_ref(const ps_attention_partial *args)
{
    for (uint32_t i = 0; i < args->queries; i++) {
        float *p = args->scratch + (size_t)i * PS_ATTENTION_CHUNK;
        float *o = args->o + (size_t)i * args->head_dim;
        float max = -__builtin_inff();
        for (uint32_t t = args->begin[i]; t < args->end[i]; t++) {
            p[t] = score(args, args->q[i], t);
            max = p[t] > max ? p[t] : max;
        }
        max += 0.0f; // -0 becomes 0, so that the order of comparisons cannot be seen
        float lanes[PS_SUM_LANES] = {0};
        memset(o, 0, args->head_dim * sizeof *o);
        for (uint32_t t = args->begin[i]; t < args->end[i]; t++) {
            const float weight = ps_exp(p[t] - max);
            lanes[t % PS_SUM_LANES] += weight;
            add_value(args, o, weight, t);
        }
        args->m[i] = max;
        args->l[i] = ps_fold_lanes_ref(lanes);
    }
}

void ps_attention_merge_ref(float *running_m, float *running_l, float *running_o, float m, float l,
                            const float *o, uint32_t head_dim)
{
    const float none = -__builtin_inff();
    const float n = m > *running_m ? m : *running_m;
    const float a = *running_m == none ? 0.0f : ps_exp(*running_m - n);
    const float b = m == none ? 0.0f : ps_exp(m - n);
    *running_l = fmaf(*running_l, a, l * b);
    for (uint32_t d = 0; d < head_dim; d++) {
        running_o[d] = fmaf(running_o[d], a, o[d] * b);
    }
    *running_m = n;
}
