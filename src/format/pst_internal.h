// format/pst_internal.h - the bytes of a compiled file. The host is little endian, as the file is.
#ifndef PS_FORMAT_PST_INTERNAL_H
#define PS_FORMAT_PST_INTERNAL_H

#include "format/pst.h"

#define PS_PST_MAGIC "PRESTPST" // 8 bytes, without NUL
#define PS_PST_PAGE_BYTES ((uint64_t)4096)

#define PS_PST_HEAD "gguf-head"
#define PS_PST_TABLE "weights"
#define PS_PST_DATA "data"
#define PS_PST_EXPERTS "experts"
#define PS_PST_SUMS "expert-sums"
#define PS_PST_PLANS "plans"

typedef struct ps_pst_section {
    char name[16]; // NUL-padded, at least one NUL
    uint64_t offset;
    uint64_t size_bytes;
    uint64_t checksum; // of all of it; 0 for data, whose weights and experts have their own
} ps_pst_section;

typedef struct ps_pst_header {
    char magic[8];
    uint32_t version;
    uint32_t layout; // PS_LAYOUT_VERSION
    uint64_t file_bytes;
    uint64_t gguf_bytes;
    uint64_t fingerprint; // ps_gguf_fingerprint
    uint64_t checksum;    // of this structure, this field being 0
    uint32_t section_count;
    uint32_t reserved; // 0
    ps_pst_section sections[PS_PST_SECTIONS_MAX];
} ps_pst_header;
_Static_assert(sizeof(ps_pst_header) == 56 + PS_PST_SECTIONS_MAX * 40, "the header has no gaps");
_Static_assert(sizeof(ps_pst_header) <= PS_PST_PAGE_BYTES, "the header fits its page");

typedef struct ps_pst_entry {
    char name[64];  // NUL-padded, at least one NUL
    uint32_t dtype; // GGUF's number
    uint32_t outputs, inputs, experts;
    uint32_t is_vector; // 0 or 1
    uint32_t stack;     // 0: none; 1: the first of the section "experts"
    uint64_t offset;    // in the section "data", a multiple of 64; in a stack of the first expert's
    uint64_t size_bytes; // of all experts together
    uint64_t checksum;   // 0 in a stack
} ps_pst_entry;
_Static_assert(sizeof(ps_pst_entry) == 112, "an entry has no gaps");

typedef struct ps_pst_stack_entry {
    uint64_t offset; // in the section "data", a multiple of 4096
    uint64_t stride_bytes, record_bytes;
    uint32_t experts;
    uint32_t reserved; // 0
} ps_pst_stack_entry;
_Static_assert(sizeof(ps_pst_stack_entry) == 32, "an entry has no gaps");

struct ps_pst {
    const char *bytes;
    uint64_t size_bytes;
    bool is_mapped;
    ps_pst_header header;
    const ps_pst_section *data; // in header
    ps_gguf *gguf;
    ps_pst_weight *weights; // [weight_count], sorted by name
    uint32_t weight_count;
    ps_pst_stack *stacks; // [stack_count], in the order of the data
    uint32_t stack_count;
    uint64_t *sums; // of all stacks
};

const ps_pst_section *ps_pst_look_up_section(const ps_pst *file, const char *name); // NULL: none

// PS_INVALID: there is none.
PS_MUST_USE ps_status ps_pst_find_section(const ps_pst *file, const char *name,
                                          const ps_pst_section **out);

// Reads and checks the tables of experts and weights, once header and head have been read.
PS_MUST_USE ps_status ps_pst_read_tables(ps_pst *file);

#endif
