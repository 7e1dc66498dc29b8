// text/jinja_function.c - the functions that every template may call.
#include "text/jinja_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define RANGE_MAX 100000 // as in Jinja's sandbox
#define TIME_BYTES_MAX 256

// How many numbers range(start, stop, step) has. step is not 0.
static uint64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    const bool up = step > 0;
    if (up ? start >= stop : start <= stop) {
        return 0;
    }
    const uint64_t gap = up ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    return (gap - 1) / (up ? (uint64_t)step : 0 - (uint64_t)step) + 1;
}

static ps_status function_range(ps_jinja_run *run, const ps_jinja_value *subject,
                                const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    int64_t numbers[3] = {0, 0, 1};
    const size_t count = arguments->count;
    if (count < 1 || count > 3 || arguments->named_count > 0) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "'range' takes 1 to 3 ints");
    }
    for (size_t i = 0; i < count; i++) {
        if (arguments->values[i].kind == PS_JINJA_NONE) {
            return ps_jinja_fail(&run->budget, PS_INVALID, "'range' takes ints, not none");
        }
        PS_TRY(ps_jinja_want_integer(&run->budget, &arguments->values[i], 0,
                                     &numbers[count == 1 ? 1 : i]));
    }
    if (numbers[2] == 0) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "the step of a range cannot be 0");
    }
    const uint64_t length = range_count(numbers[0], numbers[1], numbers[2]);
    if (length > RANGE_MAX) {
        return ps_jinja_fail(&run->budget, PS_EXHAUSTED,
                             "the template's limit of %d numbers in a range is reached", RANGE_MAX);
    }
    PS_TRY(ps_jinja_spend(&run->budget, length / 8));
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_RANGE, length, out));
    for (uint64_t i = 0; i < length; i++) {
        // Unsigned, because the products of a wide range pass INT64_MAX on the way to what fits.
        const int64_t number = (int64_t)((uint64_t)numbers[0] + i * (uint64_t)numbers[2]);
        PS_TRY(ps_jinja_list_append(&run->budget, out->as.list, ps_jinja_of_integer(number)));
    }
    return PS_OK;
}

// A dict or namespace of the entries of one dict, if it is given, and the named arguments.
static ps_status make_dict(ps_jinja_run *run, ps_jinja_kind kind,
                           const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_dict_create(&run->budget, kind, arguments->named_count, out));
    if (arguments->count > 1 ||
        (arguments->count == 1 && arguments->values[0].kind != PS_JINJA_DICT)) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED,
                             "'dict' and 'namespace' take one dict and named values here");
    }
    const ps_jinja_dict *given = arguments->count == 1 ? arguments->values[0].as.dict : NULL;
    for (size_t i = 0; given != NULL && i < given->count; i++) {
        PS_TRY(ps_jinja_dict_append(&run->budget, out->as.dict, given->entries[i].key,
                                    given->entries[i].value));
    }
    for (size_t i = 0; i < arguments->named_count; i++) {
        const ps_jinja_string name = {.data = arguments->names[i].data,
                                      .length = arguments->names[i].length,
                                      .trusted = true};
        PS_TRY(ps_jinja_dict_set(&run->budget, out->as.dict, ps_jinja_of_string(name),
                                 arguments->named[i]));
    }
    return PS_OK;
}

static ps_status function_dict(ps_jinja_run *run, const ps_jinja_value *subject,
                               const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return make_dict(run, PS_JINJA_DICT, arguments, out);
}

static ps_status function_namespace(ps_jinja_run *run, const ps_jinja_value *subject,
                                    const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return make_dict(run, PS_JINJA_NAMESPACE, arguments, out);
}

static ps_status function_raise(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string message = {0};
    PS_TRY(ps_jinja_to_string(&run->budget, &slots[1], &message));
    return ps_jinja_fail(&run->budget, PS_INVALID, "the template refuses: %.*s",
                         message.length > 500 ? 500 : (int)message.length,
                         message.length == 0 ? "" : message.data);
}

static ps_status function_strftime(ps_jinja_run *run, const ps_jinja_value *slots,
                                   ps_jinja_value *out)
{
    ps_jinja_string format = {0};
    char pattern[TIME_BYTES_MAX];
    char *text = NULL;
    struct tm local = {0};
    const time_t now = (time_t)run->now;
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &format));
    if (format.length >= sizeof pattern) {
        return ps_jinja_fail(&run->budget, PS_EXHAUSTED,
                             "the format of 'strftime_now' is longer than %d bytes",
                             TIME_BYTES_MAX - 1);
    }
    if (format.length == 0 || localtime_r(&now, &local) == NULL) {
        *out = ps_jinja_literal("");
        return PS_OK;
    }
    memcpy(pattern, format.data, format.length);
    pattern[format.length] = '\0';
    PS_JINJA_NEW(&run->budget, text, TIME_BYTES_MAX);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t length = strftime(text, TIME_BYTES_MAX, pattern, &local);
#pragma GCC diagnostic pop
    if (length == 0) {
        return ps_jinja_fail(&run->budget, PS_EXHAUSTED,
                             "the result of 'strftime_now' is longer than %d bytes",
                             TIME_BYTES_MAX - 1);
    }
    // The result is as trustworthy as its format.
    *out = ps_jinja_of_string((ps_jinja_string){
        .data = text, .length = length, .trusted = format.marks == NULL && format.trusted});
    return PS_OK;
}

static const ps_jinja_builtin functions[] = {
    {"cycler", NULL, NULL, NULL},
    {"dict", NULL, NULL, function_dict},
    {"joiner", NULL, NULL, NULL},
    {"lipsum", NULL, NULL, NULL},
    {"namespace", NULL, NULL, function_namespace},
    {"raise_exception", "message", function_raise, NULL},
    {"range", NULL, NULL, function_range},
    {"strftime_now", "format", function_strftime, NULL},
};

const ps_jinja_builtin *ps_jinja_find_function(ps_str name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (ps_str_equal(name, functions[i].name)) {
            return &functions[i];
        }
    }
    return NULL;
}
