// format/gguf_types.c - the types that GGUF gives to values and to tensors.
#include "format/gguf_internal.h"

static const ps_gguf_type_info TYPES[PS_GGUF_TYPE_COUNT] = {
    [PS_GGUF_U8] = {"u8", 1},       [PS_GGUF_I8] = {"i8", 1},     [PS_GGUF_U16] = {"u16", 2},
    [PS_GGUF_I16] = {"i16", 2},     [PS_GGUF_U32] = {"u32", 4},   [PS_GGUF_I32] = {"i32", 4},
    [PS_GGUF_F32] = {"f32", 4},     [PS_GGUF_BOOL] = {"bool", 1}, [PS_GGUF_STRING] = {"string", 0},
    [PS_GGUF_ARRAY] = {"array", 0}, [PS_GGUF_U64] = {"u64", 8},   [PS_GGUF_I64] = {"i64", 8},
    [PS_GGUF_F64] = {"f64", 8},
};

// Columns and bytes of one block, as ggml defines them. 0 bytes: removed, and no file may use it.
static const ps_gguf_format FORMATS[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},      [4] = {"Q4_2", 0, 0},        [5] = {"Q4_3", 0, 0},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},
    [9] = {"Q8_1", 32, 36},      [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},
    [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},   [14] = {"Q6_K", 256, 210},
    [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},
    [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136},
    [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},        [26] = {"I32", 1, 4},
    [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [31] = {"Q4_0_4_4", 0, 0},   [32] = {"Q4_0_4_8", 0, 0},
    [33] = {"Q4_0_8_8", 0, 0},   [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},
    [36] = {"IQ4_NL_4_4", 0, 0}, [37] = {"IQ4_NL_4_8", 0, 0}, [38] = {"IQ4_NL_8_8", 0, 0},
    [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},    [41] = {"Q1_0", 128, 18},
    [42] = {"Q2_0", 64, 18},
};

const ps_gguf_type_info *ps_gguf_type_get(ps_gguf_type type)
{
    ps_assert((unsigned)type < PS_GGUF_TYPE_COUNT);
    return &TYPES[type];
}

ps_gguf_format ps_gguf_format_get(uint32_t id)
{
    if (id >= sizeof FORMATS / sizeof FORMATS[0]) {
        return (ps_gguf_format){0};
    }
    return FORMATS[id];
}
