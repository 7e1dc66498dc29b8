// kernels/avx512/linear_q5_k_avx512.c - Q5_K weights on the skeleton of linear_avx512.h.
#include "kernels/avx512/linear_avx512.h"

PS_LINEAR_AVX512(q5_k, PS_DTYPE_Q5_K)
