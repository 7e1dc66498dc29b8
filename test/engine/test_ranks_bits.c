// ctest-labels: golden;prop
// ctest-timeout: 300
// Goal: with a number of ranks, logits are a pure function of a sequence's tokens: not of
// prefetching, of which collectives there are and how they are cut, of threads, links, batches,
// pieces, forks, or the kind of the file.
// Where the best logits alone are asked for, these are there with the bits that all have.
// Method: memcmp of logits between runs that may only differ in time.
#include "engine/rank_jobs.h"
// it includes what cmocka wants first
#include "engine/compile.h"

#include <math.h>

#define PROMPT 150 // pieces of 64 are cut into chunks when fused
#define ANSWER 4

typedef struct way {
    ps_prefetch_policy prefetch;
    ps_comm_schedule schedule;
    uint32_t piece;
    bool is_shared; // steps hold another sequence's rows, too
    bool by_rows;   // sequence_parallel
    bool forks;     // the answer is a fork's, whose parent goes on otherwise
    ps_kv_type kv;
} way;

// The first of each KV type is what the others are compared with.
static const way WAYS[] = {
    {PS_PREFETCH_OFF, PS_COMM_SERIAL, PROMPT, false, false, false, PS_KV_F16},
    {PS_PREFETCH_PRESERVE, PS_COMM_SERIAL, PROMPT, false, false, false, PS_KV_F16},
    {PS_PREFETCH_AUTO, PS_COMM_SERIAL, 7, false, false, false, PS_KV_F16},
    {PS_PREFETCH_OFF, PS_COMM_FUSED, 64, false, false, true, PS_KV_F16},
    {PS_PREFETCH_AUTO, PS_COMM_FUSED, PROMPT, false, false, false, PS_KV_F16},
    {PS_PREFETCH_AUTO, PS_COMM_AUTO, 37, true, false, false, PS_KV_F16},
    {PS_PREFETCH_PRESERVE, PS_COMM_AUTO, 64, true, false, true, PS_KV_F16},
    {PS_PREFETCH_OFF, PS_COMM_SERIAL, PROMPT, false, true, false, PS_KV_F16},
    {PS_PREFETCH_PRESERVE, PS_COMM_AUTO, 5, true, true, true, PS_KV_F16},
    {PS_PREFETCH_AUTO, PS_COMM_AUTO, 64, false, true, false, PS_KV_F16},
    {PS_PREFETCH_OFF, PS_COMM_SERIAL, PROMPT, false, false, false, PS_KV_Q8_0},
    {PS_PREFETCH_PRESERVE, PS_COMM_FUSED, 40, false, false, true, PS_KV_Q8_0},
    {PS_PREFETCH_AUTO, PS_COMM_AUTO, 64, true, false, false, PS_KV_Q8_0},
    {PS_PREFETCH_AUTO, PS_COMM_SERIAL, 31, true, true, true, PS_KV_Q8_0},
};
enum { WAY_COUNT = sizeof WAYS / sizeof WAYS[0], WAYS_OF_F16 = 10 };

typedef struct runs {
    uint32_t vocabulary;
    uint32_t ways; // that are run
    float *logits; // [WAY_COUNT][ANSWER][vocabulary], shared
    float *moved;  // [WAY_COUNT] bytes that prefetches have moved, shared
    float *prompt; // [WAY_COUNT] the same of the KV of prompts' earlier pieces
} runs;

// Rows of `tokens` for the sequence, and in front of them as many of another one.
static void step(ps_session *session, ps_sequence sequence, const int32_t *tokens, uint32_t count,
                 const ps_sequence *other, bool wants_logits)
{
    ps_row rows[2 * PROMPT];
    uint32_t used = 0;
    for (uint32_t i = 0; other != NULL && i < count; i++) {
        rows[used++] = (ps_row){*other, (tokens[i] + 1) % 200, false};
    }
    for (uint32_t i = 0; i < count; i++) {
        rows[used++] = (ps_row){sequence, tokens[i], wants_logits};
    }
    must(ps_session_step(session, rows, used));
}

