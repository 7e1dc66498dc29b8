// experts/routes_writer.c - writes a route log, a block at a time.
#include "experts/routes_internal.h"

#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ps_routes_writer {
    char *path;
    ps_buffer temporary; // name
    FILE *file;
    uint32_t top_k;
    ps_buffer block;
    uint32_t block_calls;
    ps_routes_row *rows; // [row_count] of the block's last call
    uint32_t row_count, row_capacity;
    uint64_t calls, offset; // in all; of the block
    bool is_out_of_memory;
};

static ps_status open_beside(ps_routes_writer *w)
{
    struct stat now;
    if (stat(w->path, &now) == 0 && !S_ISREG(now.st_mode)) {
        return ps_fail(PS_INVALID, "%s: is no regular file", w->path);
    }
    PS_TRY(ps_buffer_printf(&w->temporary, "%s.%ld.tmp", w->path, (long)getpid()));
    w->file = fopen(w->temporary.data, "wxe");
    return w->file != NULL
               ? PS_OK
               : ps_fail(PS_IO, "%s: cannot create a file beside it: %s", w->path, strerror(errno));
}

static void write_header(ps_routes_writer *w, const ps_routes_shape *shape)
{
    ps_routes_header header = {.version = PS_ROUTES_VERSION,
                               .layers = shape->layers,
                               .experts = shape->experts,
                               .top_k = shape->top_k,
                               .fingerprint = shape->fingerprint};
    memcpy(header.magic, PS_ROUTES_MAGIC, sizeof header.magic);
    header.checksum = ps_hash(&header, offsetof(ps_routes_header, checksum), 0);
    (void)fwrite(&header, sizeof header, 1, w->file); // finish() looks at the stream's error
    w->offset = sizeof header;
}

ps_status ps_routes_writer_create(const char *path, const ps_routes_shape *shape,
                                  ps_routes_writer **out)
{
    PS_TRY(ps_routes_shape_check(shape));
    ps_routes_writer *w = calloc(1, sizeof *w);
    if (w == NULL || (w->path = strdup(path)) == NULL) {
        free(w);
        return ps_fail(PS_NO_MEMORY, "no memory for a route log");
    }
    w->top_k = shape->top_k;
    const ps_status status = open_beside(w);
    if (status != PS_OK) {
        ps_routes_writer_abandon(w);
        return status;
    }
    write_header(w, shape);
    *out = w;
    return PS_OK;
}

static void write_block(ps_routes_writer *w)
{
    if (w->block_calls == 0) {
        return;
    }
    const ps_routes_block head = {.bytes = (uint32_t)w->block.length,
                                  .calls = w->block_calls,
                                  .checksum = ps_hash(w->block.data, w->block.length, w->offset)};
    (void)fwrite(&head, sizeof head, 1, w->file);
    (void)fwrite(w->block.data, 1, w->block.length, w->file);
    w->offset += sizeof head + w->block.length;
    w->block.length = 0;
    w->block_calls = 0;
}

static bool has_same_rows(const ps_routes_writer *w, const ps_routes_call *call)
{
    return w->block_calls > 0 && call->rows == w->row_count &&
           memcmp(call->row, w->rows, call->rows * sizeof *w->rows) == 0;
}

static bool keep_rows(ps_routes_writer *w, const ps_routes_call *call)
{
    if (call->rows > w->row_capacity) {
        ps_routes_row *rows = realloc(w->rows, call->rows * sizeof *rows);
        if (rows == NULL) {
            return false;
        }
        w->rows = rows;
        w->row_capacity = call->rows;
    }
    memcpy(w->rows, call->row, call->rows * sizeof *w->rows);
    w->row_count = call->rows;
    return true;
}

static bool append(ps_routes_writer *w, const void *bytes, size_t length)
{
    return ps_buffer_append(&w->block, bytes, length) == PS_OK;
}

static bool append_call(ps_routes_writer *w, const ps_routes_call *call)
{
    const bool is_same = has_same_rows(w, call);
    const uint16_t head[] = {(uint16_t)(call->layer | (is_same ? PS_ROUTES_SAME_ROWS : 0)),
                             (uint16_t)call->rows};
    return append(w, head, sizeof head) &&
           (is_same ||
            (keep_rows(w, call) && append(w, call->row, call->rows * sizeof *call->row))) &&
           append(w, call->ids, (size_t)call->rows * w->top_k * sizeof *call->ids);
}

void ps_routes_writer_add(ps_routes_writer *writer, const ps_routes_call *call)
{
    ps_assert(call->layer < PS_ROUTES_LAYERS_MAX);
    ps_assert(call->rows > 0 && call->rows <= PS_ROUTES_ROWS_MAX);
    if (writer->is_out_of_memory) {
        return;
    }
    if (!append_call(writer, call)) {
        writer->is_out_of_memory = true;
        return;
    }
    writer->block_calls++;
    writer->calls++;
    if (writer->block.length >= PS_ROUTES_BLOCK_BYTES) {
        write_block(writer);
    }
}

static ps_status put_in_place(ps_routes_writer *w)
{
    const ps_routes_block end = {.checksum = ps_hash(&w->calls, sizeof w->calls, 0)};
    (void)fwrite(&end, sizeof end, 1, w->file);
    const bool is_written = fflush(w->file) == 0 && ferror(w->file) == 0;
    FILE *file = w->file;
    w->file = NULL;
    return fclose(file) == 0 && is_written && rename(w->temporary.data, w->path) == 0
               ? PS_OK
               : ps_fail(PS_IO, "%s: cannot write a route log: %s", w->path, strerror(errno));
}

ps_status ps_routes_writer_finish(ps_routes_writer *writer)
{
    write_block(writer);
    const ps_status status = writer->is_out_of_memory
                                 ? ps_fail(PS_NO_MEMORY, "no memory for a route log")
                                 : put_in_place(writer);
    ps_routes_writer_abandon(writer); // what is in its place has another name
    return status;
}

void ps_routes_writer_abandon(ps_routes_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (writer->file != NULL) {
        (void)fclose(writer->file);
    }
    if (writer->temporary.data != NULL) {
        (void)unlink(writer->temporary.data);
    }
    ps_buffer_deinit(&writer->temporary);
    ps_buffer_deinit(&writer->block);
    free(writer->rows);
    free(writer->path);
    free(writer);
}
