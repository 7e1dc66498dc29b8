// engine/hot_set.c - a ranking as JSON, and its checks: nothing in the file is taken on trust that
// follows from something else in it.
#include "engine/hot_set.h"

#include "base/hash.h"
#include "base/value.h"
#include "engine/json_fields.h"
#include "experts/route_counts.h"
#include "format/file_map.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 1024u
#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])
#define TEXT_AT(type, member) PS_JSON_TEXT, offsetof(type, member), 0, sizeof(((type *)0)->member)

static const ps_json_field HEAD[] = {
    {"fingerprint", TEXT_AT(ps_hot_set, fingerprint)},
    {"model", TEXT_AT(ps_hot_set, model)},
    {"quantisation", TEXT_AT(ps_hot_set, quantisation)},
    {"layers", PS_JSON_U32, offsetof(ps_hot_set, layers), 1, LAYERS_MAX},
    {"experts", PS_JSON_U32, offsetof(ps_hot_set, experts), 1, PS_EXPERTS_MAX},
    {"top_k", PS_JSON_U32, offsetof(ps_hot_set, top_k), 1, PS_EXPERTS_MAX},
    {"phases", TEXT_AT(ps_hot_set, phases)},
    {"prompt_tokens", PS_JSON_U64, offsetof(ps_hot_set, prompt_tokens), 0, 1e15},
    {"decode_tokens", PS_JSON_U64, offsetof(ps_hot_set, decode_tokens), 0, 1e15},
};

static const ps_json_field SIZE[] = {
    {"experts", PS_JSON_U32, offsetof(ps_hot_set_size, experts), 1, LAYERS_MAX *PS_EXPERTS_MAX},
    {"gib", PS_JSON_F64, offsetof(ps_hot_set_size, gib), 0, 1e9},
    {"coverage", PS_JSON_F64, offsetof(ps_hot_set_size, coverage), 0, 1},
    {"held_out", PS_JSON_F64, offsetof(ps_hot_set_size, held_out), 0, 1},
};

static uint64_t checksum_of(const ps_hot_set *set)
{
    const uint64_t keys = ps_hash(set->keys, set->count * sizeof *set->keys, 0);
    return ps_hash(set->uses, set->count * sizeof *set->uses, keys);
}

// Keys of each layer, [layers], among the hottest `size`.
static void count_layers(const ps_hot_set *set, uint32_t size, uint64_t *per_layer)
{
    memset(per_layer, 0, set->layers * sizeof *per_layer);
    for (uint32_t i = 0; i < size && i < set->count; i++) {
        per_layer[set->keys[i] / set->experts]++;
    }
}

// ---- writing

// Appends a value, which is taken. flags: of json_dumps.
static ps_status print_json(json_t *value, size_t flags, ps_buffer *out)
{
    char *text = value == NULL ? NULL : json_dumps(value, flags);
    json_decref(value);
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a hot set as JSON");
    }
    const ps_status status = ps_buffer_printf(out, "%s", text);
    free(text);
    return status;
}

// NULL: no memory.
static json_t *list_of(const uint64_t *values, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)values[i]));
    }
    if (json_array_size(list) != count) { // where appending has failed
        json_decref(list);
        return NULL;
    }
    return list;
}

static void set_share(json_t *object, const char *key, double value)
{
    if (!isnan(value)) {
        (void)json_object_set_new(object, key, json_real(value));
    }
}

static ps_status print_size(const ps_hot_set *set, const ps_hot_set_size *size, uint64_t *scratch,
                            ps_buffer *out)
{
    count_layers(set, size->experts, scratch);
    json_t *object = json_pack("{s:i, s:o}", "experts", (int)size->experts, "per_layer",
                               list_of(scratch, set->layers));
    set_share(object, "gib", size->gib);
    set_share(object, "coverage", size->coverage);
    set_share(object, "held_out", size->held_out);
    return print_json(object, JSON_REAL_PRECISION(6), out);
}

// The ids and counts of one layer.
static ps_status print_layer(const ps_hot_set *set, uint32_t layer, uint64_t *scratch,
                             ps_buffer *out)
{
    uint64_t *uses = scratch + set->experts;
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->keys[i] / set->experts == layer) {
            scratch[count] = set->keys[i] % set->experts;
            uses[count++] = set->uses[i];
        }
    }
    return print_json(json_pack("{s:i, s:o, s:o}", "layer", (int)layer, "ids",
                                list_of(scratch, count), "counts", list_of(uses, count)),
                      0, out);
}

