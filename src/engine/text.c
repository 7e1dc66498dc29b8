// engine/text.c - a model's tokenizer and chat template.
#include "engine/model_internal.h"

#include <stdlib.h>
#include <string.h>

// A key that may be absent.
#define OPTIONAL(call)                                                                             \
    do {                                                                                           \
        const ps_status status_ = (call);                                                          \
        if (status_ != PS_OK && status_ != PS_NOT_FOUND) {                                         \
            return status_;                                                                        \
        }                                                                                          \
    } while (0)

static ps_status read_id(const ps_gguf *file, const char *key, uint32_t token_count, int64_t *out)
{
    uint64_t id = 0;
    const ps_status status = ps_gguf_get_u64(file, key, &id);
    if (status == PS_NOT_FOUND) {
        return PS_OK;
    }
    PS_TRY(status);
    if (id >= token_count) {
        return ps_fail(PS_INVALID, "'%s' is token %llu, the vocabulary has %u", key,
                       (unsigned long long)id, token_count);
    }
    *out = (int64_t)id;
    return PS_OK;
}

static ps_status read_flag(const ps_gguf *file, const char *key, int *out)
{
    bool flag = false;
    const ps_status status = ps_gguf_get_bool(file, key, &flag);
    if (status == PS_NOT_FOUND) {
        return PS_OK;
    }
    PS_TRY(status);
    *out = flag;
    return PS_OK;
}

static ps_status read_strings(const ps_gguf *file, ps_arena *arena, const char *key,
                              const ps_str **out, uint32_t *out_count)
{
    uint64_t count = 0;
    PS_TRY(ps_gguf_get_array_count(file, key, &count));
    if (count > INT32_MAX) {
        return ps_fail(PS_INVALID, "'%s' has %llu entries, at most %d would be right", key,
                       (unsigned long long)count, INT32_MAX);
    }
    ps_str *list = PS_ARENA_NEW(arena, ps_str, count);
    if (list == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_gguf_get_string_array(file, key, list, count));
    *out = list;
    *out_count = (uint32_t)count;
    return PS_OK;
}

static ps_status read_vocab(const ps_gguf *file, ps_arena *arena, ps_vocab *vocab)
{
    PS_TRY(ps_gguf_get_string(file, "tokenizer.ggml.model", &vocab->model));
    OPTIONAL(ps_gguf_get_string(file, "tokenizer.ggml.pre", &vocab->pre));
    PS_TRY(read_strings(file, arena, "tokenizer.ggml.tokens", &vocab->tokens, &vocab->token_count));
    OPTIONAL(
        read_strings(file, arena, "tokenizer.ggml.merges", &vocab->merges, &vocab->merge_count));
    float *scores = PS_ARENA_NEW(arena, float, vocab->token_count);
    int32_t *types = PS_ARENA_NEW(arena, int32_t, vocab->token_count);
    if (scores == NULL || types == NULL) {
        return PS_NO_MEMORY;
    }
    ps_status status = ps_gguf_get_f32_array(file, "tokenizer.ggml.scores", scores,
                                             vocab->token_count);
    OPTIONAL(status);
    vocab->scores = status == PS_OK ? scores : NULL;
    status = ps_gguf_get_i32_array(file, "tokenizer.ggml.token_type", types, vocab->token_count);
    OPTIONAL(status);
    vocab->types = status == PS_OK ? types : NULL;

    PS_TRY(read_id(file, "tokenizer.ggml.bos_token_id", vocab->token_count, &vocab->bos));
    PS_TRY(read_id(file, "tokenizer.ggml.eos_token_id", vocab->token_count, &vocab->eos));
    PS_TRY(read_id(file, "tokenizer.ggml.eot_token_id", vocab->token_count, &vocab->eot));
    PS_TRY(read_id(file, "tokenizer.ggml.eom_token_id", vocab->token_count, &vocab->eom));
    PS_TRY(read_id(file, "tokenizer.ggml.unknown_token_id", vocab->token_count, &vocab->unk));
    PS_TRY(read_flag(file, "tokenizer.ggml.add_bos_token", &vocab->add_bos));
    PS_TRY(read_flag(file, "tokenizer.ggml.add_eos_token", &vocab->add_eos));
    return read_flag(file, "tokenizer.ggml.add_space_prefix", &vocab->add_space_prefix);
}

ps_status ps_model_open_tokenizer(ps_model *model)
{
    ps_vocab vocab = {.bos = -1,
                      .eos = -1,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .add_bos = -1,
                      .add_eos = -1,
                      .add_space_prefix = -1};
    PS_TRY(read_vocab(model->file, &model->arena, &vocab));
    return ps_tokenizer_create(&vocab, &model->tokenizer);
}

// ---- text and tokens

static ps_status give_tokens(ps_status status, ps_tokens *tokens, int32_t **out_ids,
                             size_t *out_count)
{
    if (status == PS_OK && tokens->ids == NULL) { // an empty text: still something to free
        tokens->ids = calloc(1, sizeof *tokens->ids);
        status = tokens->ids == NULL ? ps_fail(PS_NO_MEMORY, "no memory for tokens") : PS_OK;
    }
    if (status != PS_OK) {
        ps_tokens_deinit(tokens);
        return status;
    }
    *out_ids = tokens->ids;
    *out_count = tokens->count;
    return PS_OK;
}

