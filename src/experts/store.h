// experts/store.h - experts of a model in a bounded part of memory; the others are read when they
// are wanted.
//
// Knows bytes and places, not what they mean: a file holds an expert as one piece that can be used
// as it is (compiled files), or as up to three pieces that have to be packed first (GGUF), which
// the caller does in place. One thread at a time calls; reads run beside it.
#ifndef PS_EXPERTS_STORE_H
#define PS_EXPERTS_STORE_H

#include "experts/policy.h"
#include "experts/tier.h"

#define PS_EXPERT_PARTS_MAX 3u // gate, up, down

// One matrix of every expert of a layer, in a file of the tier.
typedef struct ps_expert_part {
    uint32_t file;
    uint64_t offset_bytes; // of expert 0,
    uint64_t stride_bytes; //   from one expert to the next
    uint64_t size_bytes;   // in the file
    uint64_t packed_bytes; // in memory
} ps_expert_part;

typedef struct ps_expert_layer {
    uint32_t experts;
    uint32_t part_count; // 1: gate, up and down together, as they are used, on pages of their own
    ps_expert_part parts[PS_EXPERT_PARTS_MAX];
    const char *names[PS_EXPERT_PARTS_MAX]; // for messages
    const uint64_t *checksums; // [experts] XXH3 of one part's pieces, borrowed; NULL: not known
} ps_expert_layer;

typedef struct ps_expert_store ps_expert_store;

typedef struct ps_expert_store_options {
    ps_tier *tier;                 // not open; taken, whatever comes of it
    const ps_expert_layer *layers; // copied; their order is that of a step
    uint32_t layer_count;
    uint32_t top_k;
    uint64_t budget_bytes; // of slots; at most all experts are kept
    ps_expert_policy_kind policy;
    const uint32_t *hot; // keys (layer * experts + expert), hottest first; borrowed until created
    uint32_t hot_count;
    bool hot_cut; // those that there is no room for are left out; otherwise they are refused
} ps_expert_store_options;

// Bytes below which no budget works: for each size of expert twice top_k of them, so that some are
// read while others are computed; and for a hot set (as below; 0: none) what it takes beside them.
uint64_t ps_expert_store_least(const ps_expert_layer *layers, uint32_t layer_count, uint32_t top_k,
                               const uint32_t *hot, uint32_t hot_count);

// PS_INVALID    the budget is below the floor, or has no room for the hot set
// PS_NO_MEMORY, and what the tier's open gives
PS_MUST_USE ps_status ps_expert_store_create(const ps_expert_store_options *options,
                                             ps_expert_store **out);
void ps_expert_store_destroy(ps_expert_store *store); // NULL is allowed

// Reads what is to be pinned, unless it is there. PS_IO: a read failed.
PS_MUST_USE ps_status ps_expert_store_warm(ps_expert_store *store);

// ---- one layer of a step

typedef struct ps_expert_want {
    uint32_t expert;
    uint32_t rows;        // that want it;
    uint32_t decode_rows; //   of them, not of prompts; 0: it leaves again
} ps_expert_want;

// Starts reading those that are not here. wants [count], distinct; copied.
void ps_expert_store_begin(ps_expert_store *store, uint32_t layer, const ps_expert_want *wants,
                           uint32_t count);

// Says that a later layer of the step will probably want an expert. While its guesses pay, they are
// read behind all that is wanted, and before the layer's call.
void ps_expert_store_expect(ps_expert_store *store, uint32_t layer, uint32_t expert);

// A few of the wanted experts that are here now; those of the wave before may leave from here on.
typedef struct ps_expert_wave {
    const uint32_t *experts; // [count]; until the next call
    const bool *is_raw;      // [count] has to be packed
    uint32_t count;          // 0: all have been given out
} ps_expert_wave;

// Waits for at least one. PS_IO: one could not be read, or is not what its checksum says, which is
// compared when it is first read; the message names it, its file and place.
// The call is over then, as it is after an empty wave.
PS_MUST_USE ps_status ps_expert_store_next(ps_expert_store *store, ps_expert_wave *out);

// Where one matrix of an expert of the wave is packed, or to be packed: 64-byte aligned. From part
// 0 on all of an expert that is one piece.
char *ps_expert_store_data(const ps_expert_store *store, uint32_t layer, uint32_t expert,
                           uint32_t part);
// Where it is as in the file, behind the start of the former and overlapping it: no more bytes
// behind than a page. Packing from front to back is right.
const char *ps_expert_store_raw(const ps_expert_store *store, uint32_t layer, uint32_t expert,
                                uint32_t part);

// The step is over: policies move experts between their sets. decode_ns: what it took, which judges
// whether guesses pay; 0 where it read a prompt.
void ps_expert_store_end_step(ps_expert_store *store, uint64_t decode_ns);

// ---- what became of it

typedef struct ps_expert_store_info {
    uint64_t budget_bytes, slot_bytes; // asked for; taken by slots
    uint64_t slots, experts;           // experts that fit, and all
    uint64_t hot;                      // of the experts wanted, those of the hot set
    uint64_t routed, wanted;           // rows of experts, and experts, of calls
    uint64_t pinned, cached, loading;  // of which so many were there, or under way
    uint64_t read;                     //   and so many had to be read
    uint64_t calls, waves;
    // Of guesses: experts that were expected of layers which then were called, and of those the
    // wanted ones; what such calls wanted; reads for guesses, and those that were wanted.
    uint64_t expected, expected_right, expected_of;
    uint64_t guessed, guessed_right;
    bool is_guessing;
    double guess_saved_ns; // of a step, when that was last tried; 0: not yet
    // Of the tier: its bytes and busy_ns, guesses included.
    uint64_t read_bytes, read_ns;
    const char *tier, *way; // its name and way
} ps_expert_store_info;
void ps_expert_store_get_info(const ps_expert_store *store, ps_expert_store_info *out);

#endif
