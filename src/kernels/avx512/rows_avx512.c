// kernels/avx512/rows_avx512.c - operators that sum over a row: kernels/rows.inc.
#include "kernels/avx512/vec_avx512.h"

#include "kernels/rows.inc"