static ps_status give_text(ps_status status, ps_buffer *text, char **out_text, size_t *out_length)
{
    if (status == PS_OK) {
        status = ps_buffer_append(text, "", 0); // an empty text: still NUL-terminated
    }
    if (status != PS_OK) {
        ps_buffer_deinit(text);
        return status;
    }
    *out_text = text->data;
    *out_length = text->length;
    return PS_OK;
}

ps_status ps_model_tokenize(const ps_model *model, const char *text, size_t length, unsigned flags,
                            int32_t **out_ids, size_t *out_count)
{
    const unsigned inner = ((flags & PS_TEXT_ADD_SPECIAL) != 0 ? PS_TOKENIZE_ADD_SPECIAL : 0) |
                           ((flags & PS_TEXT_PARSE_SPECIAL) != 0 ? PS_TOKENIZE_PARSE_SPECIAL : 0);
    ps_tokens tokens = {0};
    const ps_status status = ps_tokenizer_encode(model->tokenizer, text, length, inner, &tokens);
    return give_tokens(status, &tokens, out_ids, out_count);
}

ps_status ps_model_detokenize(const ps_model *model, const int32_t *ids, size_t count,
                              bool show_special, char **out_text, size_t *out_length)
{
    ps_buffer text = {0};
    const ps_status status = ps_tokenizer_decode(model->tokenizer, ids, count, show_special, &text);
    return give_text(status, &text, out_text, out_length);
}

ps_status ps_model_token_text(const ps_model *model, int32_t id, bool show_special, char **out_text,
                              size_t *out_length)
{
    ps_buffer text = {0};
    const ps_status status = ps_tokenizer_decode_piece(model->tokenizer, id, show_special, &text);
    return give_text(status, &text, out_text, out_length);
}

bool ps_model_is_end(const ps_model *model, int32_t id)
{
    return ps_tokenizer_is_end(model->tokenizer, id);
}

// ---- chat

static ps_status open_template(const ps_model *model)
{
    if (model->chat_template != NULL) {
        return PS_OK;
    }
    ps_str source;
    const ps_status status = ps_gguf_get_string(model->file, "tokenizer.chat_template", &source);
    if (status == PS_NOT_FOUND) {
        return ps_fail(PS_NOT_FOUND, "the model has no chat template");
    }
    PS_TRY(status);
    // Filled in late; a model's other parts never change.
    return ps_chat_template_create(source, &((ps_model *)(uintptr_t)model)->chat_template);
}

// The text of a special token; nothing for one that the model does not have.
static ps_status special_text(const ps_model *model, int64_t id, ps_buffer *out)
{
    return id < 0 ? PS_OK : ps_tokenizer_decode_piece(model->tokenizer, (int32_t)id, true, out);
}

static ps_status render(const ps_model *model, const char *context_json, ps_chat_output *out)
{
    PS_TRY(open_template(model));
    ps_buffer bos = {0};
    ps_buffer eos = {0};
    ps_status status = special_text(model, ps_tokenizer_bos(model->tokenizer), &bos);
    if (status == PS_OK) {
        status = special_text(model, ps_tokenizer_eos(model->tokenizer), &eos);
    }
    if (status == PS_OK) {
        const ps_chat_default defaults[] = {
            {"bos_token", {bos.length > 0 ? bos.data : "", bos.length}},
            {"eos_token", {eos.length > 0 ? eos.data : "", eos.length}},
        };
        ps_chat_render_options options = ps_chat_render_options_default();
        options.defaults = defaults;
        options.default_count = 2;
        status = ps_chat_template_render(model->chat_template, ps_str_of(context_json), &options,
                                         out);
    }
    ps_buffer_deinit(&bos);
    ps_buffer_deinit(&eos);
    return status;
}

ps_status ps_model_render_chat(const ps_model *model, const char *context_json, char **out_text,
                               size_t *out_length)
{
    ps_chat_output output = {0};
    PS_TRY(render(model, context_json, &output));
    ps_buffer text = output.text;
    output.text = (ps_buffer){0};
    ps_chat_output_deinit(&output);
    return give_text(PS_OK, &text, out_text, out_length);
}

ps_status ps_model_tokenize_chat(const ps_model *model, const char *context_json, int32_t **out_ids,
                                 size_t *out_count)
{
    ps_chat_output output = {0};
    PS_TRY(render(model, context_json, &output));
    ps_text_segment *segments = calloc(output.span_count + 1, sizeof *segments);
    ps_tokens tokens = {0};
    ps_status status = segments == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a chat") : PS_OK;
    if (status == PS_OK) {
        for (size_t i = 0; i < output.span_count; i++) {
            const ps_chat_span *span = &output.spans[i];
            segments[i] = (ps_text_segment){.text = output.text.data + span->begin,
                                            .length = span->end - span->begin,
                                            .parse_special = span->trusted};
        }
        status = ps_tokenizer_encode_segments(model->tokenizer, segments, output.span_count,
                                              PS_TOKENIZE_ADD_SPECIAL, &tokens);
    }
    free(segments);
    ps_chat_output_deinit(&output);
    return give_tokens(status, &tokens, out_ids, out_count);
}
