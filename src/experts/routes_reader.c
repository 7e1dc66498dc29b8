// experts/routes_reader.c - reads a route log, a block at a time.
#include "experts/calls.h"
#include "experts/routes_internal.h"

#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ps_routes_reader {
    FILE *file;
    char *name;
    ps_routes_shape shape;
    uint64_t size_bytes;
    uint64_t offset;       // of what is read next
    uint64_t block_offset; // of the payload in `block`
    char *block;           // [capacity], the first block_bytes are read
    uint32_t capacity, block_bytes;
    uint32_t at;         // of the next call in the block
    uint32_t calls_left; // of the block
    uint64_t calls;      // so far
    bool is_at_end;
    ps_routes_row *rows; // [row_count] of the block's last call
    uint32_t row_count, row_capacity;
    uint64_t *seen; // [experts] the last row that had it
    uint64_t row_number;
};

ps_status ps_routes_shape_check(const ps_routes_shape *shape)
{
    if (shape->layers == 0 || shape->layers > PS_ROUTES_LAYERS_MAX) {
        return ps_fail(PS_INVALID, "%u layers: 1 to %u would be right", shape->layers,
                       PS_ROUTES_LAYERS_MAX);
    }
    if (shape->experts == 0 || shape->experts > PS_ROUTES_EXPERTS_MAX) {
        return ps_fail(PS_INVALID, "%u experts: 1 to %u would be right", shape->experts,
                       PS_ROUTES_EXPERTS_MAX);
    }
    const uint32_t most = shape->experts < PS_ROUTES_TOP_K_MAX ? shape->experts
                                                               : PS_ROUTES_TOP_K_MAX;
    if (shape->top_k == 0 || shape->top_k > most) {
        return ps_fail(PS_INVALID, "%u experts a row: 1 to %u would be right", shape->top_k, most);
    }
    return PS_OK;
}

// ---- opening

static ps_status fail_at(const ps_routes_reader *r, uint64_t offset, const char *what)
{
    return ps_fail(PS_INVALID, "%s: damaged at byte %" PRIu64 ": %s", r->name, offset, what);
}

static ps_status read_bytes(ps_routes_reader *r, void *bytes, uint64_t count)
{
    if (count > r->size_bytes - r->offset) {
        return ps_fail(PS_INVALID,
                       "%s: truncated: %" PRIu64 " bytes at %" PRIu64 " end at %" PRIu64, r->name,
                       count, r->offset, r->size_bytes);
    }
    if (fread(bytes, 1, count, r->file) != count) {
        return ps_fail(PS_IO, "%s: %" PRIu64 " bytes at %" PRIu64 ": %s", r->name, count, r->offset,
                       ferror(r->file) ? strerror(errno) : "the file has become shorter");
    }
    r->offset += count;
    return PS_OK;
}

static ps_status seek(ps_routes_reader *r, uint64_t offset)
{
    if (fseeko(r->file, (off_t)offset, SEEK_SET) != 0) {
        return ps_fail(PS_IO, "%s: cannot go to byte %" PRIu64 ": %s", r->name, offset,
                       strerror(errno));
    }
    r->offset = offset;
    return PS_OK;
}

static ps_status read_header(ps_routes_reader *r)
{
    ps_routes_header header;
    if (r->size_bytes < sizeof header.magic) {
        return ps_fail(PS_INVALID, "%s: is no route log", r->name);
    }
    PS_TRY(read_bytes(r, header.magic, sizeof header.magic));
    if (memcmp(header.magic, PS_ROUTES_MAGIC, sizeof header.magic) != 0) {
        return ps_fail(PS_INVALID, "%s: is no route log", r->name);
    }
    PS_TRY(read_bytes(r, &header.version, sizeof header - sizeof header.magic));
    if (header.version != PS_ROUTES_VERSION) {
        return ps_fail(PS_INVALID, "%s: version %u of route logs; version %u would be right",
                       r->name, header.version, PS_ROUTES_VERSION);
    }
    if (header.checksum != ps_hash(&header, offsetof(ps_routes_header, checksum), 0)) {
        return fail_at(r, 0, "the header has another checksum");
    }
    r->shape = (ps_routes_shape){.fingerprint = header.fingerprint,
                                 .layers = header.layers,
                                 .experts = header.experts,
                                 .top_k = header.top_k};
    const ps_status status = ps_routes_shape_check(&r->shape);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "%s", r->name);
}

