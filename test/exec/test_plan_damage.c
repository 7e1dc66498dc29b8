// ctest-labels: prop;fault
// ctest-timeout: 300
// ctest-links: -Wl,--wrap=ps_pages_map,--wrap=ps_pages_unmap
// Goal: a plan that is accepted cannot make the workers leave their workspaces, weights and KV,
// whatever its text says. Method: numbers and lines of good plans changed from a printed seed; what
// is still accepted is bound to weights of the shapes that it names and run with 1 to 3 workers.
// All memory has its exact size, so that the address sanitizer sees every step aside.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/plan_weights.h"
#include "gen.h"

#include <string.h>

#define ROUNDS 3000 // of each text
#define ROWS_MAX 5u
#define CONTEXT_MAX 2048u
#define TEAMS 3

ps_status __wrap_ps_pages_map(uint64_t size_bytes, const char *what, void **out);
void __wrap_ps_pages_unmap(void *memory, uint64_t size_bytes);

ps_status __wrap_ps_pages_map(uint64_t size_bytes, const char *what, void **out)
{
    (void)what;
    if (size_bytes > WEIGHT_BYTES_MAX ||
        posix_memalign(out, PS_CACHE_LINE_BYTES, size_bytes) != 0) {
        return PS_NO_MEMORY;
    }
    memset(*out, 0xff, size_bytes);
    return PS_OK;
}

void __wrap_ps_pages_unmap(void *memory, uint64_t size_bytes)
{
    (void)size_bytes;
    free(memory);
}

// Rows at the start of one sequence and at the end of another, all of whose blocks exist.
static ps_step *make_step(const ps_plan *plan, uint32_t blocks)
{
    const uint32_t changes = 2 * plan->kv_group_count * blocks;
    ps_step *step = calloc(1, sizeof *step + ROWS_MAX * sizeof(ps_step_row) +
                                  changes * sizeof(ps_step_block));
    assert_non_null(step);
    step->row_count = plan->rows_max < ROWS_MAX ? plan->rows_max : ROWS_MAX;
    ps_step_row *rows = (ps_step_row *)(void *)(step + 1);
    for (uint32_t i = 0; i < step->row_count; i++) {
        const bool at_end = i % 2 == 0 && i + 1 == step->row_count;
        rows[i] = (ps_step_row){.sequence = at_end,
                                .position = at_end ? plan->context_max - 1 : i,
                                .token = (int32_t)(i % 2 == 0 ? plan->vocabulary - 1 : 0),
                                .wants_logits = i < plan->logits_max};
        rows[i].position = rows[i].position < plan->context_max ? rows[i].position
                                                                : plan->context_max - 1;
        if (!at_end && rows[i].position != i) { // the context ends before
            step->row_count = i;
        }
    }
    ps_step_block *list = (ps_step_block *)(void *)(rows + step->row_count);
    for (uint32_t i = 0; i < changes; i++) {
        const uint32_t sequence = i / (plan->kv_group_count * blocks);
        list[step->block_count++] = (ps_step_block){.sequence = sequence,
                                                    .group = i / blocks % plan->kv_group_count,
                                                    .index = i % blocks,
                                                    .block = sequence * blocks + i % blocks,
                                                    .copy_from = PS_NO_BLOCK};
    }
    return step;
}

static bool run_plan(ps_team *team, const ps_plan *plan, weights *all)
{
    const uint32_t blocks = (uint32_t)ps_divide_up(plan->context_max, PS_KV_BLOCK_TOKENS);
    ps_comm *comm = open_ranks(plan);
    ps_exec_options options = {.sequences = 2, .context_tokens = plan->context_max, .comm = comm};
    for (uint32_t g = 0; g < PS_KV_GROUPS_LIMIT; g++) {
        options.group_blocks[g] = 2 * blocks;
    }
    ps_kernels kernels;
    ps_exec *exec = NULL;
    ps_program *program = NULL;
    assert_int_equal(PS_OK, ps_kernels_select(&kernels));
    assert_int_equal(PS_OK, ps_exec_create(team, &kernels, &options, &exec));
    const bool is_bound = ps_exec_bind(exec, plan, find, all, &program) == PS_OK &&
                          ps_exec_prepare(exec) == PS_OK;
    if (is_bound) {
        ps_step *step = make_step(plan, blocks);
        if (ps_exec_run(exec, program, step) != PS_OK) {
            fail_msg("%s", ps_error_message());
        }
        if (plan->logits_max > 0) { // the caller may change them
            memset(ps_exec_logits(exec, program, 0), 0, plan->vocabulary * sizeof(float));
        }
        free(step);
    }
    ps_exec_destroy(exec);
    assert_int_equal(PS_OK, ps_comm_close(comm));
    return is_bound;
}

