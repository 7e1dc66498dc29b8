// base/top_k.h - the best of many logits, in the one order that samplers and ranks share: falling,
// equal ones by rising id. Pure, and nothing is allocated. With a NaN among them, which are
// taken is not defined.
#ifndef PS_BASE_TOP_K_H
#define PS_BASE_TOP_K_H

#include <stdint.h>

typedef struct ps_candidate {
    float logit;
    int32_t id;
} ps_candidate;

// The `kept` best of logits [count] into out [kept], in no order; ids are indices. kept <= count.
// O(count log kept), and count where they fall.
void ps_top_k(const float *logits, uint32_t count, uint32_t kept, ps_candidate *out);

// The best first.
void ps_candidates_sort(ps_candidate *list, uint32_t count);

#endif
