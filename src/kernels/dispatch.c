// kernels/dispatch.c - fills the table: ref first, then what the CPU has, oldest to newest.
#include "kernels/kernels.h"

#include "kernels/tables.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

// clang's __builtin_cpu_supports does not know this one; that the system keeps the registers is
// asked with avx2.
static bool cpu_has_f16c(void)
{
    unsigned a;
    unsigned b;
    unsigned c = 0;
    unsigned d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c() &&
           __builtin_cpu_supports("bmi2");
}

static bool cpu_has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

const char *ps_cpu_features(void)
{
    static char text[96];
    const struct {
        const char *name;
        bool present;
    } features[] = {
        {"avx2", __builtin_cpu_supports("avx2")},
        {"fma", __builtin_cpu_supports("fma")},
        {"f16c", cpu_has_f16c()},
        {"bmi2", __builtin_cpu_supports("bmi2")},
        {"avx512f", __builtin_cpu_supports("avx512f")},
        {"avx512bw", __builtin_cpu_supports("avx512bw")},
        {"avx512vl", __builtin_cpu_supports("avx512vl")},
        {"avx512dq", __builtin_cpu_supports("avx512dq")},
        {"avx512vnni", __builtin_cpu_supports("avx512vnni")},
    };
    char *end = text;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (features[i].present) {
            end = stpcpy(stpcpy(end, end == text ? "" : " "), features[i].name);
        }
    }
    return text;
}

static const struct {
    const char *isa;
    bool (*present)(void);
    void (*overlay)(ps_kernels *table);
} LEVELS[] = {
    {"ref", NULL, ps_kernels_overlay_ref},
    {"avx2", cpu_has_avx2, ps_kernels_overlay_avx2},
    {"avx512", cpu_has_avx512, ps_kernels_overlay_avx512},
};
#define LEVEL_COUNT (sizeof LEVELS / sizeof LEVELS[0])

ps_status ps_kernels_for(const char *isa, ps_kernels *out)
{
    ps_kernels table = {.linear_hints = {PS_PREFETCH_NONE, PS_PREFETCH_FAR}};
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        if (LEVELS[i].present != NULL && !LEVELS[i].present()) {
            if (isa != NULL && strcmp(isa, "ref") != 0) {
                return ps_fail(PS_UNSUPPORTED, "PS_ISA=%s: this CPU lacks %s", isa, LEVELS[i].isa);
            }
            break;
        }
        LEVELS[i].overlay(&table);
        table.isa = LEVELS[i].isa;
        if (isa != NULL && strcmp(isa, LEVELS[i].isa) == 0) {
            *out = table;
            return PS_OK;
        }
    }
    if (isa != NULL) {
        return ps_fail(PS_INVALID, "PS_ISA=%s: must be ref, avx2 or avx512", isa);
    }
    *out = table;
    return PS_OK;
}

ps_status ps_kernels_select(ps_kernels *out)
{
    return ps_kernels_for(getenv("PS_ISA"), out);
}

ps_linear_fn *ps_kernels_linear(const ps_kernels *kernels, ps_dtype dtype)
{
    switch (dtype) {
    case PS_DTYPE_F32:
        return kernels->linear_f32;
    case PS_DTYPE_F16:
        return kernels->linear_f16;
    case PS_DTYPE_BF16:
        return kernels->linear_bf16;
    case PS_DTYPE_Q4_0:
        return kernels->linear_q4_0;
    case PS_DTYPE_Q4_1:
        return kernels->linear_q4_1;
    case PS_DTYPE_Q5_0:
        return kernels->linear_q5_0;
    case PS_DTYPE_Q5_1:
        return kernels->linear_q5_1;
    case PS_DTYPE_Q8_0:
        return kernels->linear_q8_0;
    case PS_DTYPE_Q4_K:
        return kernels->linear_q4_k;
    case PS_DTYPE_Q5_K:
        return kernels->linear_q5_k;
    case PS_DTYPE_Q6_K:
        return kernels->linear_q6_k;
    default:
        ps_assert(!"a linear has a weight dtype");
        return NULL;
    }
}

ps_kv_store_fn *ps_kernels_kv_store_k(const ps_kernels *kernels, ps_dtype dtype)
{
    ps_assert(dtype == PS_DTYPE_F16 || dtype == PS_DTYPE_Q8_0);
    return dtype == PS_DTYPE_F16 ? kernels->kv_store_k_f16 : kernels->kv_store_k_q8_0;
}

ps_kv_store_fn *ps_kernels_kv_store_v(const ps_kernels *kernels, ps_dtype dtype)
{
    ps_assert(dtype == PS_DTYPE_F16 || dtype == PS_DTYPE_Q8_0);
    return dtype == PS_DTYPE_F16 ? kernels->kv_store_v_f16 : kernels->kv_store_v_q8_0;
}
