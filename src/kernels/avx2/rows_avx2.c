// kernels/avx2/rows_avx2.c - operators that sum over a row: kernels/rows.inc.
#include "kernels/avx2/vec_avx2.h"

#include "kernels/rows.inc"
