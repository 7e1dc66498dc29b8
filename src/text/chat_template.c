// text/chat_template.c - a model's chat template.
#include "text/chat_template.h"

#include "text/jinja_json.h"
#include "text/jinja_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOURCE_BYTES_MAX ((size_t)1 << 20)
#define PARSE_MEMORY_BYTES ((size_t)64 << 20)
#define PARSE_DEPTH_MAX 250
#define RENDER_DEPTH_MAX 1000 // what a stack of 8 MiB bears, sanitizers included

struct ps_chat_template {
    ps_arena arena; // the tree and the text it borrows
    ps_jinja_node *body;
};

ps_status ps_chat_template_create(ps_str source, ps_chat_template **out)
{
    if (source.length > SOURCE_BYTES_MAX) {
        return ps_fail(PS_EXHAUSTED, "a chat template has at most %zu bytes, this one has %zu",
                       SOURCE_BYTES_MAX, source.length);
    }
    ps_chat_template *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return ps_fail(PS_NO_MEMORY, "out of memory for a chat template");
    }
    ps_arena_init(&made->arena, PARSE_MEMORY_BYTES);
    ps_jinja_budget budget = {
        .arena = &made->arena, .steps_max = UINT64_MAX, .depth_max = PARSE_DEPTH_MAX};
    const ps_status status = ps_jinja_parse(&budget, source, &made->body);
    if (status != PS_OK) {
        ps_chat_template_destroy(made);
        return status;
    }
    *out = made;
    return PS_OK;
}

void ps_chat_template_destroy(ps_chat_template *chat_template)
{
    if (chat_template != NULL) {
        ps_arena_deinit(&chat_template->arena);
        free(chat_template);
    }
}

ps_chat_render_options ps_chat_render_options_default(void)
{
    return (ps_chat_render_options){.output_bytes = (size_t)16 << 20,
                                    .memory_bytes = (size_t)256 << 20,
                                    .steps = 20 * 1000 * 1000,
                                    .depth = 250};
}

// Where the run of equal marks that begins at `begin` ends.
static size_t span_end(const ps_jinja_text *text, size_t begin)
{
    const uint8_t *other = memchr(text->marks + begin, text->marks[begin] == 0 ? 1 : 0,
                                  text->length - begin);
    return other == NULL ? text->length : (size_t)(other - text->marks);
}

static size_t count_spans(const ps_jinja_text *text)
{
    size_t count = 0;
    for (size_t at = 0; at < text->length; at = span_end(text, at)) {
        count++;
    }
    return count;
}

static ps_status make_output(const ps_jinja_text *text, ps_chat_output *out)
{
    ps_chat_output made = {0};
    const size_t count = count_spans(text);
    PS_TRY(ps_buffer_append(&made.text, text->data, text->length));
    made.spans = calloc(count == 0 ? 1 : count, sizeof *made.spans);
    if (made.spans == NULL) {
        ps_buffer_deinit(&made.text);
        return ps_fail(PS_NO_MEMORY, "out of memory for %zu spans of a prompt", count);
    }
    for (size_t at = 0; at < text->length;) {
        const size_t end = span_end(text, at);
        made.spans[made.span_count++] = (ps_chat_span){
            .begin = at, .end = end, .trusted = text->marks[at] != 0};
        at = end;
    }
    *out = made;
    return PS_OK;
}

static ps_status bind(ps_jinja_run *run, ps_str name, ps_jinja_value value)
{
    ps_jinja_binding *binding = NULL;
    PS_JINJA_NEW(&run->budget, binding, 1);
    *binding = (ps_jinja_binding){.name = name, .value = value, .next = run->scope->bindings};
    run->scope->bindings = binding;
    return PS_OK;
}

// Before the context: of equal names the newest binding is found.
static ps_status bind_defaults(ps_jinja_run *run, const ps_chat_render_options *options)
{
    for (size_t i = 0; i < options->default_count; i++) {
        const ps_chat_default *item = &options->defaults[i];
        PS_TRY(bind(run, ps_str_of(item->name),
                    ps_jinja_of_string((ps_jinja_string){
                        .data = item->text.data, .length = item->text.length, .trusted = true})));
    }
    return PS_OK;
}

static ps_status bind_context(ps_jinja_run *run, ps_str context_json)
{
    ps_jinja_value context = {0};
    run->budget.line = 1;
    PS_TRY(ps_jinja_read_context(&run->budget, context_json, &context));
    for (size_t i = 0; i < context.as.dict->count; i++) {
        // The names differ, so nothing has to be looked for.
        const ps_jinja_entry *entry = &context.as.dict->entries[i];
        PS_TRY(bind(run, ps_jinja_bytes(entry->key.as.string), entry->value));
    }
    return PS_OK;
}

static ps_status render(ps_jinja_run *run, const ps_chat_template *chat_template,
                        ps_str context_json, const ps_chat_render_options *options,
                        ps_chat_output *out)
{
    PS_JINJA_NEW(&run->budget, run->output, 1);
    PS_TRY(ps_jinja_new_scope(run, NULL, &run->scope));
    PS_TRY(bind_defaults(run, options));
    PS_TRY(bind_context(run, context_json));
    PS_TRY(ps_jinja_run_block(run, chat_template->body));
    return make_output(run->output, out);
}

ps_status ps_chat_template_render(const ps_chat_template *chat_template, ps_str context_json,
                                  const ps_chat_render_options *options, ps_chat_output *out)
{
    const ps_chat_render_options used = options == NULL ? ps_chat_render_options_default()
                                                        : *options;
    if (used.depth > RENDER_DEPTH_MAX) {
        return ps_fail(PS_INVALID, "a template may nest at most %d levels, not %u",
                       RENDER_DEPTH_MAX, used.depth);
    }
    ps_arena arena;
    ps_arena_init(&arena, used.memory_bytes);
    ps_jinja_run run = {.budget = {.arena = &arena,
                                   .steps_max = used.steps,
                                   .depth_max = used.depth,
                                   .output_bytes = used.output_bytes},
                        .now = used.now != 0 ? used.now : (int64_t)time(NULL)};
    const ps_status status = render(&run, chat_template, context_json, &used, out);
    ps_arena_deinit(&arena);
    return status;
}

void ps_chat_output_deinit(ps_chat_output *output)
{
    ps_buffer_deinit(&output->text);
    free(output->spans);
    *output = (ps_chat_output){0};
}
