// kernels/avx2/attention_avx2.c - attention of some queries over one chunk: attention.inc.
//
// 16 registers: 6 x 2 chains, 2 vectors of K or V and a broadcast.
#include "kernels/avx2/vec_avx2.h"

#define SCORE_VECS(tile) ((tile) == 1 ? 8 : (tile) <= 3 ? 4 : 2)
#define VALUE_VECS(tile) SCORE_VECS(tile)
#include "kernels/attention.inc"
