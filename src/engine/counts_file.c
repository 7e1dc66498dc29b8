// engine/counts_file.c - a header, arrays of u64, a checksum.
#include "engine/counts_file.h"

#include "base/hash.h"
#include "base/value.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 1024u
#define EXPERT_BYTES_MAX ((uint64_t)1 << 40)

// ---- reading

static uint64_t values_of(const ps_counts_header *header)
{
    return (uint64_t)header->layers * header->experts * PS_ROUTE_HALVES * PS_ROUTES_PHASES;
}

static uint64_t file_bytes(const ps_counts_header *header)
{
    return sizeof *header + (header->layers + values_of(header) + 1) * sizeof(uint64_t);
}

static bool is_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);
    bool is_printable = length < bytes;
    while (length > 0 && is_printable) {
        const char c = text[--length];
        is_printable = c >= 0x20 && c <= 0x7e;
    }
    return is_printable;
}

static ps_status check_kind(const void *bytes, uint64_t size_bytes)
{
    uint32_t version;
    if (size_bytes < sizeof(ps_counts_header) || memcmp(bytes, PS_COUNTS_MAGIC, 8) != 0) {
        return ps_fail(PS_INVALID, "is no counts file; one of prestage experts record would be "
                                   "right");
    }
    memcpy(&version, (const char *)bytes + offsetof(ps_counts_header, version), sizeof version);
    return version == PS_COUNTS_VERSION
               ? PS_OK
               : ps_fail(PS_UNSUPPORTED, "is a counts file of version %u, this build reads %u",
                         version, PS_COUNTS_VERSION);
}

static ps_status check_header(const ps_counts_header *header, const void *bytes,
                              uint64_t size_bytes)
{
    if (header->layers == 0 || header->layers > LAYERS_MAX || header->experts == 0 ||
        header->experts > PS_EXPERTS_MAX || header->top_k == 0 || header->top_k > header->experts ||
        !is_text(header->model, sizeof header->model) ||
        !is_text(header->quantisation, sizeof header->quantisation)) {
        return ps_fail(PS_INVALID, "its header is damaged");
    }
    if (size_bytes != file_bytes(header)) {
        return ps_fail(PS_INVALID,
                       "has %" PRIu64 " bytes; %" PRIu64 " for %u layers of %u experts would be "
                       "right",
                       size_bytes, file_bytes(header), header->layers, header->experts);
    }
    uint64_t checksum;
    const uint64_t before = size_bytes - sizeof checksum;
    memcpy(&checksum, (const char *)bytes + before, sizeof checksum);
    return checksum == ps_hash(bytes, before, 0)
               ? PS_OK
               : ps_fail(PS_INVALID, "is damaged: its checksum is wrong");
}

// Every token chose top_k different experts in every layer.
static ps_status check_uses(const ps_route_counts *counts, uint32_t half, ps_routes_phase phase)
{
    const uint64_t tokens = counts->tokens[half][phase];
    if (tokens > PS_COUNTS_TOKENS_MAX) {
        return ps_fail(PS_INVALID, "%" PRIu64 " tokens; at most %" PRIu64 " would be right", tokens,
                       PS_COUNTS_TOKENS_MAX);
    }
    for (uint32_t layer = 0; layer < counts->layers; layer++) {
        const uint64_t *uses = ps_route_counts_at(counts, half, phase, layer);
        uint64_t sum = 0;
        bool is_right = true;
        for (uint32_t e = 0; e < counts->experts; e++) {
            is_right = is_right && uses[e] <= tokens;
            sum += uses[e];
        }
        if (!is_right || sum != tokens * counts->top_k) {
            return ps_fail(PS_INVALID,
                           "contradicts itself: layer %u does not have %" PRIu64
                           " tokens of %u experts each",
                           layer, tokens, counts->top_k);
        }
    }
    return PS_OK;
}

