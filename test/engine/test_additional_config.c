// ctest-labels: unit
// Goal: weight_prefetch_config means what vLLM-Ascend's guide says, and whatever it could only be
// mistaken for is refused with the key's path and what would be right.
// Method: texts with what they are to give; refused ones with parts of their message.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include <prestage/prestage.h>

#include <string.h>

#define CONFIG(inside) "{\"weight_prefetch_config\": {" inside "}}"
#define RATIO(inside) CONFIG("\"prefetch_ratio\": {" inside "}")

static ps_additional_config read_config(const char *text)
{
    ps_additional_config config;
    assert_int_equal(PS_OK, ps_additional_config_read(text, &config));
    return config;
}

static void test_what_is_left_out_has_the_documented_default(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"{}", CONFIG(""), RATIO(""), RATIO("\"attn\": {}")};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        const ps_additional_config config = read_config(TEXTS[i]);
        assert_false(config.is_enabled);
        assert_true(config.ratios.ratio[PS_RATIO_ATTN_QKV] == 1.0);
        assert_true(config.ratios.ratio[PS_RATIO_ATTN_O] == 1.0);
        assert_true(config.ratios.ratio[PS_RATIO_MLP_GATE_UP] == 1.0);
        assert_true(config.ratios.ratio[PS_RATIO_MLP_DOWN] == 1.0);
        assert_true(config.ratios.ratio[PS_RATIO_MOE_GATE_UP] == 0.8);
        assert_int_equal(0, config.ratios.max_bytes);
        assert_int_equal(0, config.ratios.min_tokens[PS_MODULE_MOE]);
        assert_int_equal(UINT32_MAX, config.ratios.max_tokens[PS_MODULE_MLP]);
    }
}

static void test_what_is_said_is_kept(void **state)
{
    (void)state;
    const ps_additional_config config = read_config(
        CONFIG("\"enabled\": true, \"prefetch_ratio\": {\"attn\": {\"qkv\": 0, \"o\": 0.25},"
               "\"moe\": {\"gate_up\": 1}, \"mlp\": {\"down\": 0.5}},"
               "\"max_prefetch_bytes\": 18874368, \"min_tokens\": {\"moe\": 96},"
               "\"max_tokens\": {\"mlp\": 499}"));
    assert_true(config.is_enabled);
    assert_false(config.is_idle);
    assert_true(config.ratios.ratio[PS_RATIO_ATTN_QKV] == 0);
    assert_true(config.ratios.ratio[PS_RATIO_ATTN_O] == 0.25);
    assert_true(config.ratios.ratio[PS_RATIO_MOE_GATE_UP] == 1);
    assert_true(config.ratios.ratio[PS_RATIO_MLP_GATE_UP] == 1);
    assert_true(config.ratios.ratio[PS_RATIO_MLP_DOWN] == 0.5);
    assert_int_equal(18874368, config.ratios.max_bytes);
    assert_int_equal(96, config.ratios.min_tokens[PS_MODULE_MOE]);
    assert_int_equal(499, config.ratios.max_tokens[PS_MODULE_MLP]);
}

static void test_ratios_without_enabled_are_idle(void **state)
{
    (void)state;
    assert_true(read_config(RATIO("\"attn\": {\"qkv\": 1.0}")).is_idle);
    assert_false(read_config(CONFIG("\"enabled\": false, \"prefetch_ratio\": {}")).is_idle);
    assert_false(read_config(CONFIG("")).is_idle);
}

// One refused text, and two parts of its message.
typedef struct refused {
    const char *text, *where, *right;
} refused;

