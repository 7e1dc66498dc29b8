// cli/answer.c - prefill, then pick and step until an end.
#include "cli/answer.h"

#include "base/clock.h"
#include "cli/interrupt.h"

#include <stdio.h>
#include <string.h>

// ---- stream

// Bytes at the end of bytes[0..length) that begin a UTF-8 sequence and do not finish it.
static size_t incomplete_bytes(const char *bytes, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const unsigned char byte = (unsigned char)bytes[length - back];
        if ((byte & 0xc0) == 0x80) {
            continue;
        }
        const size_t wanted = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return wanted > back ? back : 0;
    }
    return 0;
}

void ps_cli_stream_write(ps_cli_stream *stream, const char *bytes, size_t length)
{
    // Short pieces join what is held; a sequence is at most 4 bytes long.
    while (stream->held_bytes > 0 && length > 0) {
        if (stream->held_bytes == sizeof stream->held || ((unsigned char)*bytes & 0xc0) != 0x80) {
            ps_cli_stream_end(stream); // it was never going to be complete
            break;
        }
        stream->held[stream->held_bytes++] = *bytes++;
        length--;
        if (incomplete_bytes(stream->held, stream->held_bytes) == 0) {
            ps_cli_stream_end(stream);
        }
    }
    const size_t later = incomplete_bytes(bytes, length);
    if (later > 0) {
        memcpy(stream->held, bytes + length - later, later);
        stream->held_bytes = later;
    }
    (void)fwrite(bytes, 1, length - later, stdout);
    (void)fflush(stdout);
}

void ps_cli_stream_end(ps_cli_stream *stream)
{
    (void)fwrite(stream->held, 1, stream->held_bytes, stdout);
    (void)fflush(stdout);
    stream->held_bytes = 0;
}

// ---- generation

static double seconds_since(uint64_t start_ns)
{
    return (double)(ps_clock_ns() - start_ns) / 1e9;
}

static ps_status take_token(const ps_answer_task *task, int32_t token, ps_cli_stream *stream,
                            ps_answer *out)
{
    char *text = NULL;
    size_t length = 0;
    PS_TRY(ps_tokens_append(&out->tokens, token));
    PS_TRY(ps_model_token_text(task->model, token, false, &text, &length));
    const ps_status status = ps_buffer_append(&out->text, text, length);
    if (task->is_streamed) {
        ps_cli_stream_write(stream, text, length);
    }
    ps_free(text);
    return status;
}

static bool is_limit_reached(const ps_answer_task *task, const ps_answer *answer)
{
    return task->limit >= 0 && answer->tokens.count >= (uint64_t)task->limit;
}

// The prompt has been read and the limit is above 0.
static ps_status decode(const ps_answer_task *task, uint64_t start_ns, ps_cli_stream *stream,
                        ps_answer *out)
{
    ps_session_info info;
    ps_session_get_info(task->session, &info);
    uint64_t decode_start_ns = 0;
    for (;;) {
        int32_t token = 0;
        PS_TRY(ps_sampler_pick(task->sampler, ps_session_logits(task->session, 0), &token));
        if (decode_start_ns == 0) {
            out->first_token_s = seconds_since(start_ns);
            decode_start_ns = ps_clock_ns();
        }
        if (ps_model_is_end(task->model, token)) {
            out->finish_reason = "stop";
            return PS_OK;
        }
        PS_TRY(take_token(task, token, stream, out));
        if (is_limit_reached(task, out) ||
            ps_sequence_length(task->session, task->sequence) >= info.context_tokens) {
            out->finish_reason = "length";
            return PS_OK;
        }
        if (*ps_cli_interrupt_flag()) {
            out->finish_reason = "cancelled";
            return PS_OK;
        }
        const ps_row row = {task->sequence, token, true};
        PS_TRY(ps_session_step(task->session, &row, 1));
        out->decode_steps++;
        out->decode_s = seconds_since(decode_start_ns);
    }
}

ps_status ps_answer_generate(const ps_answer_task *task, ps_answer *out)
{
    const uint64_t start_ns = ps_clock_ns();
    for (size_t i = 0; i < task->prompt_count; i++) {
        ps_sampler_accept(task->sampler, task->prompt[i]);
    }
    out->finish_reason = "length";
    ps_status status = ps_session_prefill(task->session, task->sequence, task->prompt,
                                          task->prompt_count, ps_cli_interrupt_flag());
    out->prompt_s = seconds_since(start_ns);
    if (status == PS_CANCELLED) {
        out->finish_reason = "cancelled";
        return PS_OK;
    }
    if (status == PS_OK && !is_limit_reached(task, out)) {
        ps_cli_stream stream = {0};
        status = decode(task, start_ns, &stream, out);
        ps_cli_stream_end(&stream);
    }
    return status;
}

void ps_answer_deinit(ps_answer *answer)
{
    ps_tokens_deinit(&answer->tokens);
    ps_buffer_deinit(&answer->text);
}
