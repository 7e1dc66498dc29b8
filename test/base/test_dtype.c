// ctest-labels: unit
// Goal: formats that only plans have are as large as their bits say, and in no file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/layout.h"
#include "base/value.h"

static void test_planned_formats_have_their_bits(void **state)
{
    (void)state;
    static const struct {
        ps_dtype dtype;
        uint64_t bits;
    } FORMATS[] = {{PS_DTYPE_I4, 4}, {PS_DTYPE_I8, 8}, {PS_DTYPE_F16, 16}, {PS_DTYPE_BF16, 16}};
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
        const ps_dtype dtype = FORMATS[i].dtype;
        const ps_value kv = {.dtype = dtype, .v_dtype = dtype, .columns = 1024};
        assert_int_equal(FORMATS[i].bits * 4096 / 8, ps_dtype_row_bytes(dtype, 4096));
        assert_int_equal(FORMATS[i].bits * 14336 * 4096 / 8, ps_packed_bytes(dtype, 14336, 4096));
        assert_int_equal(FORMATS[i].bits * 2 * 1024 / 8, ps_value_kv_bytes(&kv));
        assert_int_equal(FORMATS[i].bits < 16, ps_dtype_is_planned_only(dtype));
        assert_int_equal(FORMATS[i].bits < 16, ps_dtype_is_quantised(dtype));
    }
}

static void test_no_file_holds_them(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < 256; id++) {
        const ps_dtype dtype = ps_dtype_by_gguf_id(id);
        assert_true(dtype == PS_DTYPE_COUNT || !ps_dtype_is_planned_only(dtype));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned_formats_have_their_bits),
        cmocka_unit_test(test_no_file_holds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
