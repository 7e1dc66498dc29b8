// kernels/avx512/linear_q8_0_avx512.c - Q8_0 weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q8_0, PS_DTYPE_Q8_0)