static void run_way(ps_session *session, const way *w, float *logits, uint32_t vocabulary)
{
    int32_t tokens[PROMPT + ANSWER];
    ps_sequence sequence;
    ps_sequence parent = 0;
    ps_sequence other;
    make_prompt(tokens, PROMPT + ANSWER, 21);
    must(ps_sequence_open(session, &sequence));
    must(ps_sequence_open(session, &other));
    for (uint32_t i = 0; i < PROMPT; i += w->piece) {
        const uint32_t count = PROMPT - i < w->piece ? PROMPT - i : w->piece;
        step(session, sequence, tokens + i, count, w->is_shared ? &other : NULL, false);
    }
    if (w->forks) {
        parent = sequence;
        must(ps_sequence_fork(session, parent, &sequence));
    }
    for (uint32_t i = 0; i < ANSWER; i++) {
        if (w->forks) {
            step(session, parent, tokens + i, 1, NULL, false);
        }
        step(session, sequence, tokens + PROMPT + i, 1, w->is_shared ? &other : NULL, true);
        memcpy(logits + (size_t)i * vocabulary, ps_session_logits(session, 0),
               vocabulary * sizeof *logits);
    }
}

static void note_moved(const ps_session *session, float *out_all, float *out_prompt)
{
    ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
    const uint32_t count = ps_session_prefetch_get(session, sites);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_prompt_kv = sites[i].is_prompt && strcmp(sites[i].site, "kv") == 0;
        *out_all += (float)sites[i].moved_bytes;
        *out_prompt += is_prompt_kv ? (float)sites[i].moved_bytes : 0;
    }
}

static void run_ways(ps_model *model, void *context)
{
    const runs *r = context;
    for (uint32_t i = 0; i < r->ways; i++) {
        const way *w = &WAYS[i];
        ps_session *session = NULL;
        const ps_session_options options = {.context_tokens = 256,
                                            .sequences = 3,
                                            .batch_rows = 2 * PROMPT,
                                            .k_type = w->kv,
                                            .v_type = w->kv,
                                            .prefetch = w->prefetch,
                                            .comm_schedule = w->schedule,
                                            .sequence_parallel = w->by_rows};
        must(ps_session_create(model, &options, &session));
        run_way(session, w, r->logits + (size_t)i * ANSWER * r->vocabulary, r->vocabulary);
        note_moved(session, &r->moved[i], &r->prompt[i]);
        ps_session_destroy(session);
    }
}

typedef struct model_case {
    const char *name;
    uint32_t ranks;
    uint32_t ways;     // WAYS_OF_F16: heads that a q8_0 KV cannot hold
    bool is_one_layer; // no collective stands before its attention
} model_case;

static const model_case CASES[] = {
    {"smollm-q4_1", 2, WAY_COUNT, false}, {"smollm-q4_1", 3, WAY_COUNT, false},
    {"gemma3-q8_0", 2, WAY_COUNT, false}, {"kmix-k", 4, WAY_COUNT, true},
    {"qwen3-f16", 3, WAY_COUNT, false},   {"mixtral-q8_0", 2, WAYS_OF_F16, false},
    {"qwen2-f32", 3, WAYS_OF_F16, false},
};
#define CASE_COUNT (sizeof CASES / sizeof CASES[0])

static void expect_same(const runs *first, const runs *r, const char *what)
{
    const size_t floats = (size_t)ANSWER * r->vocabulary;
    for (uint32_t i = 0; i < r->ways; i++) {
        uint32_t like = 0;
        while (WAYS[like].kv != WAYS[i].kv) {
            like++;
        }
        if (memcmp(first->logits + like * floats, r->logits + i * floats, floats * sizeof(float)) !=
            0) {
            fail_msg("%s: way %u differs", what, i);
        }
        if (WAYS[i].prefetch == PS_PREFETCH_OFF) {
            assert_true(r->moved[i] == 0);
        }
    }
}

static runs new_runs(uint32_t vocabulary, uint32_t ways)
{
    return (runs){.vocabulary = vocabulary,
                  .ways = ways,
                  .logits = shared_floats((size_t)WAY_COUNT * ANSWER * vocabulary),
                  .moved = shared_floats(WAY_COUNT),
                  .prompt = shared_floats(WAY_COUNT)};
}

