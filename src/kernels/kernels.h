// kernels/kernels.h - the arithmetic of prestage: contracts and the dispatch table.
//
// Kernels are pure: no allocation, no state, no threads; workers hand out slices. Every kernel of
// every ISA gives the same bits as ref/ (for finite and non-finite input alike, the payload of a
// NaN apart). That holds because each output element has one order of operations, stated here, with
// explicit fma wherever one is meant and never elsewhere:
//
//   sums      over 64 virtual lanes: element i goes to lane i % 64 (a tail counts as zeros), each
//             lane is one chain in order of i. Lanes are folded as eight chains of eight,
//             c = lane / 8, added left to right
//             (s[l] = ((c0[l] + c1[l]) + c2[l]) + ... + c7[l], l = 0..7), then
//             halves: t[l] = s[l] + s[l+4], u[l] = t[l] + t[l+2], u[0] + u[1].
//   exp       ps_exp in kernels/exp.h: one polynomial, the same operations on every ISA.
//   max       ignores NaN, which then shows in what follows; -infinity when there is nothing else.
//   division, sqrt, conversions: IEEE, round to nearest even.
//
// Pointers of rows are 4-byte aligned at least; weights and q8 rows 16 bytes, unless a contract
// says more.
#ifndef PS_KERNELS_H
#define PS_KERNELS_H

#include "base/layout.h"

// Where a stream of weights is fetched ahead of its use: nowhere, a few KiB ahead into L1, or a few
// more into L2. Never changes a result.
typedef enum ps_prefetch {
    PS_PREFETCH_NONE,
    PS_PREFETCH_NEAR,
    PS_PREFETCH_FAR,
} ps_prefetch;

// Which of them suits a machine differs, and with how much a kernel computes between two loads:
// `light` is for few tokens, `heavy` for more.
typedef struct ps_linear_hints {
    ps_prefetch light;
    ps_prefetch heavy;
} ps_linear_hints;

// y[t][o] = sum over inputs of W[o][i] x[t][i], for the 16 * group_count outputs of packed groups
// that lie one after the other at `w` (base/layout.h).
typedef struct ps_linear {
    float *const *y; // [tokens] f32 rows; 16 * group_count values are written to each
    const void *w;
    size_t group_count;
    uint32_t inputs;      // a multiple of the dtype's block columns
    uint32_t tokens;      // >= 1
    const void *const *x; // F32, F16, BF16: [tokens] f32 rows. Quantised: activation tiles, all of
                          // PS_TILE_TOKENS tokens but the last (kernels/q8_tile.h)
    ps_linear_hints hints;
} ps_linear;

// Order, one chain of fma for each (t, o) from +0, by block b of 32 columns, with da = d[b],
// ds = ds[b] of the q8 row, and i = the exact integer dot product of the block:
//   Q8_0, Q4_0, Q5_0   acc = fma((float)i, d * da, acc), i over (q - 0 | 8 | 16) * a
//   Q4_1, Q5_1         acc = fma((float)i, d * da, acc); acc = fma(m, ds, acc), i over q * a
//   Q4_K, Q5_K         acc = fma((float)i, (d * scale) * da, acc);
//                      acc = fma(-(dmin * min), ds, acc)
//   Q6_K               i = scale[0] * i0 + scale[1] * i1, i0 and i1 over (q - 32) * a of 16
//                      columns each; acc = fma((float)i, d * da, acc)
//   F32 F16 BF16       acc = fma(w, x, acc), by column
// No kernel reads past the last group but for prefetch hints.
typedef void ps_linear_fn(const ps_linear *args);

// x f32 [n] to a q8 row; n a multiple of 32. Per block, amax = max |x|:
//   any x not finite   d = NaN, q = 0, sums 0, ds = NaN
//   amax < 2^-100      all zero
//   otherwise          d = amax / 127, q = round(x * (127 / amax))
// The maximum is taken over the bits of |x| as integers, so that NaN wins on every ISA.
typedef void ps_quantise_fn(void *q8_row, const float *x, uint32_t n);

// y[i] = (x[i] * scale) * w[i], scale = 1 / sqrt(sum(fma(x, x)) / n + eps). y may be x. w [n]. Any
// n >= 1.
typedef void ps_rms_norm_fn(float *y, const float *x, const float *w, uint32_t n, float eps);

// y[i] = a[i] + b[i]; y may be a or b.
typedef void ps_add_fn(float *y, const float *a, const float *b, uint32_t n);

// y[i] = fma(x[i], factor, y[i]).
typedef void ps_add_scaled_fn(float *y, const float *x, float factor, uint32_t n);

// y[i] = x[i] * factor; y may be x.
typedef void ps_scale_fn(float *y, const float *x, float factor, uint32_t n);

// silu_mul: y = (g / (1 + exp(-g))) * u.
// gelu_mul (tanh form): z = 0.7978845608 * (g * fma(0.044715 * g, g, 1)); y = (g * sigmoid2) * u
// with sigmoid2 = 1 / (1 + exp(-2 z)). y may be gate or up.
typedef void ps_act_mul_fn(float *y, const float *gate, const float *up, uint32_t n);

