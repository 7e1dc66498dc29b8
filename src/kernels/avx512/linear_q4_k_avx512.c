// kernels/avx512/linear_q4_k_avx512.c - Q4_K weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q4_k, PS_DTYPE_Q4_K)
