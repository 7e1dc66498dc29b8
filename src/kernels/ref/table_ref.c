// kernels/ref/table_ref.c - the kernels in plain C: all of them.
#include "kernels/tables.h"

void ps_kernels_overlay_ref(ps_kernels *table)
{
    table->linear_f32 = ps_linear_f32_ref;
    table->linear_f16 = ps_linear_f16_ref;
    table->linear_bf16 = ps_linear_bf16_ref;
    table->linear_q4_0 = ps_linear_q4_0_ref;
    table->linear_q4_1 = ps_linear_q4_1_ref;
    table->linear_q5_0 = ps_linear_q5_0_ref;
    table->linear_q5_1 = ps_linear_q5_1_ref;
    table->linear_q8_0 = ps_linear_q8_0_ref;
    table->linear_q4_k = ps_linear_q4_k_ref;
    table->linear_q5_k = ps_linear_q5_k_ref;
    table->linear_q6_k = ps_linear_q6_k_ref;
    table->quantise_q8 = ps_quantise_q8_ref;
    table->rms_norm = ps_rms_norm_ref;
    table->add = ps_add_ref;
    table->add_scaled = ps_add_scaled_ref;
    table->scale = ps_scale_ref;
    table->silu_mul = ps_silu_mul_ref;
    table->gelu_mul = ps_gelu_mul_ref;
    table->rope_norm = ps_rope_norm_ref;
    table->rope_neox = ps_rope_neox_ref;
    table->kv_store_k_f16 = ps_kv_store_k_f16_ref;
    table->kv_store_v_f16 = ps_kv_store_v_f16_ref;
    table->kv_store_k_q8_0 = ps_kv_store_k_q8_0_ref;
    table->kv_store_v_q8_0 = ps_kv_store_v_q8_0_ref;
    table->attention_partial = ps_attention_partial_ref;
    table->attention_merge = ps_attention_merge_ref;
    table->softmax = ps_softmax_ref;
    table->softcap = ps_softcap_ref;
    table->read = ps_read_ref;
}
