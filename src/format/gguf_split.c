// format/gguf_split.c - the parts of a split file become one file object.
//
// Each part is a GGUF file, read and checked like any other. The object for all of them borrows the
// metadata of the first one, has a table of all tensors, and, as its bytes, the heads of all parts
// one behind the other, which is what a compiled file keeps.
#include "format/gguf_internal.h"

#include <stdio.h>
#include <string.h>

#define SUFFIX "-%05u-of-%05u.gguf"
#define SUFFIX_BYTES (sizeof "-00001-of-00001.gguf" - 1) // while PS_GGUF_PARTS_MAX has 5 digits

typedef unsigned long long ull;

// What a part says of itself.
typedef struct split {
    uint64_t number, count; // count up to 1: not split
    uint64_t tensors;       // of all parts
} split;

static ps_status get(const ps_gguf *part, const char *key, uint64_t *out)
{
    const ps_status status = ps_gguf_get_u64(part, key, out);
    return status == PS_NOT_FOUND ? ps_fail(PS_INVALID, "a part of a split file without '%s'", key)
                                  : status;
}

static ps_status read_split(const ps_gguf *part, split *out)
{
    split of = {.count = 1};
    if (ps_gguf_key_find(part, "split.count") != NULL) {
        PS_TRY(ps_gguf_get_u64(part, "split.count", &of.count));
    }
    if (of.count > 1) {
        PS_TRY(get(part, "split.no", &of.number));
        PS_TRY(get(part, "split.tensors.count", &of.tensors));
    }
    if (of.count > 1 && of.number >= of.count) {
        return ps_fail(PS_INVALID, "split.no is %llu; less than split.count, %llu, would be right",
                       (ull)of.number, (ull)of.count);
    }
    if (of.count > PS_GGUF_PARTS_MAX) {
        return ps_fail(PS_INVALID, "split.count is %llu; at most %u parts are allowed",
                       (ull)of.count, PS_GGUF_PARTS_MAX);
    }
    *out = of;
    return PS_OK;
}

// ---- names