// Says at once what a reader of a long log would find out at its end.
static ps_status check_end(ps_routes_reader *r)
{
    ps_routes_block end;
    if (r->size_bytes >= sizeof(ps_routes_header) + sizeof end) {
        PS_TRY(seek(r, r->size_bytes - sizeof end));
        PS_TRY(read_bytes(r, &end, sizeof end));
        if (end.bytes == 0 && end.calls == 0) {
            return seek(r, sizeof(ps_routes_header));
        }
    }
    return ps_fail(PS_INVALID, "%s: truncated at byte %" PRIu64 ", or not finished: no end there",
                   r->name, r->size_bytes);
}

static ps_status open_reader(ps_routes_reader *r)
{
    if (fseeko(r->file, 0, SEEK_END) != 0) {
        return ps_fail(PS_IO, "%s: cannot be sought: %s", r->name, strerror(errno));
    }
    const off_t size = ftello(r->file);
    r->size_bytes = size > 0 ? (uint64_t)size : 0;
    PS_TRY(seek(r, 0));
    PS_TRY(read_header(r));
    PS_TRY(check_end(r));
    r->seen = calloc(r->shape.experts, sizeof *r->seen);
    return r->seen != NULL ? PS_OK : ps_fail(PS_NO_MEMORY, "no memory for a route log");
}

ps_status ps_routes_reader_open_stream(FILE *stream, const char *name, ps_routes_reader **out)
{
    ps_routes_reader *r = calloc(1, sizeof *r);
    char *copy = r == NULL ? NULL : strdup(name);
    if (copy == NULL) {
        (void)fclose(stream);
        free(r);
        return ps_fail(PS_NO_MEMORY, "no memory for a route log");
    }
    r->file = stream;
    r->name = copy;
    const ps_status status = open_reader(r);
    if (status != PS_OK) {
        ps_routes_reader_close(r);
        return status;
    }
    *out = r;
    return PS_OK;
}

ps_status ps_routes_reader_open(const char *path, ps_routes_reader **out)
{
    struct stat now;
    if (stat(path, &now) == 0 && !S_ISREG(now.st_mode)) {
        return ps_fail(PS_INVALID, "%s: is no regular file; a route log would be right", path);
    }
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        return ps_fail(errno == ENOENT ? PS_NOT_FOUND : PS_IO, "%s: %s", path, strerror(errno));
    }
    return ps_routes_reader_open_stream(stream, path, out);
}

void ps_routes_reader_close(ps_routes_reader *reader)
{
    if (reader != NULL) {
        (void)fclose(reader->file);
        free(reader->name);
        free(reader->block);
        free(reader->rows);
        free(reader->seen);
        free(reader);
    }
}

const ps_routes_shape *ps_routes_reader_shape(const ps_routes_reader *reader)
{
    return &reader->shape;
}

// ---- calls

static ps_status make_room(void **array, uint32_t *capacity, uint32_t count, size_t item_bytes)
{
    if (count > *capacity) {
        void *larger = realloc(*array, count * item_bytes);
        if (larger == NULL) {
            return ps_fail(PS_NO_MEMORY, "no memory for a route log");
        }
        *array = larger;
        *capacity = count;
    }
    return PS_OK;
}

static ps_status end_log(ps_routes_reader *r, const ps_routes_block *head)
{
    if (head->calls != 0 || head->checksum != ps_hash(&r->calls, sizeof r->calls, 0)) {
        return fail_at(r, r->offset - sizeof *head, "the end tells another number of calls");
    }
    if (r->offset != r->size_bytes) {
        return fail_at(r, r->offset, "bytes behind the end");
    }
    r->is_at_end = true;
    return PS_OK;
}

static ps_status read_block(ps_routes_reader *r)
{
    ps_routes_block head;
    PS_TRY(read_bytes(r, &head, sizeof head));
    if (head.bytes == 0) {
        return end_log(r, &head);
    }
    const uint64_t at = r->offset - sizeof head;
    if (head.bytes > PS_ROUTES_BLOCK_BYTES_MAX || head.calls == 0) {
        return fail_at(r, at, "no block begins there");
    }
    void *block = r->block;
    PS_TRY(make_room(&block, &r->capacity, head.bytes, 1));
    r->block = block;
    r->block_offset = r->offset;
    PS_TRY(read_bytes(r, r->block, head.bytes));
    if (head.checksum != ps_hash(r->block, head.bytes, at)) {
        return fail_at(r, at, "the block has another checksum");
    }
    r->block_bytes = head.bytes;
    r->calls_left = head.calls;
    r->at = 0;
    r->row_count = 0;
    return PS_OK;
}