static const refused REFUSED[] = {
    {"", "line 1", ""},
    {"[]", "it", "object"},
    {"{", "line 1", ""},
    {"{} {}", "line 1", ""},
    {"{\"weight_prefetch\": {}}", "weight_prefetch:", "weight_prefetch_config"},
    {"{\"weight_prefetch_config\": true}", "weight_prefetch_config", "object"},
    {"{\"weight_prefetch_config\": {}, \"weight_prefetch_config\": {}}", "line 1", "duplicate"},
    {CONFIG("\"enable\": true"), "weight_prefetch_config.enable:", "enabled would be right"},
    {CONFIG("\"enabled\": \"false\""), "weight_prefetch_config.enabled", "true or false"},
    {CONFIG("\"enabled\": 1"), "weight_prefetch_config.enabled", "true or false"},
    {CONFIG("\"enabled\": null"), "weight_prefetch_config.enabled", "true or false"},
    {CONFIG("\"prefetch_ratios\": {}"),
     "weight_prefetch_config.prefetch_ratios:", "prefetch_ratio "},
    {CONFIG("\"prefetch_ratio\": 0.5"), "weight_prefetch_config.prefetch_ratio", "object"},
    {RATIO("\"attention\": {}"), "prefetch_ratio.attention", "attn would be right"},
    {RATIO("\"attn\": 1.0"), "prefetch_ratio.attn", "object"},
    {RATIO("\"attn\": {\"QKV\": 1.0}"), "prefetch_ratio.attn.QKV", "qkv would be right"},
    {RATIO("\"attn\": {\"gate_up\": 1.0}"), "prefetch_ratio.attn.gate_up", "would be right"},
    {RATIO("\"moe\": {\"down\": 1.0}"), "prefetch_ratio.moe.down", "gate_up would be right"},
    {RATIO("\"mlp\": {\"gateup\": 1.0}"), "prefetch_ratio.mlp.gateup", "gate_up would be right"},
    {RATIO("\"mlp\": {\"down\": 1.5}"), "prefetch_ratio.mlp.down", "from 0 to 1"},
    {RATIO("\"mlp\": {\"down\": -0.1}"), "prefetch_ratio.mlp.down", "from 0 to 1"},
    {RATIO("\"mlp\": {\"down\": \"1.0\"}"), "prefetch_ratio.mlp.down", "from 0 to 1"},
    {RATIO("\"mlp\": {\"down\": true}"), "prefetch_ratio.mlp.down", "from 0 to 1"},
    {RATIO("\"mlp\": {\"down\": NaN}"), "line 1", ""},
    {RATIO("\"mlp\": {\"down\": 1e999}"), "line 1", ""},
    {CONFIG("\"max_prefetch_bytes\": 0"), "max_prefetch_bytes", "whole number from 1"},
    {CONFIG("\"max_prefetch_bytes\": -1"), "max_prefetch_bytes", "whole number from 1"},
    {CONFIG("\"max_prefetch_bytes\": 1.5"), "max_prefetch_bytes", "whole number from 1"},
    {CONFIG("\"max_prefetch_bytes\": \"18M\""), "max_prefetch_bytes", "whole number from 1"},
    {CONFIG("\"min_tokens\": 96"), "weight_prefetch_config.min_tokens", "object"},
    {CONFIG("\"min_tokens\": {\"moe\": -1}"), "min_tokens.moe", "whole number from 0"},
    {CONFIG("\"min_tokens\": {\"mol\": 1}"), "min_tokens.mol", "moe would be right"},
    {CONFIG("\"min_tokens\": {\"moe\": 9}, \"max_tokens\": {\"moe\": 8}"), "min_tokens.moe",
     "above max_tokens.moe"},
};

static void test_what_could_only_be_mistaken_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        const ps_additional_config before = {.ratios.max_bytes = 77};
        ps_additional_config config = before;
        if (ps_additional_config_read(REFUSED[i].text, &config) != PS_INVALID ||
            strstr(ps_error_message(), REFUSED[i].where) == NULL ||
            strstr(ps_error_message(), REFUSED[i].right) == NULL) {
            fail_msg("%s: %s", REFUSED[i].text, ps_error_message());
        }
        assert_int_equal(before.ratios.max_bytes, config.ratios.max_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_out_has_the_documented_default),
        cmocka_unit_test(test_what_is_said_is_kept),
        cmocka_unit_test(test_ratios_without_enabled_are_idle),
        cmocka_unit_test(test_what_could_only_be_mistaken_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
