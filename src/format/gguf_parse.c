// format/gguf_parse.c - checks a GGUF file once, from its first byte to its last tensor.
//
// Invariants. Whoever uses a ps_gguf relies on them and checks nothing again.
//
//   1. No byte is read before take() has shown that the file holds it.
//   2. Memory is asked for a count only when the bytes left in the file could hold that many of the
//      shortest entries; the arena's limit, a multiple of the file's size, stands behind.
//   3. Each key's items lie in the file: scalars, arrays of scalars, and every string of an array.
//   4. Each tensor has 1 to 4 dimensions of at least 1, whole blocks a row, a size that does not
//      wrap, and [offset, offset + size) inside the data section, behind the tensor before it. So
//      all sizes together are at most the size of the file.
//   5. Names are unique in their table, not empty, UTF-8, and free of control characters.
#include "format/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC_BYTES 4u
#define KEY_BYTES_MIN (8 + 1 + 4 + 1)            // name length, name, type, value
#define TENSOR_BYTES_MIN (8 + 1 + 4 + 8 + 4 + 8) // name, dimension count and one, type, offset
#define VERSION_BYTE_ORDER 0x00010000u // no version is as large; a byte-swapped one is larger

typedef unsigned long long ull;

typedef struct cursor {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t position; // <= size
} cursor;

typedef struct tensor_reader {
    cursor *from;
    uint64_t alignment;
    uint64_t end;      // of the tensor read last, from the start of the data section; <= INT64_MAX
    uint64_t *offsets; // [tensors], from there too
} tensor_reader;

static ps_status take(cursor *from, uint64_t count, const uint8_t **out)
{
    const uint64_t left = from->size - from->position;
    if (count > left) {
        return ps_fail(PS_INVALID,
                       "the file ends at byte %llu, %llu bytes short: %llu wanted at byte %llu",
                       (ull)from->size, (ull)(count - left), (ull)count, (ull)from->position);
    }
    *out = from->bytes + from->position;
    from->position += count;
    return PS_OK;
}

uint64_t ps_gguf_load_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static ps_status take_u64(cursor *from, uint64_t *out)
{
    const uint8_t *bytes = NULL;
    PS_TRY(take(from, sizeof *out, &bytes));
    *out = ps_gguf_load_u64(bytes);
    return PS_OK;
}

static ps_status take_u32(cursor *from, uint32_t *out)
{
    const uint8_t *bytes = NULL;
    PS_TRY(take(from, sizeof *out, &bytes));
    memcpy(out, bytes, sizeof *out);
    return PS_OK;
}

static ps_status take_string(cursor *from, ps_str *out)
{
    uint64_t length;
    const uint8_t *bytes = NULL;
    PS_TRY(take_u64(from, &length));
    if (length > PS_GGUF_STRING_BYTES_MAX) {
        return ps_fail(PS_INVALID, "a string of %llu bytes; at most %llu are allowed", (ull)length,
                       (ull)PS_GGUF_STRING_BYTES_MAX);
    }
    PS_TRY(take(from, length, &bytes));
    *out = (ps_str){.data = (const char *)bytes, .length = length};
    return PS_OK;
}

// --- names -------------------------------------------------------------------------------------

// 0 when the bytes are not UTF-8, or overlong, a surrogate, or past U+10FFFF.
static uint32_t decode_utf8(const uint8_t *text, uint64_t left, uint32_t *out_character)
{
    static const uint32_t LOWEST[] = {0, 0, 0x80, 0x800, 0x10000}; // that needs so many bytes
    if (text[0] < 0x80) {
        *out_character = text[0];
        return 1;
    }
    const uint32_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc0 || text[0] >= 0xf8 || length > left) {
        return 0;
    }
    uint32_t character = text[0] & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (text[i] & 0x3fu);
    }
    *out_character = character;
    const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    return character < LOWEST[length] || character > 0x10ffff || is_surrogate ? 0 : length;
}

uint32_t ps_gguf_shown_length(const uint8_t *text, uint64_t left)
{
    uint32_t character = 0;
    const uint32_t length = left == 0 ? 0 : decode_utf8(text, left, &character);
    const bool is_control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    return is_control ? 0 : length;
}

