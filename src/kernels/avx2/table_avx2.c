// kernels/avx2/table_avx2.c - the kernels that AVX2 has.
#include "kernels/tables.h"

void ps_kernels_overlay_avx2(ps_kernels *table)
{
    table->linear_f32 = ps_linear_f32_avx2;
    table->linear_f16 = ps_linear_f16_avx2;
    table->linear_bf16 = ps_linear_bf16_avx2;
    table->linear_q4_0 = ps_linear_q4_0_avx2;
    table->linear_q4_1 = ps_linear_q4_1_avx2;
    table->linear_q5_0 = ps_linear_q5_0_avx2;
    table->linear_q5_1 = ps_linear_q5_1_avx2;
    table->linear_q8_0 = ps_linear_q8_0_avx2;
    table->linear_q4_k = ps_linear_q4_k_avx2;
    table->linear_q5_k = ps_linear_q5_k_avx2;
    table->linear_q6_k = ps_linear_q6_k_avx2;
    table->quantise_q8 = ps_quantise_q8_avx2;
    table->rms_norm = ps_rms_norm_avx2;
    table->add = ps_add_avx2;
    table->add_scaled = ps_add_scaled_avx2;
    table->scale = ps_scale_avx2;
    table->silu_mul = ps_silu_mul_avx2;
    table->gelu_mul = ps_gelu_mul_avx2;
    table->rope_norm = ps_rope_norm_avx2;
    table->rope_neox = ps_rope_neox_avx2;
    table->kv_store_k_f16 = ps_kv_store_k_f16_avx2;
    table->kv_store_v_f16 = ps_kv_store_v_f16_avx2;
    table->kv_store_k_q8_0 = ps_kv_store_k_q8_0_avx2;
    table->kv_store_v_q8_0 = ps_kv_store_v_q8_0_avx2;
    table->attention_partial = ps_attention_partial_avx2;
    table->attention_merge = ps_attention_merge_avx2;
    table->softmax = ps_softmax_avx2;
    table->softcap = ps_softcap_avx2;
    table->read = ps_read_avx2;
}
