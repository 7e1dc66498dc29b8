// text/jinja_operator.c - arithmetic and slices, as Python does them on 64-bit integers.
#include "text/jinja_run.h"
#include "text/jinja_unicode.h"

#include <math.h>

ps_status ps_jinja_want_defined(const ps_jinja_budget *budget, const ps_jinja_value *value)
{
    if (value->kind == PS_JINJA_UNDEFINED) {
        return ps_jinja_fail(budget, PS_INVALID, "'%.*s' is undefined",
                             (int)(value->as.name.length > 60 ? 60 : value->as.name.length),
                             value->as.name.length == 0 ? "" : value->as.name.data);
    }
    return PS_OK;
}

ps_status ps_jinja_want_integer(const ps_jinja_budget *budget, const ps_jinja_value *value,
                                int64_t otherwise, int64_t *out)
{
    switch (value->kind) {
    case PS_JINJA_ABSENT:
    case PS_JINJA_NONE:
        *out = otherwise;
        return PS_OK;
    case PS_JINJA_BOOLEAN:
        *out = value->as.boolean;
        return PS_OK;
    case PS_JINJA_INTEGER:
        *out = value->as.integer;
        return PS_OK;
    default:
        PS_TRY(ps_jinja_want_defined(budget, value));
        return ps_jinja_fail(budget, PS_INVALID, "expected an int, found a %s",
                             ps_jinja_type_name(value));
    }
}

ps_status ps_jinja_want_string(const ps_jinja_budget *budget, const ps_jinja_value *value,
                               ps_jinja_string *out)
{
    if (value->kind != PS_JINJA_STRING) {
        PS_TRY(ps_jinja_want_defined(budget, value));
        return ps_jinja_fail(budget, PS_INVALID, "expected a str, found a %s",
                             ps_jinja_type_name(value));
    }
    *out = value->as.string;
    return PS_OK;
}

static bool is_integer(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_INTEGER || value->kind == PS_JINJA_BOOLEAN;
}

static int64_t integer_of(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_BOOLEAN ? value->as.boolean : value->as.integer;
}

static double real_of(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_REAL ? value->as.real : (double)integer_of(value);
}

static ps_status overflow(const ps_jinja_budget *budget)
{
    return ps_jinja_fail(budget, PS_UNSUPPORTED, "integers beyond 64 bits are not supported");
}

// Python rounds down where C rounds to zero.
static int64_t floor_quotient(int64_t a, int64_t b)
{
    const int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static ps_status power(const ps_jinja_budget *budget, int64_t base, int64_t exponent,
                       ps_jinja_value *out)
{
    if (exponent < 0) {
        if (base == 0) {
            return ps_jinja_fail(budget, PS_INVALID, "0 has no negative power");
        }
        *out = ps_jinja_of_real(pow((double)base, (double)exponent));
        return PS_OK;
    }
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
            return overflow(budget);
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return overflow(budget);
        }
    }
    *out = ps_jinja_of_integer(result);
    return PS_OK;
}

static ps_status integer_binary(const ps_jinja_budget *budget, ps_jinja_operator op, int64_t a,
                                int64_t b, ps_jinja_value *out)
{
    int64_t result = 0;
    bool wrapped = false;
    if (b == 0 && (op == PS_JINJA_DIVIDE || op == PS_JINJA_FLOOR_DIVIDE || op == PS_JINJA_MODULO)) {
        return ps_jinja_fail(budget, PS_INVALID, "division by zero");
    }
    switch (op) {
    case PS_JINJA_ADD:
        wrapped = __builtin_add_overflow(a, b, &result);
        break;
    case PS_JINJA_SUBTRACT:
        wrapped = __builtin_sub_overflow(a, b, &result);
        break;
    case PS_JINJA_MULTIPLY:
        wrapped = __builtin_mul_overflow(a, b, &result);
        break;
    case PS_JINJA_DIVIDE:
        *out = ps_jinja_of_real((double)a / (double)b);
        return PS_OK;
    case PS_JINJA_FLOOR_DIVIDE:
        wrapped = a == INT64_MIN && b == -1;
        result = wrapped ? 0 : floor_quotient(a, b);
        break;
    case PS_JINJA_MODULO:
        result = b == -1 ? 0 : a - floor_quotient(a, b) * b;
        break;
    default:
        return power(budget, a, b, out);
    }
    *out = ps_jinja_of_integer(result);
    return wrapped ? overflow(budget) : PS_OK;
}

static double floor_modulo(double a, double b)
{
    const double rest = fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b
                                                    : copysign(rest, rest == 0.0 ? b : rest);
}

