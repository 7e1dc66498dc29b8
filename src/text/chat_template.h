// text/chat_template.h - a model's chat template: a list of messages in, the prompt's text out.
//
// A chat template is a small program in the Jinja language that comes with a model file
// (tokenizer.chat_template), so it is input like any other: this interpreter knows a subset of the
// language, reaches nothing outside of its variables, and stops at stated limits. Semantics are
// those of Jinja 3.1 in the environment that Hugging Face's `apply_chat_template` makes
// (trim_blocks, lstrip_blocks, sandboxed, no autoescape; tojson, raise_exception and strftime_now
// added; break and continue; {% generation %}). docs: https://jinja.palletsprojects.com/templates
//
// Supported: if, for (else, filter condition, unpacking, loop.*), set (blocks, namespaces), macro,
// call, filter and with blocks, raw, comments, all operators, slices, the filters, tests and
// methods in the tables of jinja_filter.c, jinja_test.c and jinja_method.c. Anything else is
// refused by name and line. Not like Jinja: integers are 64 bits wide, names are ASCII, printing a
// function, range or generator is refused, and `safe` and `escape` give plain strings.
//
// Provenance. Whoever writes a message must not be able to write a special token. So the output
// tells apart what is trusted (the template's own text, and variables of the caller such as
// bos_token) from what came out of messages, tools and documents, whatever the template did with
// it in between. Special tokens are to be looked for in trusted spans only.
#ifndef PS_TEXT_CHAT_TEMPLATE_H
#define PS_TEXT_CHAT_TEMPLATE_H

#include "base/memory.h"

typedef struct ps_chat_template ps_chat_template;

// Parses a template; source is borrowed during the call only. Errors name the line.
//
// PS_INVALID      no UTF-8, or no template; "line 3: 'if' has no 'endif'"
// PS_UNSUPPORTED  "line 12: filter 'batch' is not supported"
// PS_EXHAUSTED    more than 1 MiB, nested too deep, or too much memory (64 MiB) for its tree
PS_MUST_USE ps_status ps_chat_template_create(ps_str source, ps_chat_template **out);
void ps_chat_template_destroy(ps_chat_template *chat_template); // NULL is fine

// A trusted string that the template sees as `name` where the context does not say otherwise.
typedef struct ps_chat_default {
    const char *name;
    ps_str text;
} ps_chat_default;

typedef struct ps_chat_render_options {
    size_t output_bytes; // the longest text that is built at any point
    size_t memory_bytes; // of all values together; nothing is freed before the rendering ends
    uint64_t steps;      // expressions and statements, plus one for every 64 bytes worked on
    uint32_t depth;      // nested blocks, expressions, macro calls and values; at most 1000
    int64_t now;         // what strftime_now takes for the time, seconds since 1970; 0: the clock
    const ps_chat_default *defaults; // [default_count], bos_token say; borrowed during the call
    size_t default_count;
} ps_chat_render_options;

// 16 MiB of output, 256 MiB of memory, 20 million steps, 250 levels, the clock.
ps_chat_render_options ps_chat_render_options_default(void);

typedef struct ps_chat_span {
    size_t begin; // bytes of the text
    size_t end;
    bool trusted;
} ps_chat_span;

typedef struct ps_chat_output {
    ps_buffer text;
    ps_chat_span *spans; // [span_count], not empty, in order, covering the text; trust alternates
    size_t span_count;
} ps_chat_output;

// Renders. `context_json` is one JSON object with the template's variables: messages, tools,
// documents, add_generation_prompt, bos_token, eos_token, and any other. Members other than
// messages, tools and documents are trusted. In a message a "role" that is one of the known roles
// is trusted, because templates spell special tokens with it. options NULL: the defaults.
//
// PS_INVALID      the context is no JSON object; an operation that Python would refuse; or the
//                 template raised: "line 5: the template refuses: Conversation roles must ..."
// PS_UNSUPPORTED  a construct found only when running, such as "line 2: method 'str.zfill' ..."
// PS_EXHAUSTED    a limit; the message says which
//
// On failure *out is untouched. Reads the template only, so threads may share one.
PS_MUST_USE ps_status ps_chat_template_render(const ps_chat_template *chat_template,
                                              ps_str context_json,
                                              const ps_chat_render_options *options,
                                              ps_chat_output *out);
void ps_chat_output_deinit(ps_chat_output *output); // frees and zeroes

#endif
