// cli/cmd_tokenize.c - `prestage tokenize`: text to ids, ids to text, chats to both.
#include "cli/commands.h"
#include "cli/json_reader.h"
#include "cli/json_writer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

// ---- output

// A token's bytes between quotes on one line: controls and what is not UTF-8 as \xNN.
static void print_piece(const char *text, size_t length)
{
    (void)putchar('\'');
    for (size_t i = 0; i < length;) {
        uint32_t code_point = 0;
        const size_t bytes = ps_utf8_decode(text + i, length - i, &code_point);
        if (bytes == 0 || code_point < 0x20 || code_point == 0x7f) {
            (void)printf(text[i] == '\n' ? "\\n" : "\\x%02x", (unsigned char)text[i]);
            i++;
        } else {
            (void)printf("%.*s", (int)bytes, text + i);
            i += bytes;
        }
    }
    (void)printf("'\n");
}

static ps_status print_pieces(const ps_model *model, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *text = NULL;
        size_t length = 0;
        PS_TRY(ps_model_token_text(model, ids[i], true, &text, &length));
        (void)printf("%8d  ", ids[i]);
        print_piece(text, length);
        ps_free(text);
    }
    return PS_OK;
}

// text: NULL where the ids were made of a text that the caller has.
static ps_status print_json(const int32_t *ids, size_t count, const ps_str *text)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_ids(&json, "tokens", ids, count);
    if (text != NULL) {
        ps_json_string(&json, "text", *text);
    }
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

// ---- text to ids

static ps_status tokenize_text(const ps_cli_options *options, const ps_model *model, ps_str text)
{
    const unsigned flags = (options->raw ? 0 : PS_TEXT_ADD_SPECIAL) |
                           (options->special ? PS_TEXT_PARSE_SPECIAL : 0);
    int32_t *ids = NULL;
    size_t count = 0;
    PS_TRY(ps_model_tokenize(model, text.data, text.length, flags, &ids, &count));
    const ps_status status = options->json ? print_json(ids, count, NULL)
                                           : print_pieces(model, ids, count);
    ps_free(ids);
    return status;
}

// ---- ids to text

// Numbers with anything of " ,[]" and white space between them, so that JSON arrays are fine.
static ps_status parse_ids(ps_str text, ps_tokens *out)
{
    static const char BETWEEN[] = " \t\r\n,[]";
    if (memchr(text.data, '\0', text.length) != NULL) {
        return ps_fail(PS_INVALID, "token ids: a NUL byte");
    }
    const char *rest = text.data + strspn(text.data, BETWEEN);
    while (*rest != '\0') {
        char word[24];
        const size_t length = strcspn(rest, BETWEEN);
        int64_t id = 0;
        (void)snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 23, rest);
        PS_TRY(ps_cli_parse_integer("token id", word, 0, INT32_MAX, &id));
        PS_TRY(ps_tokens_append(out, (int32_t)id));
        rest += length;
        rest += strspn(rest, BETWEEN);
    }
    return PS_OK;
}

static ps_status detokenize(const ps_cli_options *options, const ps_model *model, ps_str input)
{
    ps_tokens tokens = {0};
    char *text = NULL;
    size_t length = 0;
    ps_status status = parse_ids(input, &tokens);
    if (status == PS_OK) {
        status = ps_model_detokenize(model, tokens.ids, tokens.count, options->special, &text,
                                     &length);
    }
    if (status == PS_OK && options->json) {
        const ps_str string = {text, length};
        status = print_json(tokens.ids, tokens.count, &string);
    } else if (status == PS_OK) {
        (void)fwrite(text, 1, length, stdout);
    }
    ps_free(text);
    ps_tokens_deinit(&tokens);
    return status;
}

// ---- chats

// A file of messages to what a template is given: an array is the messages, an object is taken as
// it is; the answer is asked for unless the object says otherwise.
static ps_status read_chat(const char *path, char **out)
{
    ps_buffer text = {0};
    ps_status status = ps_cli_read_file(path, &text);
    if (status != PS_OK) {
        return status;
    }
    json_error_t error;
    json_t *chat = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &error);
    ps_buffer_deinit(&text);
    if (chat == NULL) {
        return ps_fail(PS_INVALID, "%s: line %d column %d: %s", path, error.line, error.column,
                       error.text);
    }
    if (json_is_array(chat)) {
        chat = json_pack("{s:o}", "messages", chat);
    }
    if (json_object_get(chat, "messages") == NULL) {
        status = ps_fail(PS_INVALID,
                         "%s: an array of messages, or an object with \"messages\", "
                         "would be right",
                         path);
    } else if (json_object_get(chat, "add_generation_prompt") == NULL) {
        (void)json_object_set_new(chat, "add_generation_prompt", json_true());
    }
    char *dumped = status == PS_OK ? json_dumps(chat, JSON_COMPACT) : NULL;
    json_decref(chat);
    if (status == PS_OK && dumped == NULL) {
        status = ps_fail(PS_NO_MEMORY, "no memory for %s", path);
    }
    if (status == PS_OK) {
        *out = dumped;
    }
    return status;
}

static ps_status print_chat(const ps_cli_options *options, const ps_model *model, const char *chat)
{
    char *text = NULL;
    size_t length = 0;
    PS_TRY(ps_model_render_chat(model, chat, &text, &length));
    ps_status status = PS_OK;
    if (options->json) {
        int32_t *ids = NULL;
        size_t count = 0;
        const ps_str string = {text, length};
        status = ps_model_tokenize_chat(model, chat, &ids, &count);
        if (status == PS_OK) {
            status = print_json(ids, count, &string);
        }
        ps_free(ids);
    } else {
        (void)fwrite(text, 1, length, stdout);
    }
    ps_free(text);
    return status;
}

static ps_status render_chat(const ps_cli_options *options, const ps_model *model)
{
    char *chat = NULL;
    PS_TRY(read_chat(options->template_file, &chat));
    const ps_status status = print_chat(options, model, chat);
    free(chat);
    return status;
}

// ---- the command

static ps_status work(const ps_cli_options *options, const ps_model *model)
{
    if (options->template_file != NULL) {
        return render_chat(options, model);
    }
    ps_buffer input = {0};
    ps_status status = ps_cli_read_prompt(options, &input);
    if (status == PS_OK) {
        const ps_str text = {input.data, input.length};
        status = options->detokenize ? detokenize(options, model, text)
                                     : tokenize_text(options, model, text);
    }
    ps_buffer_deinit(&input);
    return status;
}

ps_status ps_cli_tokenize(const ps_cli_options *options)
{
    ps_model *model = NULL;
    if (options->template_file != NULL && (options->detokenize || options->prompt != NULL)) {
        return ps_fail(PS_INVALID, "--template together with -p or --detokenize; one of them would "
                                   "be right");
    }
    PS_TRY(ps_cli_vocabulary_open(options, &model));
    const ps_status status = work(options, model);
    ps_model_close(model);
    return status;
}
