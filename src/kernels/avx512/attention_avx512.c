// kernels/avx512/attention_avx512.c - attention of some queries over one chunk: attention.inc.
//
// 32 registers: 6 x 4 chains, 4 vectors of K or V and a broadcast.
#include "kernels/avx512/vec_avx512.h"

#define SCORE_VECS(tile) ((tile) <= 2 ? 8 : 4)
#define VALUE_VECS(tile) 4
#include "kernels/attention.inc"
