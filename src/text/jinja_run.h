// text/jinja_run.h - one rendering: variables, output, and the values that refer to them.
#ifndef PS_TEXT_JINJA_RUN_H
#define PS_TEXT_JINJA_RUN_H

#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"
#include "text/jinja_text.h"

typedef struct ps_jinja_binding {
    ps_str name;
    ps_jinja_value value;
    struct ps_jinja_binding *next;
} ps_jinja_binding;

// The template, every iteration and `else` of a loop, macro call, `with` and captured block have
// one. A scope is never freed before the rendering ends, so a macro may keep the one it was defined
// in.
typedef struct ps_jinja_scope {
    ps_jinja_binding *bindings;
    struct ps_jinja_scope *parent;
} ps_jinja_scope;

// The `loop` variable; one for all iterations. Its depth is 1: only recursive loops have another.
typedef struct ps_jinja_loop {
    const ps_jinja_list *items;
    size_t index;           // from 0
    ps_jinja_value changed; // the list that loop.changed was last called with, or ABSENT
} ps_jinja_loop;

typedef struct ps_jinja_macro {
    const ps_jinja_macro_node *node;
    ps_jinja_scope *scope; // where it was defined
} ps_jinja_macro;

typedef struct ps_jinja_method {
    const ps_jinja_builtin *builtin;
    ps_jinja_value subject;
} ps_jinja_method;

typedef enum ps_jinja_flow {
    PS_JINJA_GO_ON,
    PS_JINJA_BREAK,
    PS_JINJA_CONTINUE,
} ps_jinja_flow;

typedef struct ps_jinja_run {
    ps_jinja_budget budget;
    ps_jinja_scope *scope;
    ps_jinja_text *output;
    ps_jinja_flow flow;      // how the statement before ended
    ps_jinja_value captured; // what EXPR_CAPTURED gives
    int64_t now;             // seconds since 1970, for strftime_now
} ps_jinja_run;

// Runs the statements of a block in the current scope.
PS_MUST_USE ps_status ps_jinja_run_block(ps_jinja_run *run, const ps_jinja_node *body);

// A new scope under `parent`, not yet current.
PS_MUST_USE ps_status ps_jinja_new_scope(ps_jinja_run *run, ps_jinja_scope *parent,
                                         ps_jinja_scope **out);
// Sets a variable of this very scope.
PS_MUST_USE ps_status ps_jinja_bind(ps_jinja_run *run, ps_jinja_scope *scope, ps_str name,
                                    ps_jinja_value value);

PS_MUST_USE ps_status ps_jinja_evaluate(ps_jinja_run *run, const ps_jinja_expr *expr,
                                        ps_jinja_value *out);

// `a.name` and `a[key]` with Jinja's rules: an attribute looks for a method first, a subscript for
// an item; what is missing is undefined, and of undefined both are PS_INVALID.
PS_MUST_USE ps_status ps_jinja_get_attribute(ps_jinja_run *run, const ps_jinja_value *subject,
                                             ps_str name, ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_get_item(ps_jinja_run *run, const ps_jinja_value *subject,
                                        const ps_jinja_value *key, ps_jinja_value *out);

PS_MUST_USE ps_status ps_jinja_call(ps_jinja_run *run, const ps_jinja_value *callee,
                                    const ps_jinja_arguments *arguments, ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_call_macro(ps_jinja_run *run, const ps_jinja_macro *macro,
                                          const ps_jinja_arguments *arguments, ps_jinja_value *out);

PS_MUST_USE ps_status ps_jinja_apply_binary(ps_jinja_budget *budget, ps_jinja_operator op,
                                            const ps_jinja_value *a, const ps_jinja_value *b,
                                            ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_negate(const ps_jinja_budget *budget, const ps_jinja_value *value,
                                      bool plus, ps_jinja_value *out);
// start, stop, step: ABSENT or none for what is not given.
PS_MUST_USE ps_status ps_jinja_slice(ps_jinja_budget *budget, const ps_jinja_value *subject,
                                     const ps_jinja_value bounds[3], ps_jinja_value *out);

// An argument as an integer (a boolean is one too), or `otherwise` when it is ABSENT or none.
PS_MUST_USE ps_status ps_jinja_want_integer(const ps_jinja_budget *budget,
                                            const ps_jinja_value *value, int64_t otherwise,
                                            int64_t *out);
// PS_INVALID when the value is no string.
PS_MUST_USE ps_status ps_jinja_want_string(const ps_jinja_budget *budget,
                                           const ps_jinja_value *value, ps_jinja_string *out);
// PS_INVALID "'name' is undefined" when it is.
PS_MUST_USE ps_status ps_jinja_want_defined(const ps_jinja_budget *budget,
                                            const ps_jinja_value *value);

#endif
