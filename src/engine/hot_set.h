// engine/hot_set.h - the experts that are worth keeping in memory, as a JSON file for all sizes.
//
//     {"prestage_hot_set": 1, "fingerprint": "0123456789abcdef", "model": "...",
//      "quantisation": "Q4_K Q6_K", "layers": 48, "experts": 512, "top_k": 10,
//      "phases": "all", "prompt_tokens": 1200000, "decode_tokens": 190000,
//      "sizes": [{"experts": 2000, "gib": 3.7, "coverage": 0.24, "held_out": 0.22,
//                 "per_layer": [41, ...]}, ...],
//      "ranking": [{"layer": 0, "ids": [17, 3, ...], "counts": [9000, 8000, ...]}, ...],
//      "checksum": "0123456789abcdef"}
//
// A layer's ids stand hottest first, with how often each was chosen; a set of one size is the first
// per_layer[l] ids of each layer l. Over all layers the order is by counts, and of equal ones by
// layer and id, so that every size can be cut from a larger one. Experts that were never chosen are
// in no set: a set may be shorter than its size. It is a start for those who have more room, not a
// limit. gib, coverage and held_out are left out where they are not known; the checksum is the XXH3
// of the keys u32, hottest first, then of their counts u64 with that as a seed.
#ifndef PS_ENGINE_HOT_SET_H
#define PS_ENGINE_HOT_SET_H

#include "base/memory.h"

#define PS_HOT_SET_FORMAT 1u
#define PS_HOT_SET_SIZES_MAX 32u

typedef struct ps_hot_set_size {
    uint32_t experts; // of all layers; the set has as many, or all that were ever chosen
    double gib;       // of them, packed; NaN: not known
    double coverage;  // share of the uses that it was made of; NaN: not known
    double held_out;  // the same of tokens that it was not made of
} ps_hot_set_size;

typedef struct ps_hot_set {
    char fingerprint[17]; // of the model: 16 hexadecimal digits
    char model[64], quantisation[64];
    uint32_t layers, experts, top_k; // of layers that have experts, counted from 0
    char phases[8];                  // that were counted: "all", "prompt", "decode"
    uint64_t prompt_tokens, decode_tokens;
    uint32_t size_count;
    ps_hot_set_size sizes[PS_HOT_SET_SIZES_MAX]; // rising
    uint32_t count;                              // of keys, no more than the largest size
    uint32_t *keys; // [count] layer * experts + expert, hottest first; of equals the lower one
    uint64_t *uses; // [count] of each, > 0
} ps_hot_set;

// Appends the file's text. PS_EXHAUSTED: it would be too long to be read. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_hot_set_print(const ps_hot_set *set, ps_buffer *out);

// Reads and checks all of it; memory comes from the arena. Messages name the path.
//
// PS_NOT_FOUND, PS_IO, PS_NO_MEMORY
// PS_INVALID      no such file, damaged, or it contradicts itself
// PS_UNSUPPORTED  another format
PS_MUST_USE ps_status ps_hot_set_load(const char *path, ps_arena *arena, ps_hot_set *out);

// The same of a text; messages do not name it.
PS_MUST_USE ps_status ps_hot_set_parse(ps_str text, ps_arena *arena, ps_hot_set *out);

// The keys of a hot set for a model of that fingerprint, with `layers` layers that have `experts`
// experts each: those of size `count`, cut from the next larger one where the file does not have
// it, or with 0 of the largest. *out_keys [*out_count], hottest first, is the arena's; there may be
// fewer than `count`, when fewer were ever chosen. *out_size is the size of the file that they are
// cut from. Messages name the path.
//
// PS_INVALID  as ps_hot_set_load; of another model (the message has both fingerprints); no size of
//             the file is as large as `count`
PS_MUST_USE ps_status ps_hot_set_read(const char *path, uint64_t fingerprint, uint32_t layers,
                                      uint32_t experts, uint32_t count, ps_arena *arena,
                                      const uint32_t **out_keys, uint32_t *out_count,
                                      ps_hot_set_size *out_size);

#endif
