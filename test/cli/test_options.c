// Goal: every option of the table is read and shown; what is read lands where it belongs.
// Method: help texts are searched for all names; command lines with known values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 40

// argv of a command line whose words have single blanks between them.
static ps_status parse(ps_cli_command_bit command, const char *line, ps_cli_options *out)
{
    static char text[512]; // options borrow from it
    char *argv[ARGUMENTS_MAX + 1] = {NULL};
    int argc = 0;
    (void)snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    return ps_cli_options_parse(command, argc, argv, out);
}

static void test_help_shows_every_option(void **state)
{
    (void)state;
    for (unsigned command = PS_CLI_RUN; command <= PS_CLI_COMPILE; command *= 2) {
        char *help = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&help, &length);
        assert_non_null(file);
        ps_cli_options_help((ps_cli_command_bit)command, file);
        (void)fclose(file);
        uint32_t count = 0;
        const char *name;
        while ((name = ps_cli_options_name((ps_cli_command_bit)command, count)) != NULL) {
            char wanted[48];
            (void)snprintf(wanted, sizeof wanted, "-%s", name);
            assert_non_null(strstr(help, wanted));
            count++;
        }
        assert_true(count >= 5);
        free(help);
    }
}

static void test_values_land_where_they_belong(void **state)
{
    (void)state;
    ps_cli_options options;
    assert_int_equal(PS_OK, parse(PS_CLI_RUN,
                                  "run -p text model.gguf -n 5 --ctx-size=64 -t 3 -b 7 -sys hello "
                                  "-s 18446744073709551615 --temp 0.25 --top-k 9 --top-p .5 "
                                  "--min-p 0.125 --repeat-penalty 1.5 --repeat-last-n 11 "
                                  "--presence-penalty -1 --frequency-penalty 2 --logit-bias 4+1.5 "
                                  "--logit-bias 5-inf --ignore-eos --raw --json",
                                  &options));
    assert_string_equal(options.model, "model.gguf");
    assert_string_equal(options.prompt, "text");
    assert_string_equal(options.system, "hello");
    assert_int_equal(options.predict, 5);
    assert_int_equal(options.context, 64);
    assert_int_equal(options.threads, 3);
    assert_int_equal(options.batch, 7);
    assert_true(options.sampler.seed == UINT64_MAX);
    assert_true(options.sampler.temperature == 0.25f && options.sampler.top_k == 9);
    assert_true(options.sampler.top_p == 0.5f && options.sampler.min_p == 0.125f);
    assert_true(options.sampler.repeat_penalty == 1.5f && options.sampler.penalty_last == 11);
    assert_true(options.sampler.presence_penalty == -1.0f);
    assert_true(options.sampler.frequency_penalty == 2.0f);
    assert_int_equal(options.sampler.bias_count, 2);
    assert_ptr_equal(options.sampler.biases, options.biases);
    assert_true(options.biases[0].token == 4 && options.biases[0].bias == 1.5f);
    assert_true(options.biases[1].token == 5 && options.biases[1].bias == -INFINITY);
    assert_true(options.ignore_eos && options.raw && options.json && !options.stats);
    ps_cli_options_deinit(&options);
}

static void test_defaults_are_those_of_the_library(void **state)
{
    (void)state;
    ps_cli_options options;
    const ps_sampler_options defaults = ps_sampler_defaults();
    assert_int_equal(PS_OK, parse(PS_CLI_RUN, "run", &options));
    assert_memory_equal(&options.sampler, &defaults, sizeof defaults);
    assert_int_equal(options.predict, -1);
    assert_int_equal(options.context, 0);
    assert_null(options.model);
    ps_cli_options_deinit(&options);
}

