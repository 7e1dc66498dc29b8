// ctest-labels: unit
// Goal: plans that were made for another machine do not run here, and one line says why. Method: a
// plan that runs, with one format or one attribute of such plans put into its text; it parses and
// verifies, and binding refuses it.
#include "exec/plan_weights.h"

static const struct {
    const char *find, *replace, *says;
} FOREIGN[] = {
    {"%down.weight = weight Q5_K", "%down.weight = weight I8", "'down.weight' is I8, which is for"},
    {"%gates.weight = weight Q4_K", "%gates.weight = weight I4", "'gates.weight' is I4, which is"},
    {"%token_embd.weight = weight Q4_K", "%token_embd.weight = weight I4", "'token_embd.weight'"},
    {"kv Q8_0 F16 [128]", "kv I8 [128]", "'kv.1' is I8, which is for planning and simulating"},
    {"kv Q8_0 F16 [128]", "kv F16 I4 [128]", "'kv.1' is I4, which is for planning and simulating"},
    {"{layer=1 site=kv} split", "{layer=1 site=kv context_shards=2} split",
     "step 10: context_shards=2 is for planning and simulating"},
};

static ps_status bind_text(ps_exec *exec, const char *text)
{
    static weights all;
    ps_arena arena;
    ps_plan *plan = NULL;
    ps_program *program = NULL;
    ps_arena_init(&arena, (size_t)1 << 24);
    if (ps_plan_parse(ps_str_of(text), &arena, &plan) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_true(make_weights(plan, &all));
    const ps_status status = ps_exec_bind(exec, plan, find, &all, &program);
    free_weights(&all);
    ps_arena_deinit(&arena);
    return status;
}

static void test_plans_of_other_machines(void **state)
{
    (void)state;
    static char good[TEXT_BYTES_MAX];
    static char text[TEXT_BYTES_MAX];
    const ps_exec_options options = {
        .sequences = 1, .context_tokens = 512, .group_blocks = {16, 16}};
    ps_kernels kernels;
    ps_team *team = NULL;
    ps_exec *exec = NULL;
    assert_int_equal(PS_OK, ps_kernels_select(&kernels));
    assert_int_equal(PS_OK, ps_team_create(1, &team));
    assert_int_equal(PS_OK, ps_exec_create(team, &kernels, &options, &exec));
    read_text("plan/decode.plan", good);
    for (size_t i = 0; i < sizeof FOREIGN / sizeof FOREIGN[0]; i++) {
        const char *at = strstr(good, FOREIGN[i].find);
        assert_non_null(at);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, FOREIGN[i].replace,
                       at + strlen(FOREIGN[i].find));
        assert_int_equal(PS_UNSUPPORTED, bind_text(exec, text));
        if (strstr(ps_error_message(), FOREIGN[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", ps_error_message(), FOREIGN[i].says);
        }
    }
    // As it was, it gets as far as to its ranks.
    assert_int_equal(PS_INVALID, bind_text(exec, good));
    assert_non_null(strstr(ps_error_message(), "this is rank 0 of 1"));
    ps_exec_destroy(exec);
    ps_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_of_other_machines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
