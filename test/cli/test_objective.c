// Goal: what control steps show, and nothing else, draws a warning of prefetches that do not help.
#include "cli/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static ps_prefetch_site all(uint32_t controls, double lower, double upper)
{
    return (ps_prefetch_site){.site = "all",
                              .window = "all",
                              .controls = controls,
                              .gain = (lower + upper) / 2,
                              .gain_lower = lower,
                              .gain_upper = upper};
}

static bool warns(ps_prefetch_site site)
{
    const ps_prefetch_site sites[] = {{.site = "attn.o", .controls = 64, .gain_lower = -1}, site};
    const ps_prefetch_site *found = ps_cli_prefetch_without_gain(sites, 2);
    assert_true(found == NULL || found == &sites[1]);
    return found != NULL;
}

static void test_it_goes_by_all_sites_in_decoding(void **state)
{
    (void)state;
    assert_true(warns(all(8, -0.02, 0.01)));
    assert_true(warns(all(64, -0.02, -0.01)));
    assert_true(warns(all(64, 0, 0)));
    assert_false(warns(all(64, 0.001, 0.02)));
    assert_false(warns(all(7, -0.02, -0.01))); // not known
    ps_prefetch_site prompt = all(64, -0.02, -0.01);
    prompt.is_prompt = true;
    assert_false(warns(prompt));
    assert_null(ps_cli_prefetch_without_gain(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_goes_by_all_sites_in_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