static ps_status real_binary(const ps_jinja_budget *budget, ps_jinja_operator op, double a,
                             double b, ps_jinja_value *out)
{
    double result = 0.0;
    const bool divides = op == PS_JINJA_DIVIDE || op == PS_JINJA_FLOOR_DIVIDE ||
                         op == PS_JINJA_MODULO;
    if (divides && b == 0.0) {
        return ps_jinja_fail(budget, PS_INVALID, "division by zero");
    }
    switch (op) {
    case PS_JINJA_ADD:
        result = a + b;
        break;
    case PS_JINJA_SUBTRACT:
        result = a - b;
        break;
    case PS_JINJA_MULTIPLY:
        result = a * b;
        break;
    case PS_JINJA_DIVIDE:
        result = a / b;
        break;
    case PS_JINJA_FLOOR_DIVIDE:
        result = floor((a - floor_modulo(a, b)) / b + 0.25);
        break;
    case PS_JINJA_MODULO:
        result = floor_modulo(a, b);
        break;
    default:
        result = pow(a, b);
        if ((a < 0.0 && isnan(result)) || (isinf(result) && isfinite(a) && isfinite(b))) {
            return ps_jinja_fail(budget, PS_INVALID, "this power is no finite real number");
        }
        break;
    }
    *out = ps_jinja_of_real(result);
    return PS_OK;
}

static ps_status repeat_list(ps_jinja_budget *budget, const ps_jinja_list *list, int64_t times,
                             ps_jinja_value *out)
{
    PS_TRY(ps_jinja_list_create(budget, list->flavour, 0, out));
    for (int64_t i = 0; i < times && list->count > 0; i++) {
        PS_TRY(ps_jinja_spend(budget, list->count));
        for (size_t k = 0; k < list->count; k++) {
            PS_TRY(ps_jinja_list_append(budget, out->as.list, list->items[k]));
        }
    }
    return PS_OK;
}

static bool is_plain_list(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_LIST && value->as.list->flavour <= PS_JINJA_TUPLE;
}

// sequence * integer, in either order; false when it is neither.
static bool is_repetition(const ps_jinja_value *a, const ps_jinja_value *b)
{
    return (a->kind == PS_JINJA_STRING || is_plain_list(a)) && is_integer(b);
}

static ps_status repeat(ps_jinja_budget *budget, const ps_jinja_value *sequence,
                        const ps_jinja_value *times, ps_jinja_value *out)
{
    if (sequence->kind == PS_JINJA_STRING) {
        return ps_jinja_repeat(budget, sequence->as.string, integer_of(times), out);
    }
    return repeat_list(budget, sequence->as.list, integer_of(times), out);
}

static ps_status add_lists(ps_jinja_budget *budget, const ps_jinja_list *a, const ps_jinja_list *b,
                           ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(budget, (a->count + b->count) / 8));
    PS_TRY(ps_jinja_list_create(budget, a->flavour, a->count + b->count, out));
    for (size_t i = 0; i < a->count; i++) {
        PS_TRY(ps_jinja_list_append(budget, out->as.list, a->items[i]));
    }
    for (size_t i = 0; i < b->count; i++) {
        PS_TRY(ps_jinja_list_append(budget, out->as.list, b->items[i]));
    }
    return PS_OK;
}

static ps_status concat_as_strings(ps_jinja_budget *budget, const ps_jinja_value *a,
                                   const ps_jinja_value *b, ps_jinja_value *out)
{
    ps_jinja_string left = {0};
    ps_jinja_string right = {0};
    PS_TRY(ps_jinja_to_string(budget, a, &left));
    PS_TRY(ps_jinja_to_string(budget, b, &right));
    return ps_jinja_concat(budget, left, right, out);
}

static const char *operator_text(ps_jinja_operator op)
{
    static const char *const texts[] = {"+", "-", "*", "/", "//", "%", "**", "~"};
    ps_assert(op <= PS_JINJA_CONCAT);
    return texts[op];
}

ps_status ps_jinja_apply_binary(ps_jinja_budget *budget, ps_jinja_operator op,
                                const ps_jinja_value *a, const ps_jinja_value *b,
                                ps_jinja_value *out)
{
    if (op == PS_JINJA_CONCAT) {
        return concat_as_strings(budget, a, b, out);
    }
    if (is_integer(a) && is_integer(b)) {
        return integer_binary(budget, op, integer_of(a), integer_of(b), out);
    }
    if ((is_integer(a) || a->kind == PS_JINJA_REAL) &&
        (is_integer(b) || b->kind == PS_JINJA_REAL)) {
        return real_binary(budget, op, real_of(a), real_of(b), out);
    }
    if (op == PS_JINJA_ADD && a->kind == PS_JINJA_STRING && b->kind == PS_JINJA_STRING) {
        return ps_jinja_concat(budget, a->as.string, b->as.string, out);
    }
    if (op == PS_JINJA_ADD && is_plain_list(a) && is_plain_list(b) &&
        a->as.list->flavour == b->as.list->flavour) {
        return add_lists(budget, a->as.list, b->as.list, out);
    }
    if (op == PS_JINJA_MULTIPLY && is_repetition(a, b)) {
        return repeat(budget, a, b, out);
    }
    if (op == PS_JINJA_MULTIPLY && is_repetition(b, a)) {
        return repeat(budget, b, a, out);
    }
    if (op == PS_JINJA_MODULO && a->kind == PS_JINJA_STRING) {
        return ps_jinja_fail(budget, PS_UNSUPPORTED, "formatting a str with '%%' is not supported");
    }
    PS_TRY(ps_jinja_want_defined(budget, a));
    PS_TRY(ps_jinja_want_defined(budget, b));
    return ps_jinja_fail(budget, PS_INVALID, "'%s' does not take %s and %s", operator_text(op),
                         ps_jinja_type_name(a), ps_jinja_type_name(b));
}

