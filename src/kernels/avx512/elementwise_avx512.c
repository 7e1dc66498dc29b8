// kernels/avx512/elementwise_avx512.c - operators without sums: kernels/elementwise.inc.
#include "kernels/avx512/vec_avx512.h"

#include "kernels/elementwise.inc"
