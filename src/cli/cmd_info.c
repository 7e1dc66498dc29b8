// cli/cmd_info.c - `prestage info`: what a file holds, also one that cannot run here.
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "engine/model_source.h"
#include "format/pst.h"
#include "model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)
#define TYPES_MAX 64
#define REASONS_MAX 4

// Tensors of one type together.
typedef struct type_sum {
    const char *name;
    bool is_supported; // as the type of some tensor
    uint64_t count, size_bytes;
} type_sum;

typedef struct findings {
    const ps_model_file *source;
    const ps_gguf *file; // of source
    const char *path;
    ps_arena *arena;
    ps_str architecture, name, template_text, tokenizer, pre;
    bool has_template;
    uint64_t parameters, tensor_bytes, vocabulary;
    int64_t bos, eos; // -1: none
    type_sum types[TYPES_MAX];
    uint32_t type_count;
    const ps_model_config *config;    // NULL: the hyperparameters cannot be read here
    const char *reasons[REASONS_MAX]; // why it does not run here
    uint32_t reason_count;
} findings;

// ---- gathering

static void sum_tensors(findings *found)
{
    for (uint32_t i = 0; i < ps_gguf_tensor_count(found->file); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(found->file, i);
        uint32_t t = 0;
        while (t < found->type_count && strcmp(found->types[t].name, tensor->type_name) != 0) {
            t++;
        }
        if (t == TYPES_MAX) {
            continue; // GGUF has about forty
        }
        if (t == found->type_count) {
            found->type_count++;
            found->types[t].name = tensor->type_name;
            found->types[t].is_supported = tensor->dtype != PS_DTYPE_COUNT;
        }
        found->types[t].count++;
        found->types[t].size_bytes += tensor->size_bytes;
        found->tensor_bytes += tensor->size_bytes;
        uint64_t values = 1;
        for (uint32_t d = 0; d < tensor->dimension_count; d++) {
            values *= tensor->dimensions[d];
        }
        found->parameters += values;
    }
}

// An absent value, or one of another type, leaves *out as it is.
static void read_string(const findings *found, const char *key, ps_str *out)
{
    if (ps_gguf_get_string(found->file, key, out) != PS_OK) {
        *out = ps_str_of("");
    }
}

static int64_t read_id(const findings *found, const char *key)
{
    uint64_t id = 0;
    return ps_gguf_get_u64(found->file, key, &id) == PS_OK && id <= INT32_MAX ? (int64_t)id : -1;
}

// Keeps the current error message as a reason, once.
static void add_reason(findings *found)
{
    const char *text = ps_error_message();
    for (uint32_t i = 0; i < found->reason_count; i++) {
        if (strcmp(found->reasons[i], text) == 0) {
            return;
        }
    }
    char *copy = ps_arena_strndup(found->arena, text, strlen(text));
    if (copy != NULL && found->reason_count < REASONS_MAX) {
        found->reasons[found->reason_count++] = copy;
    }
}

// Everything that opening the model would check, without its weights.
static void find_reasons(findings *found)
{
    ps_graph graph;
    ps_graph_init(&graph, found->arena);
    if (ps_model_read(found->file, found->arena, &found->config) != PS_OK) {
        found->config = NULL;
        add_reason(found);
    } else if (ps_model_build(found->config, found->file, &graph) != PS_OK) {
        add_reason(found);
    }
    const ps_model_options options = {.vocabulary_only = true};
    ps_model *vocabulary = NULL;
    if (ps_model_open(found->path, &options, &vocabulary) != PS_OK) {
        add_reason(found);
    }
    ps_model_close(vocabulary);
}

static void gather(findings *found)
{
    sum_tensors(found);
    read_string(found, "general.architecture", &found->architecture);
    read_string(found, "general.name", &found->name);
    read_string(found, "tokenizer.ggml.model", &found->tokenizer);
    read_string(found, "tokenizer.ggml.pre", &found->pre);
    found->has_template = ps_gguf_get_string(found->file, "tokenizer.chat_template",
                                             &found->template_text) == PS_OK;
    if (ps_gguf_get_array_count(found->file, "tokenizer.ggml.tokens", &found->vocabulary) !=
        PS_OK) {
        found->vocabulary = 0;
    }
    found->bos = read_id(found, "tokenizer.ggml.bos_token_id");
    found->eos = read_id(found, "tokenizer.ggml.eos_token_id");
    find_reasons(found);
}

