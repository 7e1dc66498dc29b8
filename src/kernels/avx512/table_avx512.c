// kernels/avx512/table_avx512.c - the kernels that AVX-512 has.
#include "kernels/tables.h"

void ps_kernels_overlay_avx512(ps_kernels *table)
{
    (void)table;
}
