// cli/answer.h - one answer: a prompt goes in, tokens come out, text is streamed.
#ifndef PS_CLI_ANSWER_H
#define PS_CLI_ANSWER_H

#include "base/memory.h"
#include "text/tokenizer.h"

#include <prestage/prestage.h>

// Writes text to stdout as it comes, but never a part of a UTF-8 sequence: an incomplete one is
// held back until the next bytes or the end. Zero-initialise.
typedef struct ps_cli_stream {
    char held[4];
    size_t held_bytes;
} ps_cli_stream;
void ps_cli_stream_write(ps_cli_stream *stream, const char *bytes, size_t length);
void ps_cli_stream_end(ps_cli_stream *stream);

typedef struct ps_answer_task {
    ps_model *model;
    ps_session *session;
    ps_sequence sequence;
    ps_sampler *sampler;
    const int32_t *prompt; // [prompt_count], appended to the sequence
    size_t prompt_count;   // > 0
    int64_t limit;         // tokens at most; -1: until the context is full
    bool is_streamed;      // to stdout
} ps_answer_task;

typedef struct ps_answer {
    ps_tokens tokens; // without the one that ended it
    ps_buffer text;
    const char *finish_reason; // "stop": an end token; "length": limit or context; "cancelled"
    double prompt_s;           // reading the prompt
    double first_token_s;      // from the start to the first token; 0: there is none
    double decode_s;           // all steps after the prompt
    uint32_t decode_steps;
} ps_answer;

// Runs the task. Ctrl-C (cli/interrupt.h, held by the caller) ends it early with PS_OK and
// "cancelled". After it, the sequence holds the prompt and all tokens but perhaps the last.
// out: zero-initialised, deinitialised by the caller either way.
//
// PS_EXHAUSTED  the prompt does not fit the context
// PS_NOT_FINITE, PS_NO_MEMORY
PS_MUST_USE ps_status ps_answer_generate(const ps_answer_task *task, ps_answer *out);
void ps_answer_deinit(ps_answer *answer);

#endif