static ps_status print_all(const ps_hot_set *set, uint64_t *scratch, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "{\"prestage_hot_set\": %u,\n ", PS_HOT_SET_FORMAT));
    PS_TRY(print_json(ps_json_fields_write(HEAD, COUNT_OF(HEAD), set), JSON_EMBED, out));
    for (uint32_t i = 0; i < set->size_count; i++) {
        PS_TRY(ps_buffer_printf(out, "%s\n  ", i == 0 ? ",\n \"sizes\": [" : ","));
        PS_TRY(print_size(set, &set->sizes[i], scratch, out));
    }
    for (uint32_t l = 0; l < set->layers; l++) {
        PS_TRY(ps_buffer_printf(out, "%s\n  ", l == 0 ? "\n ],\n \"ranking\": [" : ","));
        PS_TRY(print_layer(set, l, scratch, out));
    }
    return ps_buffer_printf(out, "\n ],\n \"checksum\": \"%016" PRIx64 "\"}\n", checksum_of(set));
}

ps_status ps_hot_set_print(const ps_hot_set *set, ps_buffer *out)
{
    const size_t before = out->length;
    uint64_t *scratch = calloc(2 * (size_t)set->experts + set->layers, sizeof *scratch);
    ps_status status = scratch == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a hot set")
                                       : print_all(set, scratch, out);
    free(scratch);
    if (status == PS_OK && out->length - before > PS_JSON_FILE_BYTES_MAX) {
        status = ps_fail(PS_EXHAUSTED, "a hot set of %zu bytes; at most %zu can be read",
                         out->length - before, PS_JSON_FILE_BYTES_MAX);
    }
    return status;
}

// ---- reading

// Members that are no plain fields.
typedef struct lists {
    json_t *sizes, *ranking, *checksum;
} lists;

static ps_status read_head(json_t *root, lists *of, ps_hot_set *out)
{
    json_t *format = NULL;
    PS_TRY(ps_json_take(root, "prestage_hot_set", &format));
    const json_int_t number = json_integer_value(format);
    json_decref(format);
    if (number != PS_HOT_SET_FORMAT) {
        return ps_fail(PS_UNSUPPORTED, "it is of another format, this build reads %u",
                       PS_HOT_SET_FORMAT);
    }
    PS_TRY(ps_json_take(root, "sizes", &of->sizes));
    PS_TRY(ps_json_take(root, "ranking", &of->ranking));
    PS_TRY(ps_json_take(root, "checksum", &of->checksum));
    PS_TRY(ps_json_fields_read(root, HEAD, COUNT_OF(HEAD), true, out));
    if (strspn(out->fingerprint, "0123456789abcdef") != sizeof out->fingerprint - 1) {
        return ps_fail(PS_INVALID, "fingerprint: 16 hexadecimal digits would be right");
    }
    if (strcmp(out->phases, "all") != 0 && strcmp(out->phases, "prompt") != 0 &&
        strcmp(out->phases, "decode") != 0) {
        return ps_fail(PS_INVALID, "phases: all, prompt or decode would be right");
    }
    return out->top_k <= out->experts
               ? PS_OK
               : ps_fail(PS_INVALID, "top_k: %u of %u experts", out->top_k, out->experts);
}

