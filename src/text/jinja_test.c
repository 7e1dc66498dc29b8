// text/jinja_test.c - the tests: `value is name`.
#include "text/jinja_run.h"
#include "text/jinja_unicode.h"

static ps_status answer(bool holds, ps_jinja_value *out)
{
    *out = ps_jinja_of_boolean(holds);
    return PS_OK;
}

#define KIND_TEST(name, condition)                                                                 \
    static ps_status test_##name(ps_jinja_run *run, const ps_jinja_value *slots,                   \
                                 ps_jinja_value *out)                                              \
    {                                                                                              \
        const ps_jinja_value *value = &slots[0];                                                   \
        return answer((condition), out);                                                           \
    }

static bool is_plain_boolean(const ps_jinja_value *value, bool wanted)
{
    return value->kind == PS_JINJA_BOOLEAN && value->as.boolean == wanted;
}

static bool is_iterable(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_STRING || value->kind == PS_JINJA_LIST ||
           value->kind == PS_JINJA_DICT || value->kind == PS_JINJA_UNDEFINED ||
           value->kind == PS_JINJA_LOOP;
}

// What has a length and subscripts in Python, undefined included.
static bool is_sequence(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_STRING || value->kind == PS_JINJA_DICT ||
           value->kind == PS_JINJA_UNDEFINED ||
           (value->kind == PS_JINJA_LIST && value->as.list->flavour <= PS_JINJA_RANGE);
}

static bool is_callable(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_MACRO || value->kind == PS_JINJA_FUNCTION ||
           value->kind == PS_JINJA_METHOD || value->kind == PS_JINJA_UNDEFINED ||
           value->kind == PS_JINJA_LOOP;
}

KIND_TEST(defined, value->kind != PS_JINJA_UNDEFINED)
KIND_TEST(undefined, value->kind == PS_JINJA_UNDEFINED)
KIND_TEST(none, value->kind == PS_JINJA_NONE)
KIND_TEST(boolean, value->kind == PS_JINJA_BOOLEAN)
KIND_TEST(true, is_plain_boolean(value, true))
KIND_TEST(false, is_plain_boolean(value, false))
KIND_TEST(integer, value->kind == PS_JINJA_INTEGER)
KIND_TEST(float, value->kind == PS_JINJA_REAL)
KIND_TEST(number, value->kind >= PS_JINJA_BOOLEAN && value->kind <= PS_JINJA_REAL)
KIND_TEST(string, value->kind == PS_JINJA_STRING)
KIND_TEST(mapping, value->kind == PS_JINJA_DICT)
KIND_TEST(iterable, is_iterable(value))
KIND_TEST(sequence, is_sequence(value))
KIND_TEST(callable, is_callable(value))

static ps_status remainder_is(ps_jinja_run *run, const ps_jinja_value *value, int64_t divisor,
                              int64_t wanted, ps_jinja_value *out)
{
    const ps_jinja_value by = ps_jinja_of_integer(divisor);
    const ps_jinja_value expected = ps_jinja_of_integer(wanted);
    ps_jinja_value rest = {0};
    bool equal = false;
    PS_TRY(ps_jinja_apply_binary(&run->budget, PS_JINJA_MODULO, value, &by, &rest));
    PS_TRY(ps_jinja_equal(&run->budget, &rest, &expected, &equal));
    return answer(equal, out);
}

static ps_status test_odd(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return remainder_is(run, &slots[0], 2, 1, out);
}

static ps_status test_even(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return remainder_is(run, &slots[0], 2, 0, out);
}

static ps_status test_divisibleby(ps_jinja_run *run, const ps_jinja_value *slots,
                                  ps_jinja_value *out)
{
    int64_t divisor = 0;
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[1], 0, &divisor));
    return remainder_is(run, &slots[0], divisor, 0, out);
}

