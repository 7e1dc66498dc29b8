// engine/prefetch_config.h - --additional-config, as users of vLLM-Ascend write it.
#ifndef PS_ENGINE_PREFETCH_CONFIG_H
#define PS_ENGINE_PREFETCH_CONFIG_H

#include "passes/passes.h"

typedef struct ps_prefetch_config {
    bool is_enabled;
    bool is_idle; // ratios are given, and enabled is not
    ps_prefetch_ratios ratios;
} ps_prefetch_config;

// The defaults of vLLM-Ascend's guide, enabled: attn.qkv, attn.o, mlp.gate_up and mlp.down 1.0,
// moe.gate_up 0.8; any number of tokens.
ps_prefetch_config ps_prefetch_config_default(void);

// Reads a JSON object:
//
//     {"weight_prefetch_config": {
//         "enabled": true,
//         "prefetch_ratio": {"attn": {"qkv": 1.0, "o": 1.0}, "mlp": {"gate_up": 1.0, "down": 1.0},
//                            "moe": {"gate_up": 0.8}},
//         "max_prefetch_bytes": 18874368,
//         "min_tokens": {"moe": 96}, "max_tokens": {"mlp": 499}}}
//
// Every key may be left out, and then has its default; enabled: false. Nothing else is allowed: an
// unknown key, a key twice, a ratio outside [0, 1], a number or a truth value as a string.
//
// PS_INVALID  the message has the path of the key and what would be right
PS_MUST_USE ps_status ps_prefetch_config_read(const char *text, ps_prefetch_config *out);

#endif
