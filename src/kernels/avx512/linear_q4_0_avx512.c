// kernels/avx512/linear_q4_0_avx512.c - Q4_0 weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q4_0, PS_DTYPE_Q4_0)
