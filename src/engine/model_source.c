// engine/model_source.c - by name, then by the first bytes of a file.
#include "engine/model_source.h"

#include "base/scan.h"
#include "engine/architecture_file.h"
#include "engine/data_files.h"
#include "engine/json_fields.h"
#include "format/file_map.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHIPPED_MAX 64u

static const ps_data_file *find_shipped(const char *name)
{
    uint32_t count = 0;
    const ps_data_file *files = ps_data_folder("models", &count);
    for (uint32_t i = 0; i < count; i++) {
        const ps_str shipped = ps_data_short_name(&files[i]);
        if (strlen(name) == shipped.length && memcmp(name, shipped.data, shipped.length) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

// A text whose first mark is a brace. False as well for what cannot be read: opening it says why.
static bool is_json(const char *path)
{
    char head[64];
    ssize_t count = 0;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) {
        count = pread(descriptor, head, sizeof head, 0);
        (void)close(descriptor);
    }
    for (ssize_t i = 0; i < count; i++) {
        if (isspace((unsigned char)head[i]) == 0) {
            return head[i] == '{';
        }
    }
    return false;
}

// Neither in a folder nor with the ending of a file.
static bool could_be_shipped(const char *name)
{
    static const char *const ENDINGS[] = {".gguf", ".pst", ".json"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        const size_t bytes = strlen(ENDINGS[i]);
        if (length >= bytes && strcmp(name + length - bytes, ENDINGS[i]) == 0) {
            return false;
        }
    }
    return strchr(name, '/') == NULL;
}

static ps_status advise(const char *name)
{
    uint32_t count = 0;
    const ps_data_file *files = ps_data_folder("models", &count);
    char names[SHIPPED_MAX][PS_CACHE_LINE_BYTES];
    const char *words[SHIPPED_MAX];
    char list[1024] = "";
    size_t used = 0;
    ps_assert(count <= SHIPPED_MAX);
    for (uint32_t i = 0; i < count && used < sizeof list; i++) {
        const ps_str shipped = ps_data_short_name(&files[i]);
        (void)snprintf(names[i], sizeof names[i], "%.*s", (int)shipped.length, shipped.data);
        words[i] = names[i];
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 names[i]);
    }
    return ps_fail(PS_NOT_FOUND,
                   "%s: no such file, and no model that prestage ships; the nearest is %s of %s",
                   name, ps_nearest(ps_str_of(name), words, count), list);
}

static ps_status parse_file(const char *path, ps_arena *arena, ps_model_source *out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a model", &bytes, &size_bytes);
    if (status == PS_OK && size_bytes > PS_JSON_FILE_BYTES_MAX) {
        status = ps_fail(PS_INVALID, "%llu bytes; a config.json has at most %zu",
                         (unsigned long long)size_bytes, PS_JSON_FILE_BYTES_MAX);
    } else if (status == PS_OK) {
        status = ps_architecture_parse((ps_str){bytes == NULL ? "" : bytes, size_bytes}, path,
                                       arena, &out->config, &out->note);
    }
    ps_file_unmap(bytes, size_bytes);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

ps_status ps_model_source_advise(const char *name, ps_status opened)
{
    return opened == PS_NOT_FOUND && could_be_shipped(name) ? advise(name) : opened;
}

static ps_status open_file(const char *path, ps_arena *arena, ps_model_source *source)
{
    PS_TRY(ps_model_source_advise(path, ps_model_file_open(path, &source->file)));
    const ps_status status = ps_model_read(source->file.gguf, arena, &source->config);
    if (status != PS_OK) {
        ps_model_file_close(&source->file);
        return ps_fail_prefix(status, "%s", path);
    }
    return PS_OK;
}

static ps_status open_source(const char *name, ps_arena *arena, ps_model_source *out)
{
    const ps_data_file *shipped = find_shipped(name);
    if (shipped != NULL) {
        const ps_status status = ps_architecture_parse((ps_str){shipped->text, shipped->length},
                                                       name, arena, &out->config, &out->note);
        return status == PS_OK ? PS_OK : ps_fail_prefix(status, "%s", name);
    }
    return is_json(name) ? parse_file(name, arena, out) : open_file(name, arena, out);
}

static ps_status set_weight_bits(ps_model_source *source, uint32_t bits, ps_arena *arena)
{
    if (source->file.gguf != NULL) {
        return ps_fail(PS_INVALID,
                       "weights of %u bits, but those of a file have types of their "
                       "own; an architecture without weights would be right",
                       bits);
    }
    ps_model_config *config = PS_ARENA_NEW(arena, ps_model_config, 1);
    if (config == NULL) {
        return PS_NO_MEMORY;
    }
    *config = *source->config;
    PS_TRY(ps_architecture_bits("weight bits", bits, &config->weight_dtype));
    source->config = config;
    return PS_OK;
}

ps_status ps_model_source_open(const char *name, uint32_t weight_bits, ps_arena *arena,
                               ps_model_source *out)
{
    ps_model_source source = {.note = ""};
    PS_TRY(open_source(name, arena, &source));
    ps_assert(source.config != NULL);
    const ps_status status = weight_bits == 0 ? PS_OK
                                              : set_weight_bits(&source, weight_bits, arena);
    if (status != PS_OK) {
        ps_model_source_close(&source);
        return ps_fail_prefix(status, "%s", name);
    }
    *out = source;
    return PS_OK;
}

void ps_model_source_close(ps_model_source *source)
{
    if (source->file.gguf != NULL) {
        ps_model_file_close(&source->file);
    }
    *source = (ps_model_source){.config = NULL};
}

bool ps_model_source_is_architecture(const char *name)
{
    return find_shipped(name) != NULL || is_json(name);
}

ps_status ps_model_source_open_file(const char *name, ps_model_file *out)
{
    if (ps_model_source_is_architecture(name)) {
        return ps_fail(
            PS_INVALID,
            "%s is an architecture without weights; info, plan, simulate, explore and tune "
            "--machine take it",
            name);
    }
    return ps_model_file_open(name, out);
}
