// kernels/avx512/linear_q4_1_avx512.c - Q4_1 weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q4_1, PS_DTYPE_Q4_1)