// `name` [SUFFIX_BYTES + 1] becomes the end of the path of part `index`.
static void make_suffix(uint64_t index, uint64_t count, char *name)
{
    (void)snprintf(name, SUFFIX_BYTES + 1, SUFFIX, (unsigned)(index + 1) % 100000,
                   (unsigned)count % 100000);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

// Of the path of part of->number a copy, whose last SUFFIX_BYTES can be those of another part.
static ps_status check_path(const char *path, const split *of, ps_arena *arena, char **out)
{
    char suffix[SUFFIX_BYTES + 1];
    make_suffix(of->number, of->count, suffix);
    const size_t length = strlen(path);
    if (length <= SUFFIX_BYTES || strcmp(path + length - SUFFIX_BYTES, suffix) != 0) {
        return ps_fail(PS_INVALID,
                       "part %llu of %llu of a split file; the others are found by its name, "
                       "which should end with '%s'",
                       (ull)of->number + 1, (ull)of->count, suffix);
    }
    *out = ps_arena_strndup(arena, path, length);
    return *out == NULL ? PS_NO_MEMORY : PS_OK;
}

// ---- parts

static ps_status check_is_first(const split *of, char *path)
{
    if (of->number == 0) {
        return PS_OK;
    }
    if (path != NULL) {
        make_suffix(0, of->count, path + strlen(path) - SUFFIX_BYTES);
    }
    return ps_fail(PS_INVALID,
                   "part %llu of %llu of a split file; the first one%s%.300s%s would be right",
                   (ull)of->number + 1, (ull)of->count, path == NULL ? "" : ", ",
                   path == NULL ? "" : file_name(path), path == NULL ? "" : ",");
}

static uint64_t value_bytes(const ps_gguf_key *key)
{
    uint64_t bytes = key->count * ps_gguf_type_get(key->type)->size_bytes;
    for (uint64_t i = 0; i < key->count && key->type == PS_GGUF_STRING; i++) {
        bytes += sizeof(uint64_t) + ps_gguf_load_u64(key->bytes + bytes);
    }
    return bytes;
}

static bool is_same_value(const ps_gguf_key *a, const ps_gguf_key *b)
{
    return a->type == b->type && a->is_array == b->is_array && a->count == b->count &&
           value_bytes(a) == value_bytes(b) && memcmp(a->bytes, b->bytes, value_bytes(a)) == 0;
}

// Parts have few keys of their own, and those that say something of the model say the same.
static ps_status check_metadata(const ps_gguf *first, const ps_gguf *part)
{
    for (uint32_t i = 0; i < part->key_count; i++) {
        const ps_gguf_key *key = &part->keys[i];
        const ps_gguf_key *other = ps_gguf_key_find(first, key->name);
        if (strncmp(key->name, "split.", 6) != 0 && strcmp(key->name, "general.alignment") != 0 &&
            (other == NULL || !is_same_value(key, other))) {
            return ps_fail(PS_INVALID,
                           "key '%.100s' is not what it is in part 1: they are parts of different "
                           "models",
                           key->name);
        }
    }
    return PS_OK;
}

static ps_status check_part(const ps_gguf *first, const split *of, const ps_gguf *part,
                            uint32_t index)
{
    split own;
    PS_TRY(read_split(part, &own));
    if (own.count != of->count) {
        return ps_fail(PS_INVALID, "split.count is %llu; %llu, as in part 1, would be right",
                       (ull)own.count, (ull)of->count);
    }
    if (own.number != index) {
        return ps_fail(PS_INVALID, "split.no is %llu; %u would be right", (ull)own.number, index);
    }
    if (own.tensors != of->tensors) {
        return ps_fail(PS_INVALID,
                       "split.tensors.count is %llu; %llu, as in part 1, would be right",
                       (ull)own.tensors, (ull)of->tensors);
    }
    return check_metadata(first, part);
}

// ---- joining

static ps_status open_next(const ps_gguf *whole, const ps_gguf_rest *rest, const char *path,
                           ps_gguf **out)
{
    const uint32_t index = whole->part_count;
    if (path != NULL) {
        const ps_status status = ps_gguf_open_one(path, out);
        return status == PS_NOT_FOUND ? ps_fail(status, "it is missing") : status;
    }
    if (rest->origin != NULL) {
        const ps_gguf *last = whole->parts[index - 1];
        return ps_gguf_open_one_bytes(last->bytes + last->table_end,
                                      last->held_bytes - last->table_end, rest->origin, out);
    }
    if (index >= rest->count) {
        return ps_fail(PS_NOT_FOUND, "it is missing");
    }
    return ps_gguf_open_one_bytes(rest->parts[index].data, rest->parts[index].length, NULL, out);
}

// Opens the parts behind the first one. path: of the first one, becomes that of each in turn.
static ps_status open_rest(ps_gguf *whole, const split *of, const ps_gguf_rest *rest, char *path)
{
    while (whole->part_count < of->count) {
        const uint32_t index = whole->part_count;
        ps_gguf *part = NULL;
        if (path != NULL) {
            make_suffix(index, of->count, path + strlen(path) - SUFFIX_BYTES);
        }
        ps_status status = open_next(whole, rest, path, &part);
        if (status == PS_OK) {
            whole->parts[whole->part_count++] = part;
            whole->arena.limit_bytes += part->arena.limit_bytes;
            status = check_part(whole->parts[0], of, part, index);
        }
        if (status != PS_OK) {
            return ps_fail_prefix(status, "part %u of %llu%s%.300s", index + 1, (ull)of->count,
                                  path == NULL ? "" : ", ", path == NULL ? "" : file_name(path));
        }
    }
    if (path == NULL && rest->origin == NULL && rest->count > of->count) {
        return ps_fail(PS_INVALID, "%u parts; split.count is %llu", rest->count, (ull)of->count);
    }
    return PS_OK;
}

static uint32_t part_of(const ps_gguf *whole, uint32_t tensor)
{
    uint32_t part = 0;
    while (tensor >= whole->parts[part]->tensor_count) {
        tensor -= whole->parts[part++]->tensor_count;
    }
    return part;
}

static ps_status join_tensors(ps_gguf *whole, const split *of)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < whole->part_count; i++) {
        count += whole->parts[i]->tensor_count;
    }
    if (count != of->tensors || count > PS_GGUF_ENTRIES_MAX) {
        return ps_fail(PS_INVALID,
                       "the parts have %llu tensors, split.tensors.count is %llu, and at most %llu "
                       "are allowed",
                       (ull)count, (ull)of->tensors, (ull)PS_GGUF_ENTRIES_MAX);
    }
    whole->tensors = PS_ARENA_NEW(&whole->arena, ps_gguf_tensor, count);
    whole->tensor_names = PS_ARENA_NEW(&whole->arena, ps_gguf_name, count);
    if (whole->tensors == NULL || whole->tensor_names == NULL) {
        return PS_NO_MEMORY;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < whole->part_count; i++) {
        for (uint32_t t = 0; t < whole->parts[i]->tensor_count; t++) {
            const ps_gguf_tensor *tensor = &whole->parts[i]->tensors[t];
            if (tensor->size_bytes > whole->size_bytes - bytes) { // of a head, only
                return ps_fail(PS_INVALID, "tensor '%s' does not fit %llu bytes with those before",
                               tensor->name, (ull)whole->size_bytes);
            }
            bytes += tensor->size_bytes;
            whole->tensors[whole->tensor_count] = *tensor;
            whole->tensor_names[whole->tensor_count] = (ps_gguf_name){.text = tensor->name,
                                                                      .index = whole->tensor_count};
            whole->tensor_count++;
        }
    }
    const ps_gguf_name *twice = ps_gguf_sort_names(whole->tensor_names, whole->tensor_count);
    return twice == NULL
               ? PS_OK
               : ps_fail(PS_INVALID, "tensor '%s' stands in parts %u and %u", twice->text,
                         part_of(whole, twice[-1].index) + 1, part_of(whole, twice->index) + 1);
}

