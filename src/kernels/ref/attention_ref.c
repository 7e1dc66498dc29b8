// kernels/ref/attention_ref.c - attention of some queries over one chunk. Contract: kernels.h.
#include "kernels/exp.h"
#include "kernels/ref/lanes_ref.h"
#include "kernels/tables.h"

#include <math.h>

static const uint16_t *block_of(const ps_attention_partial *args, uint32_t t)
{
    return args->blocks[t / PS_KV_BLOCK_TOKENS];
}

static float score(const ps_attention_partial *args, const float *q, uint32_t t)
{
    const uint16_t *k = block_of(args, t) + t % PS_KV_BLOCK_TOKENS;
    float s = 0.0f;
    for (uint32_t d = 0; d < args->head_dim; d++) {
        s = fmaf(q[d], ps_f16_to_f32(k[(size_t)d * PS_KV_BLOCK_TOKENS]), s);
    }
    s *= args->scale;
    return args->softcap > 0.0f ? args->softcap * ps_tanh(s / args->softcap) : s;
}

static void add_value(const ps_attention_partial *args, float *o, float p, uint32_t t)
{
    const uint16_t *v = block_of(args, t) +
                        (size_t)(PS_KV_BLOCK_TOKENS + t % PS_KV_BLOCK_TOKENS) * args->head_dim;
    for (uint32_t d = 0; d < args->head_dim; d++) {
        o[d] = fmaf(p, ps_f16_to_f32(v[d]), o[d]);
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