ps_status ps_jinja_negate(const ps_jinja_budget *budget, const ps_jinja_value *value, bool plus,
                          ps_jinja_value *out)
{
    if (value->kind == PS_JINJA_REAL) {
        *out = ps_jinja_of_real(plus ? value->as.real : -value->as.real);
        return PS_OK;
    }
    if (!is_integer(value)) {
        PS_TRY(ps_jinja_want_defined(budget, value));
        return ps_jinja_fail(budget, PS_INVALID, "a %s has no sign", ps_jinja_type_name(value));
    }
    return integer_binary(budget, plus ? PS_JINJA_ADD : PS_JINJA_SUBTRACT, 0, integer_of(value),
                          out);
}

// One bound of a slice as an index: negative ones count from the end, all are clamped to
// lowest..highest.
static int64_t clamp_bound(int64_t bound, int64_t count, int64_t lowest, int64_t highest)
{
    if (bound < 0) {
        bound = bound < -count ? lowest : bound + count;
    }
    return bound < lowest ? lowest : bound > highest ? highest : bound;
}

typedef struct slice_range {
    int64_t start;
    int64_t step;
    size_t count; // items taken: start, start + step, ...
} slice_range;

static ps_status resolve_slice(const ps_jinja_budget *budget, const ps_jinja_value bounds[3],
                               size_t length, slice_range *out)
{
    const int64_t count = (int64_t)length;
    int64_t step = 1;
    PS_TRY(ps_jinja_want_integer(budget, &bounds[2], 1, &step));
    if (step == 0) {
        return ps_jinja_fail(budget, PS_INVALID, "the step of a slice cannot be 0");
    }
    const int64_t lowest = step > 0 ? 0 : -1;
    const int64_t highest = step > 0 ? count : count - 1;
    int64_t start = 0;
    int64_t stop = 0;
    PS_TRY(ps_jinja_want_integer(budget, &bounds[0], step > 0 ? 0 : INT64_MAX, &start));
    PS_TRY(ps_jinja_want_integer(budget, &bounds[1], step > 0 ? INT64_MAX : INT64_MIN, &stop));
    start = clamp_bound(start, count, lowest, highest);
    stop = clamp_bound(stop, count, lowest, highest);
    out->start = start;
    out->step = step;
    out->count = 0;
    if (step > 0 && start < stop) {
        out->count = (uint64_t)(stop - start - 1) / (uint64_t)step + 1;
    } else if (step < 0 && start > stop) {
        out->count = (uint64_t)(start - stop - 1) / (0 - (uint64_t)step) + 1;
    }
    return PS_OK;
}

static ps_status slice_string(ps_jinja_budget *budget, ps_jinja_string string,
                              const slice_range *range, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(budget, string.length / 16));
    if (range->step == 1) {
        const size_t begin = ps_jinja_byte_index(string, (size_t)range->start);
        const ps_jinja_string rest = ps_jinja_cut(string, begin, string.length);
        *out = ps_jinja_of_string(ps_jinja_cut(rest, 0, ps_jinja_byte_index(rest, range->count)));
        return PS_OK;
    }
    const ps_jinja_value whole = ps_jinja_of_string(string);
    const ps_jinja_list *characters = NULL;
    ps_jinja_text text = {0};
    PS_TRY(ps_jinja_iterate(budget, &whole, &characters));
    for (size_t i = 0; i < range->count; i++) {
        const size_t at = (size_t)(range->start + (int64_t)i * range->step);
        PS_TRY(ps_jinja_text_add(budget, &text, characters->items[at].as.string));
    }
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

ps_status ps_jinja_slice(ps_jinja_budget *budget, const ps_jinja_value *subject,
                         const ps_jinja_value bounds[3], ps_jinja_value *out)
{
    slice_range range = {0};
    if (subject->kind == PS_JINJA_STRING) {
        const size_t length = ps_jinja_characters(subject->as.string);
        PS_TRY(resolve_slice(budget, bounds, length, &range));
        return slice_string(budget, subject->as.string, &range, out);
    }
    if (subject->kind != PS_JINJA_LIST || subject->as.list->flavour > PS_JINJA_RANGE) {
        PS_TRY(ps_jinja_want_defined(budget, subject));
        return ps_jinja_fail(budget, PS_INVALID, "a %s cannot be sliced",
                             ps_jinja_type_name(subject));
    }
    const ps_jinja_list *list = subject->as.list;
    PS_TRY(resolve_slice(budget, bounds, list->count, &range));
    PS_TRY(ps_jinja_spend(budget, range.count / 8));
    PS_TRY(ps_jinja_list_create(budget, list->flavour, range.count, out));
    for (size_t i = 0; i < range.count; i++) {
        const size_t at = (size_t)(range.start + (int64_t)i * range.step);
        PS_TRY(ps_jinja_list_append(budget, out->as.list, list->items[at]));
    }
    return PS_OK;
}