// The heads of the parts are one already when only they are there.
static ps_status join_heads(ps_gguf *whole)
{
    for (uint32_t i = 0; i < whole->part_count; i++) {
        whole->table_end += whole->parts[i]->table_end;
    }
    whole->held_bytes = whole->table_end;
    whole->bytes = whole->parts[0]->bytes;
    if (whole->is_head) {
        return PS_OK;
    }
    uint8_t *heads = PS_ARENA_NEW(&whole->arena, uint8_t, whole->table_end);
    if (heads == NULL) {
        return PS_NO_MEMORY;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < whole->part_count; i++) {
        memcpy(heads + at, whole->parts[i]->bytes, whole->parts[i]->table_end);
        at += whole->parts[i]->table_end;
    }
    whole->bytes = heads;
    return PS_OK;
}

static ps_status join(ps_gguf *whole, const split *of, const ps_gguf_rest *rest)
{
    const ps_gguf *first = whole->parts[0];
    char *path = NULL;
    if (rest->path != NULL) {
        PS_TRY(check_path(rest->path, of, &whole->arena, &path));
    }
    PS_TRY(check_is_first(of, path));
    PS_TRY(open_rest(whole, of, rest, path));
    whole->version = first->version;
    whole->is_mapped = first->is_mapped;
    whole->is_head = first->is_head;
    whole->fingerprint = first->fingerprint;
    whole->key_count = first->key_count;
    whole->keys = first->keys;
    whole->key_names = first->key_names;
    for (uint32_t i = 0; i < (whole->is_head ? 1 : whole->part_count); i++) {
        whole->size_bytes += whole->parts[i]->size_bytes;
    }
    PS_TRY(join_tensors(whole, of));
    return join_heads(whole);
}

ps_status ps_gguf_join(ps_gguf *first, const ps_gguf_rest *rest, ps_gguf **out)
{
    split of;
    const ps_status found = read_split(first, &of);
    if (found == PS_OK && of.count <= 1 && rest->count <= 1) {
        *out = first;
        return PS_OK;
    }
    ps_gguf *whole = found == PS_OK ? ps_gguf_create(NULL, 0) : NULL;
    if (whole == NULL) {
        ps_gguf_close(first);
        return found == PS_OK ? PS_NO_MEMORY : found;
    }
    whole->arena.limit_bytes += first->arena.limit_bytes;
    whole->parts = PS_ARENA_NEW(&whole->arena, ps_gguf *, of.count + 1);
    if (whole->parts == NULL) {
        ps_gguf_close(first);
        ps_gguf_close(whole);
        return PS_NO_MEMORY;
    }
    whole->parts[whole->part_count++] = first;
    const ps_status status = join(whole, &of, rest);
    if (status != PS_OK) {
        ps_gguf_close(whole);
        return status;
    }
    *out = whole;
    return PS_OK;
}
