// kernels/avx512/table_avx512.c - the kernels that AVX-512 has.
#include "kernels/tables.h"

void ps_kernels_overlay_avx512(ps_kernels *table)
{
    table->linear_f32 = ps_linear_f32_avx512;
    table->linear_f16 = ps_linear_f16_avx512;
    table->linear_bf16 = ps_linear_bf16_avx512;
}