static ps_status check_contents(const ps_counts_file *file)
{
    for (uint32_t layer = 0; layer < file->header.layers; layer++) {
        if (file->expert_bytes[layer] > EXPERT_BYTES_MAX) {
            return ps_fail(PS_INVALID, "layer %u has experts of %" PRIu64 " bytes", layer,
                           file->expert_bytes[layer]);
        }
    }
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        PS_TRY(check_uses(&file->counts, half, PS_ROUTES_PROMPT));
        PS_TRY(check_uses(&file->counts, half, PS_ROUTES_DECODE));
    }
    return PS_OK;
}

ps_status ps_counts_file_parse(const void *bytes, uint64_t size_bytes, ps_arena *arena,
                               ps_counts_file *out)
{
    ps_counts_file file;
    PS_TRY(check_kind(bytes, size_bytes));
    memcpy(&file.header, bytes, sizeof file.header);
    PS_TRY(check_header(&file.header, bytes, size_bytes));
    const ps_counts_header *header = &file.header;
    PS_TRY(
        ps_route_counts_init(&file.counts, header->layers, header->experts, header->top_k, arena));
    file.expert_bytes = PS_ARENA_NEW(arena, uint64_t, header->layers);
    if (file.expert_bytes == NULL) {
        return PS_NO_MEMORY;
    }
    const char *at = (const char *)bytes + sizeof *header;
    memcpy(file.expert_bytes, at, header->layers * sizeof(uint64_t));
    memcpy(file.counts.uses, at + header->layers * sizeof(uint64_t),
           values_of(header) * sizeof(uint64_t));
    memcpy(file.counts.tokens, header->tokens, sizeof header->tokens);
    PS_TRY(check_contents(&file));
    *out = file;
    return PS_OK;
}

ps_status ps_counts_file_read(const char *path, ps_arena *arena, ps_counts_file *out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a counts file", &bytes, &size_bytes);
    if (status == PS_OK) {
        status = ps_counts_file_parse(bytes, size_bytes, arena, out);
        ps_file_unmap(bytes, size_bytes);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

ps_status ps_counts_file_check_model(const ps_counts_header *header, const ps_counts_header *model)
{
    if (header->fingerprint != model->fingerprint) {
        return ps_fail(PS_INVALID,
                       "is of another model: '%s', fingerprint %016" PRIx64 "; this one is '%s', "
                       "%016" PRIx64,
                       header->model, header->fingerprint, model->model, model->fingerprint);
    }
    return header->layers == model->layers && header->experts == model->experts &&
                   header->top_k == model->top_k
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "has %u layers of %u experts, %u a token; the model %u of %u, %u a token",
                         header->layers, header->experts, header->top_k, model->layers,
                         model->experts, model->top_k);
}

// ---- writing

static ps_status print(const ps_counts_file *file, ps_buffer *out)
{
    ps_counts_header header = file->header;
    memcpy(header.magic, PS_COUNTS_MAGIC, sizeof header.magic);
    header.version = PS_COUNTS_VERSION;
    memcpy(header.tokens, file->counts.tokens, sizeof header.tokens);
    PS_TRY(ps_buffer_append(out, (const char *)&header, sizeof header));
    PS_TRY(ps_buffer_append(out, (const char *)file->expert_bytes,
                            header.layers * sizeof *file->expert_bytes));
    PS_TRY(ps_buffer_append(out, (const char *)file->counts.uses,
                            values_of(&header) * sizeof *file->counts.uses));
    const uint64_t checksum = ps_hash(out->data, out->length, 0);
    return ps_buffer_append(out, (const char *)&checksum, sizeof checksum);
}

ps_status ps_counts_file_write(const char *path, const ps_counts_file *file, bool replace)
{
    ps_buffer bytes = {0};
    ps_status status = print(file, &bytes);
    if (status == PS_OK) {
        status = ps_new_file_write_all(path, bytes.data, bytes.length, replace);
    }
    ps_buffer_deinit(&bytes);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}