// Rotates `heads` heads of `head_dim` values that lie one after the other at x, in place; the first
// rotary_dim of each (even, <= head_dim). table: f32 cos[rotary_dim / 2], then sin[rotary_dim / 2].
// Pairs are (2i, 2i+1) for rope_norm, (i, i + rotary_dim/2) for rope_neox:
//   a' = fma(a, cos, -(b * sin)); b' = fma(a, sin, b * cos)
typedef void ps_rope_fn(float *x, const float *table, uint32_t heads, uint32_t head_dim,
                        uint32_t rotary_dim);

// Writes x f32 [head_dim], one token's K or V of one KV head, to slot `slot` (0..31) of the K or V
// part of a KV block (base/layout.h) and touches no other byte.
//   F16   rounded to nearest even, 65,520 and above to infinity. head_dim is a multiple of 8
//   Q8_0  head_dim is a multiple of 32. For each 32 values, amax being the greatest |x| as in
//         ps_quantise_fn: d = f16(amax / 127), or NaN where any x is not finite;
//         q = round(x * (1 / d)), at most 127 and at least -127, to even; 0 where d is 0, infinite
//         (amax from 8,321,040 on) or NaN. So what cannot be held reads back as NaN
typedef void ps_kv_store_fn(void *part, const float *x, uint32_t head_dim, uint32_t slot);

// The positions of one chunk of attention; chunks start at multiples of it.
#define PS_ATTENTION_CHUNK PS_ATTENTION_CHUNK_POSITIONS

// Partial attention of some queries over one chunk of one KV head.
//
// For query i and each position t with begin[i] <= t < end[i] (relative to the chunk's start):
//   s[t] = chain over head_dim from +0 of fma(q[d], K[d][t], s), then s * scale, then,
//          if softcap > 0, softcap * tanh(s / softcap) (ps_tanh in kernels/exp.h). K and V are the
//          f32 values of what is stored: base/layout.h
//   m    = max of s, 0 for -0
//   p[t] = exp(s[t] - m)
//   l    = sum of p over 64 virtual lanes by t (positions outside count 0)
//   o[d] = chain over t in order from +0 of fma(p[t], V[t][d], o)
// begin == end: m = -infinity, l = 0, o = 0. A position outside a query's range never changes its
// result, whatever K and V hold there.
typedef struct ps_attention_partial {
    const float *const *q;     // [queries] rows of head_dim values
    uint32_t queries;          // any number >= 1; tiled inside
    uint32_t head_dim;         // a multiple of 8, of 32 where K or V is Q8_0; <= 512
    ps_dtype k_dtype, v_dtype; // F16 or Q8_0
    const void *const *blocks; // [8] KV blocks (layout.h); may be NULL before the first and behind
                               // the last position that any query sees
    const void *const *next;   // [8] the blocks of the call that follows, likewise, to be fetched
                               // ahead; NULL: not known
    const uint16_t *begin;     // [queries], 0..256
    const uint16_t *end;       // [queries], begin..256
    float scale;
    float softcap;  // 0: none
    float *scratch; // [queries * 256] f32, 64-byte aligned, left undefined
    float *m;       // out [queries]
    float *l;       // out [queries]
    float *o;       // out [queries][head_dim]
} ps_attention_partial;
typedef void ps_attention_partial_fn(const ps_attention_partial *args);

// Merges a later chunk (m, l, o) into a running result (M, L, O), all of one query:
//   n = max(M, m); a = exp(M - n), b = exp(m - n), but 0 where M or m itself is -infinity;
//   L = fma(L, a, l * b); O = fma(O, a, o * b); M = n
// A running result starts as M = -infinity, L = 0, O = 0.
typedef void ps_attention_merge_fn(float *running_m, float *running_l, float *running_o, float m,
                                   float l, const float *o, uint32_t head_dim);

// p = exp(x - max x) / sum, the sum over 64 virtual lanes; p may be x. The division is
// p * (1 / sum).
typedef void ps_softmax_fn(float *p, const float *x, uint32_t n);

// y = cap * tanh(x / cap); y may be x.
typedef void ps_softcap_fn(float *y, const float *x, float cap, uint32_t n);

// Reads `bytes` (a multiple of 512) with the widest plain loads of the ISA and does nothing else:
// what a core can read at best, and what fills a cache.
typedef void ps_read_fn(const void *from, size_t bytes);

typedef struct ps_kernels {
    const char *isa;              // "ref", "avx2", "avx512"
    ps_linear_hints linear_hints; // for callers to pass on; a guess until somebody measures
#define KERNEL(name, type) type *name;
#include "kernels/kernels.def"
#undef KERNEL
} ps_kernels;

// The table for this CPU, or for the ISA that the environment's PS_ISA names (ref, avx2, avx512).
// PS_INVALID: no such ISA; PS_UNSUPPORTED: this CPU lacks it. Thread-safe, no state.
PS_MUST_USE ps_status ps_kernels_select(ps_kernels *out);

// The same for a given ISA; NULL means the best one.
PS_MUST_USE ps_status ps_kernels_for(const char *isa, ps_kernels *out);

// The linear kernel for a weight's dtype.
ps_linear_fn *ps_kernels_linear(const ps_kernels *kernels, ps_dtype dtype);

// The kernels that store K and V in F16 or Q8_0.
ps_kv_store_fn *ps_kernels_kv_store_k(const ps_kernels *kernels, ps_dtype dtype);
ps_kv_store_fn *ps_kernels_kv_store_v(const ps_kernels *kernels, ps_dtype dtype);

// Space-separated CPU features that matter here, "avx2 fma f16c avx512f ... "; static.
const char *ps_cpu_features(void);

#endif