static void test_the_same_letter_means_what_the_command_says(void **state)
{
    (void)state;
    ps_cli_options options;
    assert_int_equal(
        PS_OK, parse(PS_CLI_BENCH, "bench m -p 1,22 -n 0 -pg 3,4 -pg 5,6 -d 7 -t 8,9", &options));
    assert_int_equal(options.prompts.count, 2);
    assert_int_equal(options.prompts.values[1], 22);
    assert_int_equal(options.generations.count, 1);
    assert_int_equal(options.generations.values[0], 0);
    assert_int_equal(options.pair_prompts.count, 2);
    assert_int_equal(options.pair_generations.values[1], 6);
    assert_int_equal(options.depths.values[0], 7);
    assert_int_equal(options.thread_counts.count, 2);
    assert_int_equal(options.format, PS_CLI_MD);
    ps_cli_options_deinit(&options);

    assert_int_equal(PS_OK, parse(PS_CLI_PERPLEXITY, "perplexity -m a b -c 33", &options));
    assert_string_equal(options.model, "a");
    assert_string_equal(options.file, "b");
    assert_int_equal(options.context, 33);
    ps_cli_options_deinit(&options);

    assert_int_equal(PS_INVALID, parse(PS_CLI_INFO, "info m -n 5", &options));
    ps_cli_options_deinit(&options);
}

static void test_lists_have_a_limit(void **state)
{
    (void)state;
    char line[256] = "bench m -p 1";
    ps_cli_options options;
    for (uint32_t i = 1; i < PS_CLI_LIST_MAX; i++) {
        (void)strcat(line, ",1");
    }
    assert_int_equal(PS_OK, parse(PS_CLI_BENCH, line, &options));
    assert_int_equal(options.prompts.count, PS_CLI_LIST_MAX);
    ps_cli_options_deinit(&options);
    (void)strcat(line, ",1");
    assert_int_equal(PS_INVALID, parse(PS_CLI_BENCH, line, &options));
    ps_cli_options_deinit(&options);
}

static void test_times_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        double ns; // 0: refused
    } CASES[] = {{"simulate m --slo 100ms", 1e8}, {"simulate m --slo 0.5s", 5e8},
                 {"simulate m --slo 7us", 7e3},   {"simulate m --slo 1e3ns", 1e3},
                 {"simulate m --slo 100", 0},     {"simulate m --slo 0ms", 0},
                 {"simulate m --slo ms", 0},      {"simulate m --slo 1min", 0},
                 {"simulate m --slo 1e300s", 0},  {"simulate m --slo nanms", 0}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ps_cli_options options;
        const ps_status status = parse(PS_CLI_SIMULATE, CASES[i].line, &options);
        assert_int_equal(CASES[i].ns > 0 ? PS_OK : PS_INVALID, status);
        assert_true(options.simulate.slo_ns == CASES[i].ns);
        ps_cli_options_deinit(&options);
    }
}

static void test_sides(void **state)
{
    (void)state;
    ps_cli_side sides[8];
    uint32_t count = 0;
    assert_int_equal(PS_OK, ps_cli_sides_parse("serial,fused,auto,auto+fused", sides, 8, &count));
    assert_int_equal(4, count);
    assert_true(sides[0].prefetch == PS_PREFETCH_OFF && sides[1].prefetch == PS_PREFETCH_OFF);
    assert_true(sides[2].prefetch == PS_PREFETCH_AUTO && sides[3].prefetch == PS_PREFETCH_AUTO);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(i % 2 == 0 ? PS_COMM_SERIAL : PS_COMM_FUSED, sides[i].comm_schedule);
    }
    assert_string_equal("fused", sides[1].name);
    assert_int_equal(PS_INVALID, ps_cli_sides_parse("fused+serial", sides, 8, &count));
    assert_int_equal(PS_INVALID, ps_cli_sides_parse("off,off", sides, 1, &count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_shows_every_option),
        cmocka_unit_test(test_values_land_where_they_belong),
        cmocka_unit_test(test_defaults_are_those_of_the_library),
        cmocka_unit_test(test_the_same_letter_means_what_the_command_says),
        cmocka_unit_test(test_lists_have_a_limit),
        cmocka_unit_test(test_times_have_units),
        cmocka_unit_test(test_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