// ---- damage

// A random run of digits of the text.
static void find_number(ps_gen *gen, const char *text, size_t *out_begin, size_t *out_end)
{
    size_t at = (size_t)ps_gen_range(gen, 0, (int64_t)strlen(text) - 1);
    while (text[at] != '\0' && !(text[at] >= '0' && text[at] <= '9')) {
        at++;
    }
    size_t end = at;
    while (text[end] >= '0' && text[end] <= '9') {
        end++;
    }
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') {
        at--;
    }
    *out_begin = at;
    *out_end = end;
}

static uint64_t other_number(ps_gen *gen, uint64_t number)
{
    static const uint64_t NUMBERS[] = {0, 1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 64, 100, 256, 4096};
    switch (ps_gen_range(gen, 0, 5)) {
    case 0:
        return number + 1;
    case 1:
        return number > 0 ? number - 1 : 0;
    case 2:
        return number * 2;
    case 3:
        return number / 2;
    case 4:
        return number + 64;
    default:
        return NUMBERS[ps_gen_range(gen, 0, (int64_t)(sizeof NUMBERS / sizeof NUMBERS[0]) - 1)];
    }
}

static void change_number(ps_gen *gen, char *text)
{
    char rest[TEXT_BYTES_MAX];
    size_t begin, end;
    find_number(gen, text, &begin, &end);
    if (begin == end) {
        return;
    }
    (void)snprintf(rest, sizeof rest, "%s", text + end);
    const uint64_t number = strtoull(text + begin, NULL, 10);
    (void)snprintf(text + begin, TEXT_BYTES_MAX - begin, "%" PRIu64 "%s", other_number(gen, number),
                   rest);
}

static void remove_word(ps_gen *gen, char *text)
{
    static const char *const WORDS[] = {" barrier", " private", " split=all", " shared"};
    const char *word = WORDS[ps_gen_range(gen, 0, 3)];
    char *at = strstr(text + ps_gen_range(gen, 0, (int64_t)strlen(text) - 1), word);
    if (at != NULL) {
        memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
    }
}

static bool try_text(ps_team *team, const char *text)
{
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 24);
    ps_plan *plan = NULL;
    bool has_run = false;
    if (ps_plan_parse(ps_str_of(text), &arena, &plan) == PS_OK &&
        plan->context_max <= CONTEXT_MAX) {
        static weights all;
        has_run = make_weights(plan, &all) && run_plan(team, plan, &all);
        free_weights(&all);
    }
    ps_arena_deinit(&arena);
    return has_run;
}

static void test_accepted_plans_stay_inside(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"plan/decode.plan", "plan/prefill.plan",
                                        "exec/fixtures/smollm.plan"};
    static char good[TEXT_BYTES_MAX];
    static char text[TEXT_BYTES_MAX];
    ps_gen gen = ps_gen_start();
    ps_team *teams[TEAMS];
    for (uint32_t i = 0; i < TEAMS; i++) {
        assert_int_equal(PS_OK, ps_team_create(i + 1, &teams[i]));
    }
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        uint32_t count = 0;
        read_text(TEXTS[i], good);
        assert_true(try_text(teams[0], good));
        for (int round = 0; round < ROUNDS; round++) {
            memcpy(text, good, sizeof text);
            for (int64_t left = ps_gen_range(&gen, 1, 3); left > 0; left--) {
                if (ps_gen_range(&gen, 0, 9) == 0) {
                    remove_word(&gen, text);
                } else {
                    change_number(&gen, text);
                }
            }
            count += try_text(teams[round % TEAMS], text);
        }
        printf("  %s: %u of %d ran\n", TEXTS[i], count, ROUNDS);
        assert_true(count > 0 && count < ROUNDS);
    }
    for (uint32_t i = 0; i < TEAMS; i++) {
        ps_team_destroy(teams[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepted_plans_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