static void free_runs(runs *r)
{
    free_shared(r->logits, (size_t)WAY_COUNT * ANSWER * r->vocabulary);
    free_shared(r->moved, WAY_COUNT);
    free_shared(r->prompt, WAY_COUNT);
}

static void compile_model(const char *path, char compiled[64], uint32_t *out_vocabulary)
{
    ps_model *model = NULL;
    ps_compile_result result;
    (void)snprintf(compiled, 64, "/tmp/prestage-test-XXXXXX");
    const int descriptor = mkstemp(compiled);
    assert_true(descriptor >= 0);
    (void)close(descriptor);
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = 1}, &model));
    *out_vocabulary = vocabulary_of(model);
    expect_ok(ps_model_compile(model, compiled, &(ps_compile_options){.replace = true}, &result));
    ps_model_close(model);
}

static void test_same_bits(void **state)
{
    const model_case *c = *state;
    char path[512];
    char compiled[64];
    uint32_t vocabulary = 0;
    golden_path(c->name, path);
    compile_model(path, compiled, &vocabulary);
    const struct {
        const char *what;
        rank_job job;
    } jobs[] = {
        {"1 thread", {.path = path, .threads = 1}},
        {"2 threads", {.path = path, .threads = 2}},
        {"a slow link", {.path = path, .threads = 2, .link = "latency=300us,bandwidth=1Gbps"}},
        {"a compiled file", {.path = compiled, .threads = 1}},
    };
    runs first = new_runs(vocabulary, c->ways);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        rank_job job = jobs[i].job;
        runs r = i == 0 ? first : new_runs(vocabulary, c->ways);
        job.ranks = c->ranks;
        rank_job_run(&job, run_ways, &r);
        expect_same(&first, &r, jobs[i].what);
        if (job.link != NULL) { // equal results say nothing of whether anything was prefetched
            assert_true(r.moved[1] > 0);   // auto may find that there is no time
            assert_true(r.prompt[1] == 0); // one piece has none before it
            assert_true(c->is_one_layer || r.prompt[6] > 0);
        }
        if (i > 0) {
            free_runs(&r);
        }
    }
    free_runs(&first);
    (void)unlink(compiled);
}

// ---- the best logits alone

#define BEST_ROWS 20
#define BEST_SILENT 4                          // the row that wants no logits
static const uint32_t BESTS[] = {0, 1, 7, 40}; // 0: all
enum { BEST_COUNT = sizeof BESTS / sizeof BESTS[0] };

typedef struct bests {
    uint32_t vocabulary;
    float *logits; // [BEST_COUNT][BEST_ROWS][vocabulary], shared
    float *sent;   // [BEST_COUNT] of each rank, shared
} bests;

static void run_bests(ps_model *model, void *context)
{
    const bests *b = context;
    int32_t tokens[BEST_ROWS];
    ps_row rows[BEST_ROWS];
    make_prompt(tokens, BEST_ROWS, 33);
    for (uint32_t i = 0; i < BEST_COUNT; i++) {
        ps_session *session = NULL;
        ps_sequence sequence;
        ps_session_info info;
        must(ps_session_create(model,
                               &(ps_session_options){.context_tokens = 64,
                                                     .batch_rows = 32,
                                                     .sequence_parallel = i == 2,
                                                     .best_logits = BESTS[i]},
                               &session));
        ps_session_get_info(session, &info);
        b->sent[i] = (float)info.best_logits;
        must(ps_sequence_open(session, &sequence));
        for (uint32_t r = 0; r < BEST_ROWS; r++) {
            rows[r] = (ps_row){sequence, tokens[r], r != BEST_SILENT};
        }
        // All but one of the first half want logits, then each row alone.
        must(ps_session_step(session, rows, BEST_ROWS / 2));
        for (uint32_t r = 0; r < BEST_ROWS; r++) {
            if (r >= BEST_ROWS / 2) {
                must(ps_session_step(session, &rows[r], 1));
            }
            if (rows[r].wants_logits) {
                memcpy(b->logits + ((size_t)i * BEST_ROWS + r) * b->vocabulary,
                       ps_session_logits(session, r >= BEST_ROWS / 2 ? 0 : r - (r > BEST_SILENT)),
                       b->vocabulary * sizeof(float));
            }
        }
        ps_session_destroy(session);
    }
}

