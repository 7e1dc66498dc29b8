// kernels/avx512/table_avx512.c - the kernels that AVX-512 has.
#include "kernels/tables.h"

void ps_kernels_overlay_avx512(ps_kernels *table)
{
    table->linear_q4_0 = ps_linear_q4_0_avx512;
    table->linear_q4_1 = ps_linear_q4_1_avx512;
    table->linear_q5_0 = ps_linear_q5_0_avx512;
    table->linear_q5_1 = ps_linear_q5_1_avx512;
    table->linear_q8_0 = ps_linear_q8_0_avx512;
    table->linear_q4_k = ps_linear_q4_k_avx512;
    table->linear_q5_k = ps_linear_q5_k_avx512;
    table->linear_q6_k = ps_linear_q6_k_avx512;
    table->linear_f32 = ps_linear_f32_avx512;
    table->linear_f16 = ps_linear_f16_avx512;
    table->linear_bf16 = ps_linear_bf16_avx512;
    table->rms_norm = ps_rms_norm_avx512;
    table->add = ps_add_avx512;
    table->scale = ps_scale_avx512;
    table->silu_mul = ps_silu_mul_avx512;
    table->gelu_mul = ps_gelu_mul_avx512;
    table->attention_partial = ps_attention_partial_avx512;
    table->attention_merge = ps_attention_merge_avx512;
    table->softmax = ps_softmax_avx512;
    table->softcap = ps_softcap_avx512;
    table->read = ps_read_avx512;
}
