// kernels/avx2/attention_avx2.c - attention of some queries over one chunk: attention.inc.
//
// 16 registers: 6 x 2 chains, 2 vectors of K or V and a broadcast. 3 x 4 chains would spill.
#include "kernels/avx2/vec_avx2.h"

#define SCORE_VECS(tile) ((tile) == 1 ? 8 : (tile) == 2 ? 4 : 2)
#define VALUE_VECS(tile) SCORE_VECS(tile)
#include "kernels/attention.inc"
