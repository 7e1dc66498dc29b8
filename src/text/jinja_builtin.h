// text/jinja_builtin.h - filters, tests, methods and functions: the tables and how they are called.
#ifndef PS_TEXT_JINJA_BUILTIN_H
#define PS_TEXT_JINJA_BUILTIN_H

#include "text/jinja_value.h"

#define PS_JINJA_SLOTS_MAX 8

struct ps_jinja_run;

// The evaluated arguments of a call.
typedef struct ps_jinja_arguments {
    const ps_jinja_value *values; // [count]
    size_t count;
    const ps_str *names;         // [named_count]
    const ps_jinja_value *named; // [named_count]
    size_t named_count;
} ps_jinja_arguments;

// One entry of a table. `signature` lists the arguments behind the subject: "old new count?", where
// ? marks what may be left out. The arguments come in slots[1..], ABSENT where not given, and the
// subject (of a filter, test or method) is slots[0]. Without a signature `apply_any` is called.
typedef struct ps_jinja_builtin {
    const char *name;
    const char *signature;
    ps_status (*apply)(struct ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out);
    ps_status (*apply_any)(struct ps_jinja_run *run, const ps_jinja_value *subject,
                           const ps_jinja_arguments *arguments, ps_jinja_value *out);
} ps_jinja_builtin;

// NULL when there is none of that name.
const ps_jinja_builtin *ps_jinja_find_filter(ps_str name);
const ps_jinja_builtin *ps_jinja_find_test(ps_str name);
const ps_jinja_builtin *ps_jinja_find_function(ps_str name);

// The method of a value's type. *out is NULL when Python has none of that name either;
// PS_UNSUPPORTED, naming it, when Python has one and this interpreter does not.
PS_MUST_USE ps_status ps_jinja_find_method(const ps_jinja_budget *budget,
                                           const ps_jinja_value *subject, ps_str name,
                                           const ps_jinja_builtin **out);

// Calls a builtin; `subject` is NULL for a function.
PS_MUST_USE ps_status ps_jinja_call_builtin(struct ps_jinja_run *run,
                                            const ps_jinja_builtin *builtin,
                                            const ps_jinja_value *subject,
                                            const ps_jinja_arguments *arguments,
                                            ps_jinja_value *out);

#endif