// ---- JSON

static void json_config(ps_json_writer *json, const ps_model_config *config)
{
    ps_json_begin(json, "hyperparameters", '{');
    ps_json_integer(json, "layers", config->layers);
    ps_json_integer(json, "dimension", config->dim);
    ps_json_integer(json, "heads", config->layer[0].heads);
    ps_json_integer(json, "kv_heads", config->layer[0].kv_heads);
    ps_json_integer(json, "head_dim", config->layer[0].head_dim);
    ps_json_integer(json, "ffn", config->layer[0].ffn);
    ps_json_integer(json, "experts", config->experts);
    ps_json_integer(json, "experts_used", config->experts_used);
    ps_json_integer(json, "expert_ffn", config->expert_ffn);
    ps_json_integer(json, "context_tokens", config->context_tokens);
    ps_json_begin_inline(json, "windows", '[');
    for (uint32_t g = 1; g < config->kv_group_count; g++) {
        ps_json_integer(json, NULL, config->kv_groups[g].window);
    }
    ps_json_end(json, ']');
    ps_json_end(json, '}');
}

static void json_tensors(ps_json_writer *json, const ps_gguf *file)
{
    ps_json_begin(json, "tensors", '[');
    for (uint32_t i = 0; i < ps_gguf_tensor_count(file); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(file, i);
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "name", tensor->name);
        ps_json_text(json, "type", tensor->type_name);
        ps_json_begin(json, "dimensions", '[');
        for (uint32_t d = 0; d < tensor->dimension_count; d++) {
            ps_json_integer(json, NULL, (int64_t)tensor->dimensions[d]);
        }
        ps_json_end(json, ']');
        ps_json_integer(json, "bytes", (int64_t)tensor->size_bytes);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

static ps_status json_metadata(ps_json_writer *json, const ps_gguf *file)
{
    ps_json_begin(json, "metadata", '{');
    for (uint32_t i = 0; i < ps_gguf_key_count(file); i++) {
        ps_buffer value = {0};
        const ps_status status = ps_gguf_describe(file, i, &value);
        if (status == PS_OK) {
            ps_json_string(json, ps_gguf_key_at(file, i), (ps_str){value.data, value.length});
        }
        ps_buffer_deinit(&value);
        PS_TRY(status);
    }
    ps_json_end(json, '}');
    return PS_OK;
}

static void json_tokenizer(ps_json_writer *json, const findings *found)
{
    ps_json_begin(json, "tokenizer", '{');
    ps_json_string(json, "model", found->tokenizer);
    ps_json_string(json, "pre", found->pre);
    ps_json_integer(json, "tokens", (int64_t)found->vocabulary);
    ps_json_integer(json, "bos", found->bos);
    ps_json_integer(json, "eos", found->eos);
    ps_json_end(json, '}');
    if (found->has_template) {
        ps_json_string(json, "chat_template", found->template_text);
    } else {
        ps_json_text(json, "chat_template", NULL);
    }
}

static void json_summary(ps_json_writer *json, const findings *found)
{
    char fingerprint[20];
    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64,
                   ps_gguf_fingerprint(found->file));
    ps_json_text(json, "path", found->path);
    ps_json_integer(json, "file_bytes", (int64_t)ps_model_file_bytes(found->source));
    ps_json_integer(json, "parts", ps_gguf_part_count(found->file));
    ps_json_bool(json, "compiled", found->source->pst != NULL);
    ps_json_integer(json, "gguf_version", ps_gguf_version(found->file));
    ps_json_text(json, "fingerprint", fingerprint);
    ps_json_string(json, "architecture", found->architecture);
    ps_json_string(json, "name", found->name);
    ps_json_integer(json, "parameters", (int64_t)found->parameters);
    ps_json_bool(json, "supported", found->reason_count == 0);
    ps_json_begin(json, "unsupported", '[');
    for (uint32_t i = 0; i < found->reason_count; i++) {
        ps_json_text(json, NULL, found->reasons[i]);
    }
    ps_json_end(json, ']');
}