// One layer's ids and counts, in order and each id once, behind those before it.
static ps_status read_layer(const json_t *ids, const json_t *counts, uint32_t layer,
                            uint32_t experts, ps_ranked_key *keys, uint32_t *count)
{
    bool is_there[PS_EXPERTS_MAX] = {false};
    const ps_ranked_key *before = NULL;
    const size_t length = json_array_size(ids);
    if (!json_is_array(ids) || !json_is_array(counts) || json_array_size(counts) != length ||
        length > experts) {
        return ps_fail(PS_INVALID, "as many counts as ids, at most %u, would be right", experts);
    }
    for (size_t i = 0; i < length; i++) {
        const json_t *value = json_array_get(ids, i);
        const json_int_t id = json_integer_value(value);
        const json_int_t uses = json_integer_value(json_array_get(counts, i)); // 0: it is none
        if (!json_is_integer(value) || id < 0 || id >= (json_int_t)experts || is_there[id] ||
            uses <= 0) {
            return ps_fail(PS_INVALID,
                           "id %zu: one below %u that does not stand there yet, with a count above "
                           "0, would be right",
                           i, experts);
        }
        const ps_ranked_key key = {(uint64_t)uses, layer * experts + (uint32_t)id};
        if (before != NULL &&
            (before->uses < key.uses || (before->uses == key.uses && before->key > key.key))) {
            return ps_fail(PS_INVALID, "id %zu is hotter than the one before it", i);
        }
        is_there[id] = true;
        keys[*count] = key;
        before = &keys[(*count)++];
    }
    return PS_OK;
}

static ps_status read_layers(const json_t *ranking, const ps_hot_set *set, ps_ranked_key *keys,
                             uint32_t *count)
{
    for (uint32_t l = 0; l < set->layers; l++) {
        json_t *object = json_array_get(ranking, l);
        if (json_object_size(object) != 3 ||
            json_integer_value(json_object_get(object, "layer")) != (json_int_t)l) {
            return ps_fail(PS_INVALID,
                           "an object of layer, ids and counts for each of %u layers "
                           "would be right",
                           set->layers);
        }
        const ps_status status = read_layer(json_object_get(object, "ids"),
                                            json_object_get(object, "counts"), l, set->experts,
                                            keys, count);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "layer %u", l);
        }
    }
    return json_array_size(ranking) == set->layers
               ? PS_OK
               : ps_fail(PS_INVALID, "%zu layers, %u would be right", json_array_size(ranking),
                         set->layers);
}

static ps_status read_ranking(const lists *of, ps_arena *arena, ps_hot_set *out)
{
    size_t most = 0;
    for (size_t l = 0; l < json_array_size(of->ranking); l++) {
        most += json_array_size(json_object_get(json_array_get(of->ranking, l), "ids"));
    }
    ps_ranked_key *keys = PS_ARENA_NEW(arena, ps_ranked_key, most);
    if (keys == NULL) {
        return PS_NO_MEMORY;
    }
    const ps_status status = read_layers(of->ranking, out, keys, &out->count);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "ranking");
    }
    ps_ranked_keys_sort(keys, out->count);
    out->keys = PS_ARENA_NEW(arena, uint32_t, out->count);
    out->uses = PS_ARENA_NEW(arena, uint64_t, out->count);
    if (out->keys == NULL || out->uses == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->keys[i] = keys[i].key;
        out->uses[i] = keys[i].uses;
    }
    char checksum[17];
    const char *its = json_string_value(of->checksum);
    (void)snprintf(checksum, sizeof checksum, "%016" PRIx64, checksum_of(out));
    return its != NULL && strcmp(its, checksum) == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "its checksum is wrong: the ranking has been changed");
}

static ps_status check_per_layer(const ps_hot_set *set, uint32_t size, const json_t *list,
                                 uint64_t *scratch)
{
    count_layers(set, size, scratch);
    bool is_right = json_array_size(list) == set->layers;
    for (uint32_t l = 0; l < set->layers && is_right; l++) {
        const json_t *value = json_array_get(list, l);
        is_right = json_is_integer(value) && json_integer_value(value) == (json_int_t)scratch[l];
    }
    return is_right ? PS_OK
                    : ps_fail(PS_INVALID, "per_layer is not what the %u hottest experts are", size);
}

static ps_status read_size(json_t *object, uint64_t *scratch, ps_hot_set *out)
{
    json_t *per_layer = NULL;
    ps_hot_set_size *size = &out->sizes[out->size_count];
    *size = (ps_hot_set_size){.gib = NAN, .coverage = NAN, .held_out = NAN};
    PS_TRY(ps_json_take(object, "per_layer", &per_layer));
    ps_status status = ps_json_fields_read(object, SIZE, COUNT_OF(SIZE), false, size);
    if (status == PS_OK && size->experts <= (out->size_count == 0 ? 0 : size[-1].experts)) {
        status = ps_fail(PS_INVALID, "numbers of experts that rise would be right");
    }
    if (status == PS_OK) {
        status = check_per_layer(out, size->experts, per_layer, scratch);
    }
    json_decref(per_layer);
    out->size_count += status == PS_OK;
    return status;
}

