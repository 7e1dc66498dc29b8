// kernels/avx2/elementwise_avx2.c - operators without sums: kernels/elementwise.inc.
#include "kernels/avx2/vec_avx2.h"

#include "kernels/elementwise.inc"