// A name goes into messages, tables and C strings. One that cannot be shown is not quoted.
static ps_status check_name(ps_str name, uint32_t bytes_max)
{
    if (name.length == 0 || name.length > bytes_max) {
        return ps_fail(PS_INVALID, "its name has %zu bytes; 1 to %u are allowed", name.length,
                       bytes_max);
    }
    const uint8_t *text = (const uint8_t *)name.data;
    for (size_t at = 0; at < name.length;) {
        const uint32_t length = ps_gguf_shown_length(text + at, name.length - at);
        if (length == 0) {
            return ps_fail(PS_INVALID,
                           "its name is not UTF-8 without control characters: byte %zu "
                           "is 0x%02x",
                           at, text[at]);
        }
        at += length;
    }
    return PS_OK;
}

static ps_status take_name(cursor *from, uint32_t bytes_max, ps_arena *arena, const char **out)
{
    ps_str name = {0};
    PS_TRY(take_string(from, &name));
    PS_TRY(check_name(name, bytes_max));
    *out = ps_arena_strndup(arena, name.data, name.length);
    return *out == NULL ? PS_NO_MEMORY : PS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const ps_gguf_name *)a)->text, ((const ps_gguf_name *)b)->text);
}

const ps_gguf_name *ps_gguf_sort_names(ps_gguf_name *names, uint32_t count)
{
    qsort(names, count, sizeof *names, compare_names);
    for (uint32_t i = 1; i < count; i++) {
        if (strcmp(names[i - 1].text, names[i].text) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

static ps_status sort_names(ps_gguf_name *names, uint32_t count, const char *what)
{
    const ps_gguf_name *twice = ps_gguf_sort_names(names, count);
    return twice == NULL
               ? PS_OK
               : ps_fail(PS_INVALID, "%s '%.100s' stands in the file twice", what, twice->text);
}

// --- metadata ----------------------------------------------------------------------------------

static ps_status check_bools(const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (bytes[i] > 1) {
            return ps_fail(PS_INVALID, "a bool is the byte %u; 0 or 1 is wanted", bytes[i]);
        }
    }
    return PS_OK;
}

// Steps over the items of one value and leaves key->bytes at the first.
static ps_status take_items(cursor *from, ps_gguf_key *key)
{
    if (key->type == PS_GGUF_STRING) {
        key->bytes = from->bytes + from->position;
        for (uint64_t i = 0; i < key->count; i++) {
            ps_str string = {0};
            PS_TRY(take_string(from, &string));
        }
        return PS_OK;
    }
    ps_assert(key->count <= PS_GGUF_ITEMS_MAX); // so the product cannot wrap
    PS_TRY(take(from, key->count * ps_gguf_type_get(key->type)->size_bytes, &key->bytes));
    return key->type == PS_GGUF_BOOL ? check_bools(key->bytes, key->count) : PS_OK;
}

static ps_status take_type(cursor *from, ps_gguf_type *out)
{
    uint32_t id = 0;
    PS_TRY(take_u32(from, &id));
    if (id >= PS_GGUF_TYPE_COUNT) {
        return ps_fail(PS_INVALID, "unknown value type %u; 0 to %d are known", id,
                       PS_GGUF_TYPE_COUNT - 1);
    }
    *out = (ps_gguf_type)id;
    return PS_OK;
}

static ps_status take_array_head(cursor *from, ps_gguf_key *key)
{
    PS_TRY(take_type(from, &key->type));
    if (key->type == PS_GGUF_ARRAY) {
        return ps_fail(PS_INVALID,
                       "an array of arrays; only arrays of scalars and strings are read");
    }
    PS_TRY(take_u64(from, &key->count));
    if (key->count > PS_GGUF_ITEMS_MAX) {
        return ps_fail(PS_INVALID, "an array of %llu items; at most %llu are allowed",
                       (ull)key->count, (ull)PS_GGUF_ITEMS_MAX);
    }
    return PS_OK;
}

static ps_status take_value(cursor *from, ps_gguf_key *key)
{
    PS_TRY(take_type(from, &key->type));
    key->count = 1;
    key->is_array = key->type == PS_GGUF_ARRAY;
    if (key->is_array) {
        PS_TRY(take_array_head(from, key));
    }
    return take_items(from, key);
}

static ps_status take_key(cursor *from, uint32_t index, ps_arena *arena, ps_gguf_key *key)
{
    ps_status status = take_name(from, PS_GGUF_KEY_BYTES_MAX, arena, &key->name);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "key %u", index);
    }
    status = take_value(from, key);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "key '%.100s'", key->name);
}