static ps_status read_sizes(const lists *of, ps_arena *arena, ps_hot_set *out)
{
    const size_t count = json_array_size(of->sizes);
    uint64_t *scratch = PS_ARENA_NEW(arena, uint64_t, out->layers);
    if (scratch == NULL) {
        return PS_NO_MEMORY;
    }
    if (count == 0 || count > PS_HOT_SET_SIZES_MAX) {
        return ps_fail(PS_INVALID, "a list of 1 to %u would be right", PS_HOT_SET_SIZES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        PS_TRY(read_size(json_array_get(of->sizes, i), scratch, out));
    }
    const uint32_t largest = out->sizes[count - 1].experts;
    return out->count <= largest && largest <= out->layers * out->experts
               ? PS_OK
               : ps_fail(PS_INVALID, "a largest set of %u of %u experts; %u are ranked", largest,
                         out->layers * out->experts, out->count);
}

static ps_status read_root(json_t *root, ps_arena *arena, ps_hot_set *out)
{
    ps_hot_set set = {.layers = 0};
    lists of = {NULL, NULL, NULL};
    ps_status status = read_head(root, &of, &set);
    if (status == PS_OK) {
        status = read_ranking(&of, arena, &set);
    }
    if (status == PS_OK) {
        status = read_sizes(&of, arena, &set);
        status = status == PS_OK ? PS_OK : ps_fail_prefix(status, "sizes");
    }
    json_decref(of.sizes);
    json_decref(of.ranking);
    json_decref(of.checksum);
    if (status == PS_OK) {
        *out = set;
    }
    return status;
}

ps_status ps_hot_set_parse(ps_str text, ps_arena *arena, ps_hot_set *out)
{
    json_t *root = NULL;
    PS_TRY(ps_json_text_read(text.data, text.length, &root));
    const ps_status status = read_root(root, arena, out);
    json_decref(root);
    return status;
}

ps_status ps_hot_set_load(const char *path, ps_arena *arena, ps_hot_set *out)
{
    json_t *root = NULL;
    ps_status status = ps_json_file_read(path, "a hot set of prestage experts rank", &root);
    if (status == PS_OK) {
        status = read_root(root, arena, out);
        json_decref(root);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

static ps_status check_model(const ps_hot_set *set, uint64_t fingerprint, uint32_t layers,
                             uint32_t experts)
{
    char here[17];
    (void)snprintf(here, sizeof here, "%016" PRIx64, fingerprint);
    if (strcmp(set->fingerprint, here) != 0) {
        return ps_fail(PS_INVALID,
                       "is a hot set of another model: '%s', fingerprint %s; this one has %s",
                       set->model, set->fingerprint, here);
    }
    return set->layers == layers && set->experts == experts
               ? PS_OK
               : ps_fail(PS_INVALID, "has %u layers of %u experts, the model %u of %u", set->layers,
                         set->experts, layers, experts);
}

ps_status ps_hot_set_read(const char *path, uint64_t fingerprint, uint32_t layers, uint32_t experts,
                          uint32_t count, ps_arena *arena, const uint32_t **out_keys,
                          uint32_t *out_count, ps_hot_set_size *out_size)
{
    ps_hot_set set = {.size_count = 0};
    PS_TRY(ps_hot_set_load(path, arena, &set));
    ps_assert(set.size_count > 0);
    const uint32_t largest = set.sizes[set.size_count - 1].experts;
    ps_status status = check_model(&set, fingerprint, layers, experts);
    if (status == PS_OK && count > largest) {
        status = ps_fail(PS_INVALID,
                         "its largest set has %u experts, %u are wanted; prestage experts rank "
                         "--sizes %u makes one",
                         largest, count, count);
    }
    if (status != PS_OK) {
        return ps_file_name_error(path, status);
    }
    const uint32_t wanted = count == 0 ? largest : count;
    uint32_t size = 0;
    while (set.sizes[size].experts < wanted) {
        size++;
    }
    *out_size = set.sizes[size];
    *out_keys = set.keys;
    *out_count = set.count < wanted ? set.count : wanted;
    return PS_OK;
}
