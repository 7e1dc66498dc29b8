// kernels/avx512/linear_q6_k_avx512.c - Q6_K weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q6_k, PS_DTYPE_Q6_K)