static ps_status take_keys(cursor *from, ps_gguf *file)
{
    file->keys = PS_ARENA_NEW(&file->arena, ps_gguf_key, file->key_count);
    file->key_names = PS_ARENA_NEW(&file->arena, ps_gguf_name, file->key_count);
    if (file->keys == NULL || file->key_names == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < file->key_count; i++) {
        PS_TRY(take_key(from, i, &file->arena, &file->keys[i]));
        file->key_names[i] = (ps_gguf_name){.text = file->keys[i].name, .index = i};
    }
    return sort_names(file->key_names, file->key_count, "key");
}

static ps_status read_alignment(const ps_gguf *file, uint64_t *out)
{
    const ps_gguf_key *key = ps_gguf_key_find(file, "general.alignment");
    if (key == NULL) {
        *out = PS_GGUF_ALIGNMENT_DEFAULT;
        return PS_OK;
    }
    if (key->type != PS_GGUF_U32 || key->is_array) {
        return ps_fail(PS_INVALID, "general.alignment is no u32");
    }
    uint32_t value;
    memcpy(&value, key->bytes, sizeof value);
    if (value < PS_GGUF_ALIGNMENT_BYTES_MIN || value > PS_GGUF_ALIGNMENT_BYTES_MAX ||
        (value & (value - 1)) != 0) {
        return ps_fail(PS_INVALID,
                       "general.alignment is %u; a power of two from %u to %u is wanted", value,
                       PS_GGUF_ALIGNMENT_BYTES_MIN, PS_GGUF_ALIGNMENT_BYTES_MAX);
    }
    *out = value;
    return PS_OK;
}

// --- tensors -----------------------------------------------------------------------------------

static ps_status take_dimensions(cursor *from, ps_gguf_tensor *tensor)
{
    PS_TRY(take_u32(from, &tensor->dimension_count));
    if (tensor->dimension_count < 1 || tensor->dimension_count > PS_GGUF_DIMENSIONS_MAX) {
        return ps_fail(PS_INVALID, "%u dimensions; 1 to %u are allowed", tensor->dimension_count,
                       PS_GGUF_DIMENSIONS_MAX);
    }
    for (uint32_t i = 0; i < PS_GGUF_DIMENSIONS_MAX; i++) {
        tensor->dimensions[i] = 1;
        if (i < tensor->dimension_count) {
            PS_TRY(take_u64(from, &tensor->dimensions[i]));
        }
        if (tensor->dimensions[i] == 0) {
            return ps_fail(PS_INVALID, "dimension %u is 0", i);
        }
    }
    return PS_OK;
}

static ps_status take_format(cursor *from, ps_gguf_tensor *tensor, ps_gguf_format *out)
{
    uint32_t id = 0;
    PS_TRY(take_u32(from, &id));
    const ps_gguf_format format = ps_gguf_format_get(id);
    if (format.name == NULL) {
        return ps_fail(PS_UNSUPPORTED, "unknown tensor type %u", id);
    }
    if (format.block_bytes == 0) {
        return ps_fail(PS_UNSUPPORTED,
                       "tensor type %u (%s) has been removed from GGUF; quantise the model anew",
                       id, format.name);
    }
    tensor->type_name = format.name;
    tensor->dtype = ps_dtype_by_gguf_id(id);
    *out = format;
    return PS_OK;
}