static void json_types(ps_json_writer *json, const findings *found)
{
    ps_json_begin(json, "types", '[');
    for (uint32_t i = 0; i < found->type_count; i++) {
        const type_sum *type = &found->types[i];
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "type", type->name);
        ps_json_integer(json, "tensors", (int64_t)type->count);
        ps_json_integer(json, "bytes", (int64_t)type->size_bytes);
        ps_json_bool(json, "supported", type->is_supported);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

static ps_status print_json(const findings *found)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    json_summary(&json, found);
    if (found->config != NULL) {
        json_config(&json, found->config);
    }
    json_tokenizer(&json, found);
    json_types(&json, found);
    json_tensors(&json, found->file);
    const ps_status status = json_metadata(&json, found->file);
    if (status != PS_OK) {
        ps_buffer_deinit(&json.text);
        return status;
    }
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

// ---- text

// At most 60 bytes of what a file says, controls as '?'.
static void print_line(const char *label, ps_str text)
{
    (void)printf("%-14s ", label);
    for (size_t i = 0; i < text.length && i < 60; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        (void)putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
    (void)printf("%s\n", text.length == 0 ? "-" : "");
}

static void print_config(const ps_model_config *config)
{
    const ps_model_layer *layer = &config->layer[0];
    (void)printf("%-14s %u tokens\n", "context", config->context_tokens);
    (void)printf("%-14s %u of %u columns\n", "layers", config->layers, config->dim);
    (void)printf("%-14s %u, %u of keys and values, of %u columns\n", "heads", layer->heads,
                 layer->kv_heads, layer->head_dim);
    if (config->experts > 0) {
        (void)printf("%-14s %u, %u used, of %u columns\n", "experts", config->experts,
                     config->experts_used, config->expert_ffn);
    } else {
        (void)printf("%-14s %u columns\n", "feed-forward", layer->ffn);
    }
    for (uint32_t g = 1; g < config->kv_group_count; g++) {
        (void)printf("%-14s %u tokens\n", "sliding window", config->kv_groups[g].window);
    }
}

static void print_types(const findings *found)
{
    (void)printf("%-14s %u, %.1f MB\n", "tensors", ps_gguf_tensor_count(found->file),
                 (double)found->tensor_bytes / 1e6);
    for (uint32_t i = 0; i < found->type_count; i++) {
        const type_sum *type = &found->types[i];
        (void)printf("  %-12s %6" PRIu64 " %12.1f MB%s\n", type->name, type->count,
                     (double)type->size_bytes / 1e6, type->is_supported ? "" : "   not supported");
    }
}

static void print_all_tensors(const ps_gguf *file)
{
    for (uint32_t i = 0; i < ps_gguf_tensor_count(file); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(file, i);
        (void)printf("  %-40s %-8s [", tensor->name, tensor->type_name);
        for (uint32_t d = 0; d < tensor->dimension_count; d++) {
            (void)printf("%s%" PRIu64, d == 0 ? "" : ", ", tensor->dimensions[d]);
        }
        (void)printf("] %" PRIu64 " bytes\n", tensor->size_bytes);
    }
}

static ps_status print_metadata(const ps_gguf *file)
{
    (void)printf("%-14s %u keys\n", "metadata", ps_gguf_key_count(file));
    for (uint32_t i = 0; i < ps_gguf_key_count(file); i++) {
        ps_buffer value = {0};
        const ps_status status = ps_gguf_describe(file, i, &value);
        if (status == PS_OK) {
            (void)printf("  %s = %s\n", ps_gguf_key_at(file, i), value.data);
        }
        ps_buffer_deinit(&value);
        PS_TRY(status);
    }
    return PS_OK;
}

static ps_status print_text(const ps_cli_options *options, const findings *found)
{
    print_line("file", ps_str_of(found->path));
    char parts[24] = "";
    if (ps_gguf_part_count(found->file) > 1) {
        (void)snprintf(parts, sizeof parts, "%u parts, ", ps_gguf_part_count(found->file));
    }
    (void)printf("%-14s %sGGUF %u, %s%.1f MB, fingerprint %016" PRIx64 "\n", "format",
                 found->source->pst != NULL ? "compiled, from " : "", ps_gguf_version(found->file),
                 parts, (double)ps_model_file_bytes(found->source) / 1e6,
                 ps_gguf_fingerprint(found->file));
    print_line("architecture", found->architecture);
    print_line("name", found->name);
    (void)printf("%-14s %.1f million\n", "parameters", (double)found->parameters / 1e6);
    if (found->config != NULL) {
        print_config(found->config);
    }
    print_line("tokenizer", found->tokenizer);
    print_line("pre-tokenizer", found->pre);
    (void)printf("%-14s %" PRIu64 " tokens, BOS %" PRId64 ", EOS %" PRId64 "\n", "vocabulary",
                 found->vocabulary, found->bos, found->eos);
    (void)printf("%-14s %s\n", "chat template", found->has_template ? "yes" : "no");
    print_types(found);
    if (options->all_tensors) {
        print_all_tensors(found->file);
    }
    if (options->all_metadata) {
        PS_TRY(print_metadata(found->file));
    }
    (void)printf("%-14s %s\n", "runs here", found->reason_count == 0 ? "yes" : "no");
    for (uint32_t i = 0; i < found->reason_count; i++) {
        (void)printf("  %s\n", found->reasons[i]);
    }
    return PS_OK;
}

// ---- architectures

// Parameters, and bytes of all weights in the types that the configuration says.
static ps_status count_weights(const ps_model_source *source, ps_arena *arena, uint64_t *out_values,
                               uint64_t *out_bytes)
{
    ps_graph graph;
    ps_graph_init(&graph, arena);
    PS_TRY(ps_model_build(source->config, NULL, &graph));
    *out_values = 0;
    *out_bytes = 0;
    for (uint32_t i = 0; i < graph.value_count; i++) {
        const ps_value *value = &graph.values[i];
        if (value->kind == PS_VALUE_WEIGHT) {
            const uint64_t rows = (uint64_t)value->rows *
                                  (value->experts == 0 ? 1 : value->experts);
            *out_values += rows * value->columns;
            *out_bytes += rows * ps_dtype_row_bytes(value->dtype, value->columns);
        }
    }
    return PS_OK;
}

static ps_status show_architecture(const ps_cli_options *options, const ps_model_source *source,
                                   ps_arena *arena)
{
    uint64_t parameters, bytes;
    const ps_model_config *config = source->config;
    const char *type = ps_dtype_get(config->weight_dtype)->name;
    PS_TRY(count_weights(source, arena, &parameters, &bytes));
    if (options->json) {
        ps_json_writer json = {0};
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "path", options->model);
        ps_json_text(&json, "architecture", config->architecture);
        ps_json_integer(&json, "parameters", (int64_t)parameters);
        ps_json_text(&json, "weight_type", type);
        ps_json_integer(&json, "weight_bytes", (int64_t)bytes);
        ps_json_bool(&json, "has_weights", false);
        json_config(&json, config);
        ps_json_text(&json, "source", source->note);
        ps_json_end(&json, '}');
        return ps_json_print(&json);
    }
    print_line("model", ps_str_of(options->model));
    print_line("architecture", ps_str_of(config->architecture));
    (void)printf("%-14s %.1f million\n", "parameters", (double)parameters / 1e6);
    print_config(config);
    (void)printf("%-14s none; in %s they would be %.1f MB\n", "weights", type, (double)bytes / 1e6);
    (void)printf("%-14s ", "source");
    for (const char *at = source->note; *at != '\0'; at++) {
        (void)putchar((unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at);
    }
    (void)printf("%s\n", *source->note == '\0' ? "-" : "");
    return PS_OK;
}

static ps_status info_of_architecture(const ps_cli_options *options)
{
    ps_model_source source;
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = ps_model_source_open(options->model, 0, &arena, &source);
    if (status == PS_OK) {
        status = show_architecture(options, &source, &arena);
        ps_model_source_close(&source);
    }
    ps_arena_deinit(&arena);
    return status;
}

ps_status ps_cli_info(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    if (ps_model_source_is_architecture(options->model)) {
        return info_of_architecture(options);
    }
    ps_model_file file;
    PS_TRY(ps_model_source_advise(options->model, ps_model_file_open(options->model, &file)));
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    findings found = {.source = &file, .file = file.gguf, .path = options->model, .arena = &arena};
    gather(&found);
    const ps_status status = options->json ? print_json(&found) : print_text(options, &found);
    ps_arena_deinit(&arena);
    ps_model_file_close(&file);
    return status;
}
