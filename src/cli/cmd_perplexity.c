// cli/cmd_perplexity.c - `prestage perplexity`, counted as llama-perplexity does.
//
// The whole file is tokenized once, with BOS where the model asks for it, and cut into windows of
// c tokens; what is left over at the end is not used. In each window the first token is replaced by
// BOS where the model asks for it, and the logits at positions c/2 .. c-2 are scored against the
// token that follows. Perplexity = exp(mean negative log-likelihood).
#include "base/log.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct measurement {
    ps_session *session;
    ps_row *rows; // [context]
    uint32_t vocabulary, context, batch_rows;
    int32_t bos;       // -1: none
    double nll;        // sum of negative log-likelihoods
    double nll_square; // sum of their squares
    uint64_t scored;   // tokens
} measurement;

// -log softmax(logits)[token]; the sum in double.
static double negative_log_likelihood(const float *logits, uint32_t vocabulary, int32_t token)
{
    float best = logits[0];
    for (uint32_t i = 1; i < vocabulary; i++) {
        best = logits[i] > best ? logits[i] : best;
    }
    double sum = 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        sum += (double)expf(logits[i] - best);
    }
    return log(sum) - (double)(logits[token] - best);
}

static ps_status score_rows(measurement *m, const int32_t *next, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const double nll = negative_log_likelihood(ps_session_logits(m->session, i), m->vocabulary,
                                                   next[i]);
        if (!isfinite(nll)) {
            return ps_fail(PS_NOT_FINITE, "the logits before token %llu are not finite",
                           (unsigned long long)m->scored);
        }
        m->nll += nll;
        m->nll_square += nll * nll;
        m->scored++;
    }
    return PS_OK;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// The last token of a window is scored but never run.
static ps_status measure_window(measurement *m, const int32_t *tokens)
{
    const uint32_t first = m->context / 2;
    const uint32_t end = m->context - 1;
    ps_sequence sequence;
    PS_TRY(ps_sequence_open(m->session, &sequence));
    for (uint32_t i = 0; i < end; i++) {
        m->rows[i] = (ps_row){sequence, tokens[i], i >= first};
    }
    if (m->bos >= 0) {
        m->rows[0].token = m->bos;
    }
    ps_status status = PS_OK;
    uint32_t at = 0;
    while (status == PS_OK && at < end) {
        const uint32_t count = at < first
                                   ? smaller(first - at, m->batch_rows)
                                   : smaller(end - at, smaller(m->batch_rows, PS_LOGITS_MAX));
        status = ps_session_step(m->session, m->rows + at, count);
        if (status == PS_OK && at >= first) {
            status = score_rows(m, tokens + at + 1, count);
        }
        at += count;
    }
    ps_sequence_close(m->session, sequence);
    return status;
}

static double perplexity_of(const measurement *m)
{
    return exp(m->nll / (double)m->scored);
}

static ps_status measure_all(measurement *m, const int32_t *tokens, size_t windows)
{
    const bool has_bar = isatty(STDERR_FILENO);
    for (size_t i = 0; i < windows; i++) {
        if (*ps_cli_interrupt_flag()) {
            return PS_CANCELLED;
        }
        PS_TRY(measure_window(m, tokens + i * m->context));
        ps_log(PS_LOG_INFO, "window %zu of %zu: perplexity %.4f so far", i + 1, windows,
               perplexity_of(m));
        if (has_bar) {
            (void)fprintf(stderr, "\rwindow %zu of %zu: %.4f\033[K", i + 1, windows,
                          perplexity_of(m));
        }
    }
    if (has_bar) {
        (void)fputs("\r\033[K", stderr);
    }
    return PS_OK;
}

// Standard error of the perplexity, by the delta method.
static double uncertainty_of(const measurement *m)
{
    const double count = (double)m->scored;
    const double mean = m->nll / count;
    const double variance = m->nll_square / count - mean * mean;
    return count > 1 && variance > 0 ? exp(mean) * sqrt(variance / (count - 1)) : 0;
}

static ps_status print_result(const ps_cli_options *options, const measurement *m, size_t windows)
{
    if (!options->json) {
        (void)printf("perplexity %.4f +/- %.4f (%llu tokens scored, %zu windows of %u)\n",
                     perplexity_of(m), uncertainty_of(m), (unsigned long long)m->scored, windows,
                     m->context);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_number(&json, "ppl", perplexity_of(m));
    ps_json_number(&json, "uncertainty", uncertainty_of(m));
    ps_json_integer(&json, "tokens", (int64_t)m->scored);
    ps_json_integer(&json, "windows", (int64_t)windows);
    ps_json_integer(&json, "context", m->context);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status measure(const ps_cli_options *options, ps_model *model, const int32_t *tokens,
                         size_t count)
{
    const size_t windows = count / options->context;
    if (windows == 0) {
        return ps_fail(PS_INVALID,
                       "%s has %zu tokens, a window %u; -c %zu or a longer text would be right",
                       options->file, count, options->context, count);
    }
    ps_model_info info;
    ps_model_get_info(model, &info);
    measurement m = {.vocabulary = info.vocabulary, .context = options->context};
    PS_TRY(ps_cli_find_bos(model, &m.bos));
    const ps_session_options session_options = ps_cli_session_options(options);
    PS_TRY(ps_session_create(model, &session_options, &m.session));
    ps_session_info session_info;
    ps_session_get_info(m.session, &session_info);
    m.batch_rows = session_info.batch_rows;
    m.rows = calloc(options->context, sizeof *m.rows);
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    ps_status status = m.rows == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a window")
                                      : measure_all(&m, tokens, windows);
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
    if (status == PS_OK) {
        status = print_result(options, &m, windows);
    }
    free(m.rows);
    ps_session_destroy(m.session);
    return status;
}

static ps_status tokenize_and_measure(const ps_cli_options *options, ps_model *model, ps_str text)
{
    int32_t *tokens = NULL;
    size_t count = 0;
    PS_TRY(ps_model_tokenize(model, text.data, text.length, PS_TEXT_ADD_SPECIAL, &tokens, &count));
    const ps_status status = measure(options, model, tokens, count);
    ps_free(tokens);
    return status;
}

ps_status ps_cli_perplexity(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    if (options->file == NULL) {
        return ps_fail(PS_INVALID, "no text given; a second argument or -f FILE would be right");
    }
    const ps_session_options session = ps_cli_session_options(options);
    ps_buffer text = {0};
    ps_model *model = NULL;
    ps_status status = ps_cli_read_file(options->file, &text);
    if (status == PS_OK) {
        status = ps_cli_model_open(options, options->threads, &session, &model);
    }
    if (status == PS_OK) {
        status = tokenize_and_measure(options, model, (ps_str){text.data, text.length});
    }
    status = ps_cli_model_close(options, model, status);
    ps_buffer_deinit(&text);
    return status;
}