static ps_status compute_size(ps_gguf_tensor *tensor, ps_gguf_format format)
{
    const uint64_t *dimensions = tensor->dimensions;
    if (dimensions[0] % format.block_columns != 0) {
        return ps_fail(PS_INVALID, "rows of %llu values; %s needs a multiple of %u",
                       (ull)dimensions[0], format.name, format.block_columns);
    }
    uint64_t bytes = dimensions[0] / format.block_columns;
    bool fits = ps_checked_mul(bytes, format.block_bytes, &bytes);
    // The count of values must fit too: users multiply dimensions, and some do it signed.
    uint64_t values = dimensions[0];
    for (uint32_t i = 1; i < PS_GGUF_DIMENSIONS_MAX && fits; i++) {
        fits = ps_checked_mul(bytes, dimensions[i], &bytes) &&
               ps_checked_mul(values, dimensions[i], &values);
    }
    if (!fits || bytes > INT64_MAX || values > INT64_MAX) {
        return ps_fail(PS_INVALID, "dimensions %llu x %llu x %llu x %llu are too large",
                       (ull)dimensions[0], (ull)dimensions[1], (ull)dimensions[2],
                       (ull)dimensions[3]);
    }
    tensor->size_bytes = bytes;
    return PS_OK;
}

// Offsets count from the start of the data section, whose place is not known yet.
static ps_status take_offset(tensor_reader *reader, const ps_gguf_tensor *tensor, uint64_t *out)
{
    uint64_t offset = 0;
    PS_TRY(take_u64(reader->from, &offset));
    if (offset % reader->alignment != 0) {
        return ps_fail(PS_INVALID, "offset %llu; a multiple of the alignment, %llu, is wanted",
                       (ull)offset, (ull)reader->alignment);
    }
    if (offset < reader->end) {
        return ps_fail(PS_INVALID, "offset %llu, but the tensor before it ends at %llu",
                       (ull)offset, (ull)reader->end);
    }
    uint64_t end = 0;
    if (!ps_checked_add(offset, tensor->size_bytes, &end) || end > INT64_MAX) {
        return ps_fail(PS_INVALID, "offset %llu and %llu bytes are past the end of any file",
                       (ull)offset, (ull)tensor->size_bytes);
    }
    reader->end = end;
    *out = offset;
    return PS_OK;
}

static ps_status take_tensor(tensor_reader *reader, uint32_t index, ps_gguf_tensor *tensor)
{
    ps_gguf_format format = {0};
    ps_status status = take_dimensions(reader->from, tensor);
    if (status == PS_OK) {
        status = take_format(reader->from, tensor, &format);
    }
    if (status == PS_OK) {
        status = compute_size(tensor, format);
    }
    if (status == PS_OK) {
        status = take_offset(reader, tensor, &reader->offsets[index]);
    }
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "tensor '%s'", tensor->name);
}

static ps_status take_tensors(tensor_reader *reader, ps_gguf *file)
{
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        ps_gguf_tensor *tensor = &file->tensors[i];
        const ps_status status = take_name(reader->from, PS_GGUF_NAME_BYTES_MAX, &file->arena,
                                           &tensor->name);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "tensor %u", i);
        }
        PS_TRY(take_tensor(reader, i, tensor));
        file->tensor_names[i] = (ps_gguf_name){.text = tensor->name, .index = i};
    }
    return sort_names(file->tensor_names, file->tensor_count, "tensor");
}

// The first tensor that does not fit is named; since tensors stand in order, the last one's end
// tells how long the whole file should be.
static ps_status place_tensors(const tensor_reader *reader, ps_gguf *file)
{
    const uint64_t start = ps_round_up(file->table_end, reader->alignment);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        ps_gguf_tensor *tensor = &file->tensors[i];
        const uint64_t first = start + reader->offsets[i]; // both below 2^63 (take_offset)
        if (first > file->size_bytes || tensor->size_bytes > file->size_bytes - first) {
            return ps_fail(PS_INVALID,
                           "the file is cut short at byte %llu: tensor '%s' wants bytes %llu to "
                           "%llu; %llu bytes are missing, %llu to the last tensor's end",
                           (ull)file->size_bytes, tensor->name, (ull)first,
                           (ull)(first + tensor->size_bytes),
                           (ull)(first + tensor->size_bytes - file->size_bytes),
                           (ull)(start + reader->end - file->size_bytes));
        }
        tensor->data = file->is_head ? NULL : file->bytes + first;
    }
    return PS_OK;
}

