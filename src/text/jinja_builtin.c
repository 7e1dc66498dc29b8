// text/jinja_builtin.c - hands arguments to builtins as their signatures say.
#include "text/jinja_builtin.h"

#include "text/jinja_run.h"

#include <string.h>

// The next word of a signature; length 0 at the end.
static ps_str next_word(const char **signature)
{
    const char *begin = *signature + strspn(*signature, " ");
    const size_t length = strcspn(begin, " ");
    *signature = begin + length;
    return (ps_str){.data = begin, .length = length};
}

static ps_status fail_arguments(ps_jinja_run *run, const ps_jinja_builtin *builtin,
                                const char *what, ps_str name)
{
    return ps_jinja_fail(&run->budget, PS_INVALID, "'%s' %s '%.*s'; its arguments: (%s)",
                         builtin->name, what, name.length > 60 ? 60 : (int)name.length, name.data,
                         builtin->signature);
}

static bool word_is(ps_str word, ps_str name)
{
    return word.length == name.length && memcmp(word.data, name.data, name.length) == 0;
}

// Puts one named argument into the slot of its word.
static ps_status place_named(ps_jinja_run *run, const ps_jinja_builtin *builtin, ps_str name,
                             ps_jinja_value value, ps_jinja_value *slots)
{
    const char *signature = builtin->signature;
    for (size_t slot = 1;; slot++) {
        ps_str word = next_word(&signature);
        if (word.length == 0) {
            return fail_arguments(run, builtin, "takes no argument", name);
        }
        word.length -= word.data[word.length - 1] == '?';
        if (!word_is(word, name)) {
            continue;
        }
        if (slots[slot].kind != PS_JINJA_ABSENT) {
            return fail_arguments(run, builtin, "got twice", name);
        }
        slots[slot] = value;
        return PS_OK;
    }
}

static ps_status place_arguments(ps_jinja_run *run, const ps_jinja_builtin *builtin,
                                 const ps_jinja_arguments *arguments, ps_jinja_value *slots)
{
    const char *signature = builtin->signature;
    for (size_t i = 0; i < arguments->count; i++) {
        if (next_word(&signature).length == 0) {
            return fail_arguments(run, builtin, "got too many", ps_str_of("arguments"));
        }
        slots[i + 1] = arguments->values[i];
    }
    for (size_t i = 0; i < arguments->named_count; i++) {
        PS_TRY(place_named(run, builtin, arguments->names[i], arguments->named[i], slots));
    }
    signature = builtin->signature;
    for (size_t slot = 1;; slot++) {
        const ps_str word = next_word(&signature);
        if (word.length == 0) {
            return PS_OK;
        }
        if (slots[slot].kind == PS_JINJA_ABSENT && word.data[word.length - 1] != '?') {
            return fail_arguments(run, builtin, "needs", word);
        }
    }
}

ps_status ps_jinja_call_builtin(ps_jinja_run *run, const ps_jinja_builtin *builtin,
                                const ps_jinja_value *subject, const ps_jinja_arguments *arguments,
                                ps_jinja_value *out)
{
    if (builtin->apply_any != NULL) {
        return builtin->apply_any(run, subject, arguments, out);
    }
    if (builtin->apply == NULL) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED, "function '%s' is not supported",
                             builtin->name);
    }
    ps_jinja_value slots[PS_JINJA_SLOTS_MAX] = {{0}};
    if (subject != NULL) {
        slots[0] = *subject;
    }
    PS_TRY(place_arguments(run, builtin, arguments, slots));
    return builtin->apply(run, slots, out);
}
