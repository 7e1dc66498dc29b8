// cli/bench.h - tests of `prestage bench`, their results, and how those are written.
#ifndef PS_CLI_BENCH_H
#define PS_CLI_BENCH_H

#include "base/rng.h"
#include "cli/bench_ops.h"
#include "cli/commands.h"
#include "cli/json_writer.h"

#define PS_BENCH_SIDES_MAX 8u

typedef struct ps_bench_test {
    uint32_t prompt, generate, depth; // of each sequence
    uint32_t threads;                 // as asked for
    uint32_t sequences;
} ps_bench_test;

typedef struct ps_bench_row {
    ps_bench_test test; // threads as used
    double tokens_per_s[1000];
    double prompt_ms[1000], generate_ms[1000]; // the two parts of a run
    double read_gbs[1000];                     // meanwhile, from memory; with --predict
    double mean, deviation;                    // tokens a second
    double bytes_per_token;                    // read; tests of decoding alone
    double gbs;                                // the same; 0: not known
    double ceiling_gbs;                        // the same, and any with --ops
    uint32_t barriers;                         // of a step of decoding; tests of decoding alone
    uint32_t best_logits;                      // that each rank sends of a row; 0: all
    uint64_t picked;                           // hash of the best token of each step
    double ratio, ratio_lowest, ratio_highest; // to the first policy compared; 0: none
} ps_bench_row;

// One of the policies that are compared, or the only one.
typedef struct ps_bench_side {
    ps_cli_side what;
    ps_session *session;
    ps_sequence sequences[PS_CLI_SEQUENCES_MAX]; // those of the test are open
    ps_bench_row row;
} ps_bench_side;

typedef struct ps_bench {
    const ps_cli_options *options;
    ps_model *model;
    ps_model_info info;
    ps_bench_side sides[PS_BENCH_SIDES_MAX];
    uint32_t side_count;
    ps_bench_side *side; // at hand
    int32_t *tokens;     // random, as many as a sequence of the longest test takes
    // Where experts are streamed, which of them is what speed depends on: each run has new tokens,
    // and each of its sequences begins one later. [tokens, and one a sequence]; NULL: as `tokens`.
    int32_t *fresh;
    uint64_t fresh_count;
    ps_rng rng;
    ps_json_writer json;
    uint32_t printed;
    // Of --predict.
    bool is_new_model;    // nothing has been printed of it
    double *errors;       // [tests, sides]
    uint32_t error_count; // so far
} ps_bench;

// The policy of the side at hand, as it is called.
const char *ps_bench_policy(const ps_bench *b);

double ps_bench_mean(const double *samples, uint32_t count);

// --predict: PS_INVALID where other options ask for something else.
PS_MUST_USE ps_status ps_bench_predict_check(const ps_cli_options *options);

// Before the first of so many rows. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_bench_predict_begin(ps_bench *b, uint32_t rows);

// Predicts the step of the side at hand, which has been measured, and writes both. PS_UNSUPPORTED:
// experts are streamed.
PS_MUST_USE ps_status ps_bench_predict_add(ps_bench *b);

// The errors of all; of JSON, the end of the document.
void ps_bench_predict_end(ps_bench *b);

// --streams N.
PS_MUST_USE ps_status ps_bench_streams(const ps_cli_options *options);

// Writes the row of the side at hand, as the options ask.
void ps_bench_add_result(ps_bench *b);

#endif