static ps_status read_tensors(cursor *from, ps_gguf *file)
{
    const uint32_t count = file->tensor_count;
    tensor_reader reader = {.from = from, .offsets = PS_ARENA_NEW(&file->arena, uint64_t, count)};
    file->tensors = PS_ARENA_NEW(&file->arena, ps_gguf_tensor, count);
    file->tensor_names = PS_ARENA_NEW(&file->arena, ps_gguf_name, count);
    if (reader.offsets == NULL || file->tensors == NULL || file->tensor_names == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(read_alignment(file, &reader.alignment));
    PS_TRY(take_tensors(&reader, file));
    file->table_end = from->position;
    return place_tensors(&reader, file);
}

// --- the file ----------------------------------------------------------------------------------

// Says what the first bytes are: most often the file is a web page or a pointer to the real one.
static ps_status check_magic(const cursor *from)
{
    static const uint8_t MAGIC[MAGIC_BYTES] = {'G', 'G', 'U', 'F'};
    if (from->size == 0) {
        return ps_fail(PS_INVALID, "is empty; a GGUF file is wanted");
    }
    const size_t shown = from->size < MAGIC_BYTES ? (size_t)from->size : MAGIC_BYTES;
    if (memcmp(from->bytes, MAGIC, shown) == 0) {
        return PS_OK; // cut within the magic: what follows says so
    }
    char text[MAGIC_BYTES + 1] = {0};
    for (size_t i = 0; i < shown; i++) {
        text[i] = from->bytes[i] >= 0x20 && from->bytes[i] < 0x7f ? (char)from->bytes[i] : '.';
    }
    return ps_fail(PS_INVALID, "no GGUF file: it starts with '%s', not with 'GGUF'", text);
}

static ps_status check_version(uint32_t version)
{
    if (version >= VERSION_BYTE_ORDER) {
        return ps_fail(PS_UNSUPPORTED,
                       "a big-endian file (version 0x%08x); only little-endian files are read",
                       version);
    }
    if (version < 2 || version > 3) {
        return ps_fail(PS_UNSUPPORTED, "GGUF version %u; versions 2 and 3 are read", version);
    }
    return PS_OK;
}

static ps_status take_count(cursor *from, const char *what, uint32_t *out)
{
    uint64_t count = 0;
    PS_TRY(take_u64(from, &count));
    if (count > PS_GGUF_ENTRIES_MAX) {
        return ps_fail(PS_INVALID, "%llu %s; at most %llu are allowed", (ull)count, what,
                       (ull)PS_GGUF_ENTRIES_MAX);
    }
    *out = (uint32_t)count;
    return PS_OK;
}

// Both counts are below 2^20, so neither product nor sum can wrap.
static ps_status check_counts(const cursor *from, const ps_gguf *file)
{
    const uint64_t wanted = (uint64_t)file->key_count * KEY_BYTES_MIN +
                            (uint64_t)file->tensor_count * TENSOR_BYTES_MIN;
    const uint64_t left = from->size - from->position;
    if (wanted > left) {
        return ps_fail(PS_INVALID,
                       "%u keys and %u tensors need at least %llu bytes; %llu follow the header",
                       file->key_count, file->tensor_count, (ull)wanted, (ull)left);
    }
    return PS_OK;
}

static ps_status take_header(cursor *from, ps_gguf *file)
{
    const uint8_t *magic = NULL;
    PS_TRY(take(from, MAGIC_BYTES, &magic));
    PS_TRY(take_u32(from, &file->version));
    PS_TRY(check_version(file->version));
    PS_TRY(take_count(from, "tensors", &file->tensor_count));
    PS_TRY(take_count(from, "keys", &file->key_count));
    return check_counts(from, file);
}

ps_status ps_gguf_parse(ps_gguf *file)
{
    cursor from = {.bytes = file->bytes, .size = file->held_bytes};
    PS_TRY(check_magic(&from));
    const ps_status status = take_header(&from, file);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "header");
    }
    PS_TRY(take_keys(&from, file));
    return read_tensors(&from, file);
}