// Python's islower and isupper: something has that case, and nothing has the other.
static ps_status case_is(ps_jinja_run *run, const ps_jinja_value *value, bool upper,
                         ps_jinja_value *out)
{
    ps_jinja_string string = {0};
    bool some = false;
    bool all = true;
    PS_TRY(ps_jinja_to_string(&run->budget, value, &string));
    PS_TRY(ps_jinja_spend(&run->budget, string.length / 8));
    for (size_t at = 0; at < string.length;) {
        size_t bytes = 0;
        const uint32_t code = ps_jinja_decode(string.data + at, string.length - at, &bytes);
        const bool goes_up = ps_jinja_upper(code) != code;
        const bool goes_down = ps_jinja_lower(code) != code;
        some = some || (upper ? goes_down : goes_up);
        all = all && !(upper ? goes_up : goes_down);
        at += bytes;
    }
    return answer(some && all, out);
}

static ps_status test_lower(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return case_is(run, &slots[0], false, out);
}

static ps_status test_upper(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return case_is(run, &slots[0], true, out);
}

static ps_status test_in(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    bool holds = false;
    PS_TRY(ps_jinja_contains(&run->budget, &slots[1], &slots[0], &holds));
    return answer(holds, out);
}

static ps_status test_eq(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    bool equal = false;
    PS_TRY(ps_jinja_equal(&run->budget, &slots[0], &slots[1], &equal));
    return answer(equal, out);
}

static ps_status test_ne(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    bool equal = false;
    PS_TRY(ps_jinja_equal(&run->budget, &slots[0], &slots[1], &equal));
    return answer(!equal, out);
}

static ps_status order(ps_jinja_run *run, const ps_jinja_value *slots, int *out_order)
{
    PS_TRY(ps_jinja_want_defined(&run->budget, &slots[0]));
    PS_TRY(ps_jinja_want_defined(&run->budget, &slots[1]));
    return ps_jinja_compare(&run->budget, &slots[0], &slots[1], out_order);
}

static ps_status test_lt(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int relation = 0;
    PS_TRY(order(run, slots, &relation));
    return answer(relation == -1, out);
}

static ps_status test_le(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int relation = 0;
    PS_TRY(order(run, slots, &relation));
    return answer(relation == -1 || relation == 0, out);
}

static ps_status test_gt(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int relation = 0;
    PS_TRY(order(run, slots, &relation));
    return answer(relation == 1, out);
}

static ps_status test_ge(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int relation = 0;
    PS_TRY(order(run, slots, &relation));
    return answer(relation == 1 || relation == 0, out);
}

static const ps_jinja_builtin tests[] = {
    {"!=", "other", test_ne, NULL},
    {"<", "other", test_lt, NULL},
    {"<=", "other", test_le, NULL},
    {"==", "other", test_eq, NULL},
    {">", "other", test_gt, NULL},
    {">=", "other", test_ge, NULL},
    {"boolean", "", test_boolean, NULL},
    {"callable", "", test_callable, NULL},
    {"defined", "", test_defined, NULL},
    {"divisibleby", "num", test_divisibleby, NULL},
    {"eq", "other", test_eq, NULL},
    {"equalto", "other", test_eq, NULL},
    {"even", "", test_even, NULL},
    {"false", "", test_false, NULL},
    {"float", "", test_float, NULL},
    {"ge", "other", test_ge, NULL},
    {"greaterthan", "other", test_gt, NULL},
    {"gt", "other", test_gt, NULL},
    {"in", "seq", test_in, NULL},
    {"integer", "", test_integer, NULL},
    {"iterable", "", test_iterable, NULL},
    {"le", "other", test_le, NULL},
    {"lessthan", "other", test_lt, NULL},
    {"lower", "", test_lower, NULL},
    {"lt", "other", test_lt, NULL},
    {"mapping", "", test_mapping, NULL},
    {"ne", "other", test_ne, NULL},
    {"none", "", test_none, NULL},
    {"number", "", test_number, NULL},
    {"odd", "", test_odd, NULL},
    {"sequence", "", test_sequence, NULL},
    {"string", "", test_string, NULL},
    {"true", "", test_true, NULL},
    {"undefined", "", test_undefined, NULL},
    {"upper", "", test_upper, NULL},
};

const ps_jinja_builtin *ps_jinja_find_test(ps_str name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (ps_str_equal(name, tests[i].name)) {
            return &tests[i];
        }
    }
    return NULL;
}
