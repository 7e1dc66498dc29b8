// kernels/avx2/table_avx2.c - the kernels that AVX2 has.
#include "kernels/tables.h"

void ps_kernels_overlay_avx2(ps_kernels *table)
{
    (void)table;
}