// What is there has the bits of all, and the best are there. Of all: how many others are.
static uint32_t check_best(const float *all, const float *best, uint32_t vocabulary, uint32_t count)
{
    uint32_t others = 0;
    for (uint32_t t = 0; t < vocabulary; t++) {
        uint32_t place = 0;
        for (uint32_t o = 0; o < vocabulary; o++) {
            place += all[o] > all[t] || (all[o] == all[t] && o < t);
        }
        const bool is_there = best[t] != -INFINITY;
        assert_true(is_there || place >= count);
        assert_true(!is_there || memcmp(&all[t], &best[t], sizeof(float)) == 0);
        others += is_there && place >= count;
    }
    return others;
}

static void test_best_logits(void **state)
{
    static const char *const NAMES[] = {"smollm-q8_0", "gemma3-q8_0", "mixtral-q8_0", "kmix-k"};
    char path[512];
    (void)state;
    for (size_t n = 0; n < sizeof NAMES / sizeof NAMES[0]; n++) {
        char compiled[64];
        bests b = {0};
        golden_path(NAMES[n], path);
        compile_model(path, compiled, &b.vocabulary);
        (void)unlink(compiled);
        const size_t floats = (size_t)BEST_ROWS * b.vocabulary;
        const uint32_t ranks = n == 0 ? 3 : 2;
        b.logits = shared_floats(BEST_COUNT * floats);
        b.sent = shared_floats(BEST_COUNT);
        rank_job_run(&(rank_job){.path = path, .ranks = ranks, .threads = 2}, run_bests, &b);
        for (uint32_t i = 0; i < BEST_COUNT; i++) {
            assert_int_equal(BESTS[i], (uint32_t)b.sent[i]);
            for (uint32_t r = 0; r < BEST_ROWS; r++) {
                if (r == BEST_SILENT) {
                    continue;
                }
                const float *row = b.logits + r * (size_t)b.vocabulary;
                const uint32_t count = BESTS[i] == 0 ? b.vocabulary : BESTS[i];
                const uint32_t others = check_best(row, row + i * floats, b.vocabulary, count);
                assert_true(others <= (ranks - 1) * count);
            }
        }
        free_shared(b.logits, BEST_COUNT * floats);
        free_shared(b.sent, BEST_COUNT);
    }
}

// What a rank among simulated ones computes means nothing, but it runs, and its numbers are finite.
static void test_simulated(void **state)
{
    char path[512];
    (void)state;
    golden_path("smollm-q8_0", path);
    for (uint32_t ranks = 1; ranks <= 3; ranks++) {
        runs r = new_runs(272, WAY_COUNT);
        rank_job_run(&(rank_job){.path = path,
                                 .ranks = ranks,
                                 .threads = 2,
                                 .launch = PS_RANKS_SIMULATED,
                                 .link = "latency=20us"},
                     run_ways, &r);
        for (size_t i = 0; i < (size_t)WAY_COUNT * ANSWER * r.vocabulary; i++) {
            assert_true(r.logits[i] - r.logits[i] == 0);
        }
        assert_true(ranks == 1 || r.moved[1] > 0);
        free_runs(&r);
    }
}

int main(void)
{
    static char names[CASE_COUNT][64];
    struct CMUnitTest tests[CASE_COUNT + 2];
    for (size_t i = 0; i < CASE_COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s, %u ranks", CASES[i].name, CASES[i].ranks);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = test_same_bits,
                                       .initial_state = (void *)(uintptr_t)&CASES[i]};
    }
    tests[CASE_COUNT] = (struct CMUnitTest)cmocka_unit_test(test_best_logits);
    tests[CASE_COUNT + 1] = (struct CMUnitTest)cmocka_unit_test(test_simulated);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
