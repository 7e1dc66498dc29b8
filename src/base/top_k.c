// base/top_k.c - a heap of the best, with the worst of them on top.
#include "base/top_k.h"

#include <stdbool.h>

static bool before(const ps_candidate *a, const ps_candidate *b)
{
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

// Moves the worst of heap[0..count) from the root to where it belongs: a heap with the worst
// candidate on top.
static void sift_down(ps_candidate *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t worst = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (before(&heap[worst], &heap[child])) {
                worst = child;
            }
        }
        if (worst == at) {
            return;
        }
        const ps_candidate swap = heap[at];
        heap[at] = heap[worst];
        heap[worst] = swap;
        at = worst;
    }
}

static void make_heap(ps_candidate *list, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift_down(list, count, i);
    }
}

void ps_top_k(const float *logits, uint32_t count, uint32_t kept, ps_candidate *out)
{
    for (uint32_t i = 0; i < kept; i++) {
        out[i] = (ps_candidate){.logit = logits[i], .id = (int32_t)i};
    }
    make_heap(out, kept);
    for (uint32_t i = kept; i < count; i++) {
        if (logits[i] > out[0].logit) { // an equal one has a higher id and is worse
            out[0] = (ps_candidate){.logit = logits[i], .id = (int32_t)i};
            sift_down(out, kept, 0);
        }
    }
}

// qsort would allocate.
void ps_candidates_sort(ps_candidate *list, uint32_t count)
{
    make_heap(list, count);
    for (uint32_t left = count; left > 1; left--) {
        const ps_candidate worst = list[0];
        list[0] = list[left - 1];
        list[left - 1] = worst;
        sift_down(list, left - 1, 0);
    }
}