static const char *take(ps_routes_reader *r, uint64_t bytes)
{
    if (bytes > r->block_bytes - r->at) {
        return NULL;
    }
    const char *taken = r->block + r->at;
    r->at += (uint32_t)bytes;
    return taken;
}

static ps_status read_rows(ps_routes_reader *r, uint32_t count)
{
    const char *bytes = take(r, (uint64_t)count * sizeof *r->rows);
    if (bytes == NULL) {
        return fail_at(r, r->block_offset + r->at, "rows pass the end of their block");
    }
    void *rows = r->rows;
    PS_TRY(make_room(&rows, &r->row_capacity, count, sizeof *r->rows));
    r->rows = rows;
    r->row_count = count;
    memcpy(r->rows, bytes, count * sizeof *r->rows);
    for (uint32_t i = 0; i < count; i++) {
        if (r->rows[i].phase >= PS_ROUTES_PHASES) {
            return fail_at(r, r->block_offset + r->at, "a row before it has no such phase");
        }
    }
    return PS_OK;
}

static ps_status check_ids(ps_routes_reader *r, const uint16_t *ids, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        r->row_number++;
        for (uint32_t j = 0; j < r->shape.top_k; j++) {
            const uint32_t id = *ids++;
            if (id >= r->shape.experts || r->seen[id] == r->row_number) {
                return fail_at(r, r->block_offset + r->at,
                               "a row before it has an expert twice, or one that is not there");
            }
            r->seen[id] = r->row_number;
        }
    }
    return PS_OK;
}

static ps_status read_call(ps_routes_reader *r, ps_routes_call *out)
{
    const uint64_t start = r->block_offset + r->at;
    uint16_t head[2] = {0};
    const char *bytes = take(r, sizeof head);
    if (bytes == NULL) {
        return fail_at(r, start, "a call passes the end of its block");
    }
    memcpy(head, bytes, sizeof head);
    const uint32_t layer = head[0] & ~PS_ROUTES_SAME_ROWS;
    const bool is_same = (head[0] & PS_ROUTES_SAME_ROWS) != 0;
    const uint32_t rows = head[1];
    if (layer >= r->shape.layers || rows == 0 || (is_same && rows != r->row_count)) {
        return fail_at(r, start, "a call of no such layer or rows");
    }
    if (!is_same) {
        PS_TRY(read_rows(r, rows));
    }
    const void *ids = take(r, (uint64_t)rows * r->shape.top_k * sizeof(uint16_t));
    if (ids == NULL) {
        return fail_at(r, start, "a call passes the end of its block");
    }
    PS_TRY(check_ids(r, ids, rows)); // at an even place of the block, as all that is in it
    *out = (ps_routes_call){.layer = layer, .rows = rows, .row = r->rows, .ids = ids};
    return PS_OK;
}

ps_status ps_routes_reader_next(ps_routes_reader *reader, ps_routes_call *out, bool *out_is_end)
{
    if (reader->calls_left == 0 && !reader->is_at_end) {
        PS_TRY(read_block(reader));
    }
    if (!reader->is_at_end) {
        PS_TRY(read_call(reader, out));
        reader->calls++;
        if (--reader->calls_left == 0 && reader->at != reader->block_bytes) {
            return fail_at(reader, reader->block_offset + reader->at,
                           "bytes behind a block's calls");
        }
    }
    *out_is_end = reader->is_at_end;
    return PS_OK;
}

ps_status ps_routes_reader_rewind(ps_routes_reader *reader)
{
    PS_TRY(seek(reader, sizeof(ps_routes_header)));
    reader->is_at_end = false;
    reader->calls_left = 0;
    reader->calls = 0;
    return PS_OK;
}

static ps_status next_of(void *context, ps_routes_call *out, bool *out_is_end)
{
    return ps_routes_reader_next(context, out, out_is_end);
}

static ps_status rewind_of(void *context)
{
    return ps_routes_reader_rewind(context);
}

ps_expert_calls ps_routes_reader_calls(ps_routes_reader *reader)
{
    return (ps_expert_calls){
        .context = reader, .shape = reader->shape, .next = next_of, .rewind = rewind_of};
}
