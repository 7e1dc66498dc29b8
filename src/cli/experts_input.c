// cli/experts_input.c - tells files apart by their first bytes.
#include "cli/experts_input.h"

#include "base/value.h"
#include "cli/options.h"
#include "format/file_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool begins_with(const char *bytes, uint64_t size_bytes, const char *magic)
{
    return size_bytes >= strlen(magic) && memcmp(bytes, magic, strlen(magic)) == 0;
}

ps_status ps_cli_input_kind_of(const char *path, ps_cli_input_kind *out)
{
    const void *mapped = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a counts file, a route log or a hot set", &mapped,
                                   &size_bytes);
    if (status != PS_OK) {
        return ps_file_name_error(path, status);
    }
    const char *bytes = mapped;
    if (begins_with(bytes, size_bytes, PS_COUNTS_MAGIC)) {
        *out = PS_CLI_COUNTS;
    } else if (begins_with(bytes, size_bytes, PS_ROUTES_MAGIC)) {
        *out = PS_CLI_ROUTE_LOG;
    } else if (begins_with(bytes, size_bytes, "{")) {
        *out = PS_CLI_HOT_SET;
    } else {
        status = ps_fail(PS_INVALID, "%s: is no counts file, no route log and no hot set", path);
    }
    ps_file_unmap(mapped, size_bytes);
    return status;
}

static ps_status count_calls(ps_routes_reader *reader, ps_route_counts *counts)
{
    ps_routes_call call;
    bool is_end = false;
    for (;;) {
        PS_TRY(ps_routes_reader_next(reader, &call, &is_end));
        if (is_end) {
            return PS_OK;
        }
        ps_route_counts_add(counts, &call);
    }
}

static ps_status count_log(const char *path, ps_arena *arena, ps_counts_file *out)
{
    ps_routes_reader *reader = NULL;
    PS_TRY(ps_routes_reader_open(path, &reader));
    const ps_routes_shape *shape = ps_routes_reader_shape(reader);
    ps_counts_file file = {.header = {.layers = shape->layers,
                                      .experts = shape->experts,
                                      .top_k = shape->top_k,
                                      .fingerprint = shape->fingerprint}};
    ps_status status = shape->experts <= PS_EXPERTS_MAX
                           ? PS_OK
                           : ps_fail(PS_INVALID, "%s: %u experts; at most %u would be right", path,
                                     shape->experts, PS_EXPERTS_MAX);
    if (status == PS_OK) {
        status = ps_route_counts_init(&file.counts, shape->layers, shape->experts, shape->top_k,
                                      arena);
    }
    if (status == PS_OK) {
        status = count_calls(reader, &file.counts);
    }
    ps_routes_reader_close(reader);
    if (status == PS_OK) {
        *out = file;
    }
    return status;
}

ps_status ps_cli_counts_read(const char *path, ps_arena *arena, ps_counts_file *out)
{
    ps_cli_input_kind kind = PS_CLI_HOT_SET;
    PS_TRY(ps_cli_input_kind_of(path, &kind));
    switch (kind) {
    case PS_CLI_COUNTS:
        return ps_counts_file_read(path, arena, out);
    case PS_CLI_ROUTE_LOG:
        return count_log(path, arena, out);
    default:
        return ps_fail(PS_INVALID, "%s: is a hot set; a counts file or a route log would be right",
                       path);
    }
}

static uint64_t tokens_of(const ps_route_counts *counts, ps_routes_phase phase)
{
    return counts->tokens[0][phase] + counts->tokens[1][phase];
}

ps_status ps_cli_phases_check(const char *path, const ps_route_counts *counts, uint32_t phases)
{
    uint64_t tokens = 0;
    for (uint32_t phase = 0; phase < PS_ROUTES_PHASES; phase++) {
        tokens += (phases >> phase & 1) != 0 ? tokens_of(counts, (ps_routes_phase)phase) : 0;
    }
    return tokens > 0 ? PS_OK
                      : ps_fail(PS_INVALID, "%s: no token of phase '%s' was counted", path,
                                ps_cli_phases_name(phases));
}

void ps_cli_counts_describe(const ps_counts_file *file, uint32_t phases, ps_hot_set *out)
{
    const ps_counts_header *header = &file->header;
    *out = (ps_hot_set){.layers = header->layers,
                        .experts = header->experts,
                        .top_k = header->top_k,
                        .prompt_tokens = tokens_of(&file->counts, PS_ROUTES_PROMPT),
                        .decode_tokens = tokens_of(&file->counts, PS_ROUTES_DECODE)};
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "%016" PRIx64, header->fingerprint);
    (void)snprintf(out->model, sizeof out->model, "%s", header->model);
    (void)snprintf(out->quantisation, sizeof out->quantisation, "%s", header->quantisation);
    (void)snprintf(out->phases, sizeof out->phases, "%s", ps_cli_phases_name(phases));
}
