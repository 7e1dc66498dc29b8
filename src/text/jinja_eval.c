// text/jinja_eval.c - evaluates expressions.
#include "text/jinja_run.h"

#include <string.h>

static bool same_name(ps_str a, ps_str b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static ps_status look_up(ps_jinja_run *run, ps_str name, ps_jinja_value *out)
{
    uint64_t looked_at = 0;
    for (const ps_jinja_scope *scope = run->scope; scope != NULL; scope = scope->parent) {
        looked_at++;
        for (const ps_jinja_binding *b = scope->bindings; b != NULL; b = b->next) {
            looked_at++;
            if (same_name(b->name, name)) {
                *out = b->value;
                return ps_jinja_spend(&run->budget, looked_at / 8);
            }
        }
    }
    const ps_jinja_builtin *function = ps_jinja_find_function(name);
    *out = function == NULL ? ps_jinja_undefined(name)
                            : (ps_jinja_value){.kind = PS_JINJA_FUNCTION, .as.function = function};
    return ps_jinja_spend(&run->budget, looked_at / 8);
}

static ps_status evaluate_list(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    const ps_jinja_flavour flavour = expr->kind == PS_JINJA_EXPR_TUPLE ? PS_JINJA_TUPLE
                                                                       : PS_JINJA_PLAIN;
    PS_TRY(ps_jinja_list_create(&run->budget, flavour, expr->as.list.count, out));
    for (size_t i = 0; i < expr->as.list.count; i++) {
        ps_jinja_value item = {0};
        PS_TRY(ps_jinja_evaluate(run, expr->as.list.items[i], &item));
        PS_TRY(ps_jinja_list_append(&run->budget, out->as.list, item));
    }
    return PS_OK;
}

static ps_status evaluate_dict(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    const ps_jinja_expr_list *list = &expr->as.list;
    PS_TRY(ps_jinja_dict_create(&run->budget, PS_JINJA_DICT, list->count / 2, out));
    for (size_t i = 0; i + 1 < list->count; i += 2) {
        ps_jinja_value key = {0};
        ps_jinja_value value = {0};
        PS_TRY(ps_jinja_evaluate(run, list->items[i], &key));
        PS_TRY(ps_jinja_evaluate(run, list->items[i + 1], &value));
        PS_TRY(ps_jinja_dict_set(&run->budget, out->as.dict, key, value));
    }
    return PS_OK;
}

static ps_status evaluate_sign(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    ps_jinja_value value = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.a, &value));
    return ps_jinja_negate(&run->budget, &value, expr->kind == PS_JINJA_EXPR_PLUS, out);
}

static ps_status evaluate_not(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    ps_jinja_value value = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.a, &value));
    *out = ps_jinja_of_boolean(!ps_jinja_truth(&value));
    return PS_OK;
}

// `and` and `or` give the operand that decided, as in Python.
static ps_status evaluate_logic(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.a, out));
    if (ps_jinja_truth(out) == (expr->kind == PS_JINJA_EXPR_OR)) {
        return PS_OK;
    }
    return ps_jinja_evaluate(run, expr->as.binary.b, out);
}

static ps_status evaluate_binary(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    ps_jinja_value a = {0};
    ps_jinja_value b = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.a, &a));
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.b, &b));
    return ps_jinja_apply_binary(&run->budget, expr->as.binary.op, &a, &b, out);
}

static ps_status compare_once(ps_jinja_budget *budget, ps_jinja_operator op,
                              const ps_jinja_value *a, const ps_jinja_value *b, bool *out)
{
    int order = 0;
    switch (op) {
    case PS_JINJA_EQUAL:
        return ps_jinja_equal(budget, a, b, out);
    case PS_JINJA_NOT_EQUAL:
        PS_TRY(ps_jinja_equal(budget, a, b, out));
        *out = !*out;
        return PS_OK;
    case PS_JINJA_IN:
        return ps_jinja_contains(budget, b, a, out);
    case PS_JINJA_NOT_IN:
        PS_TRY(ps_jinja_contains(budget, b, a, out));
        *out = !*out;
        return PS_OK;
    default:
        PS_TRY(ps_jinja_want_defined(budget, a));
        PS_TRY(ps_jinja_want_defined(budget, b));
        PS_TRY(ps_jinja_compare(budget, a, b, &order));
        *out = (op == PS_JINJA_LESS && order == -1) ||
               (op == PS_JINJA_LESS_EQUAL && (order == -1 || order == 0)) ||
               (op == PS_JINJA_GREATER && order == 1) ||
               (op == PS_JINJA_GREATER_EQUAL && (order == 1 || order == 0));
        return PS_OK;
    }
}

static ps_status evaluate_comparison(ps_jinja_run *run, const ps_jinja_comparison *comparison,
                                     ps_jinja_value *out)
{
    ps_jinja_value left = {0};
    bool holds = true;
    PS_TRY(ps_jinja_evaluate(run, comparison->operands.items[0], &left));
    for (size_t i = 1; holds && i < comparison->operands.count; i++) {
        ps_jinja_value right = {0};
        PS_TRY(ps_jinja_evaluate(run, comparison->operands.items[i], &right));
        PS_TRY(compare_once(&run->budget, comparison->operators[i - 1], &left, &right, &holds));
        left = right;
    }
    *out = ps_jinja_of_boolean(holds);
    return PS_OK;
}

static ps_status evaluate_conditional(ps_jinja_run *run, const ps_jinja_expr *expr,
                                      ps_jinja_value *out)
{
    ps_jinja_value condition = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.conditional.condition, &condition));
    if (ps_jinja_truth(&condition)) {
        return ps_jinja_evaluate(run, expr->as.conditional.then, out);
    }
    if (expr->as.conditional.otherwise != NULL) {
        return ps_jinja_evaluate(run, expr->as.conditional.otherwise, out);
    }
    *out = ps_jinja_undefined(ps_str_of("the inline if without else"));
    return PS_OK;
}

static ps_status evaluate_attribute(ps_jinja_run *run, const ps_jinja_expr *expr,
                                    ps_jinja_value *out)
{
    ps_jinja_value subject = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.attribute.subject, &subject));
    run->budget.line = expr->line;
    return ps_jinja_get_attribute(run, &subject, expr->as.attribute.name, out);
}

static ps_status evaluate_item(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    ps_jinja_value subject = {0};
    ps_jinja_value key = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.a, &subject));
    PS_TRY(ps_jinja_evaluate(run, expr->as.binary.b, &key));
    return ps_jinja_get_item(run, &subject, &key, out);
}

static ps_status evaluate_slice(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    const ps_jinja_expr *const written[3] = {expr->as.slice.start, expr->as.slice.stop,
                                             expr->as.slice.step};
    ps_jinja_value subject = {0};
    ps_jinja_value bounds[3] = {{0}};
    PS_TRY(ps_jinja_evaluate(run, expr->as.slice.subject, &subject));
    for (int i = 0; i < 3; i++) {
        if (written[i] != NULL) {
            PS_TRY(ps_jinja_evaluate(run, written[i], &bounds[i]));
        }
    }
    return ps_jinja_slice(&run->budget, &subject, bounds, out);
}

static ps_status evaluate_all(ps_jinja_run *run, const ps_jinja_expr_list *list,
                              const ps_jinja_value **out_values)
{
    ps_jinja_value *values = NULL;
    if (list->count > 0) {
        PS_JINJA_NEW(&run->budget, values, list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        PS_TRY(ps_jinja_evaluate(run, list->items[i], &values[i]));
    }
    *out_values = values;
    return PS_OK;
}

static ps_status evaluate_arguments(ps_jinja_run *run, const ps_jinja_call_syntax *call,
                                    ps_jinja_arguments *out)
{
    out->count = call->positional.count;
    out->named_count = call->named.count;
    out->names = call->names;
    PS_TRY(evaluate_all(run, &call->positional, &out->values));
    return evaluate_all(run, &call->named, &out->named);
}

static ps_status evaluate_call(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    ps_jinja_value subject = {0};
    ps_jinja_arguments arguments = {0};
    PS_TRY(ps_jinja_evaluate(run, expr->as.call.subject, &subject));
    PS_TRY(evaluate_arguments(run, expr->as.call.arguments, &arguments));
    run->budget.line = expr->line;
    if (expr->kind == PS_JINJA_EXPR_CALL) {
        return ps_jinja_call(run, &subject, &arguments, out);
    }
    PS_TRY(ps_jinja_call_builtin(run, expr->as.call.builtin, &subject, &arguments, out));
    if (expr->as.call.negated) {
        *out = ps_jinja_of_boolean(!ps_jinja_truth(out));
    }
    return PS_OK;
}

static ps_status evaluate_kind(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    switch (expr->kind) {
    case PS_JINJA_EXPR_LITERAL:
        *out = expr->as.literal;
        return PS_OK;
    case PS_JINJA_EXPR_CAPTURED:
        *out = run->captured;
        return PS_OK;
    case PS_JINJA_EXPR_NAME:
        return look_up(run, expr->as.name, out);
    case PS_JINJA_EXPR_LIST:
    case PS_JINJA_EXPR_TUPLE:
        return evaluate_list(run, expr, out);
    case PS_JINJA_EXPR_DICT:
        return evaluate_dict(run, expr, out);
    case PS_JINJA_EXPR_NEGATE:
    case PS_JINJA_EXPR_PLUS:
        return evaluate_sign(run, expr, out);
    case PS_JINJA_EXPR_NOT:
        return evaluate_not(run, expr, out);
    case PS_JINJA_EXPR_AND:
    case PS_JINJA_EXPR_OR:
        return evaluate_logic(run, expr, out);
    case PS_JINJA_EXPR_BINARY:
        return evaluate_binary(run, expr, out);
    case PS_JINJA_EXPR_COMPARE:
        return evaluate_comparison(run, expr->as.comparison, out);
    case PS_JINJA_EXPR_CONDITIONAL:
        return evaluate_conditional(run, expr, out);
    case PS_JINJA_EXPR_ATTRIBUTE:
        return evaluate_attribute(run, expr, out);
    case PS_JINJA_EXPR_ITEM:
        return evaluate_item(run, expr, out);
    case PS_JINJA_EXPR_SLICE:
        return evaluate_slice(run, expr, out);
    case PS_JINJA_EXPR_CALL:
    case PS_JINJA_EXPR_FILTER:
    case PS_JINJA_EXPR_TEST:
        return evaluate_call(run, expr, out);
    }
    return ps_jinja_fail(&run->budget, PS_INTERNAL, "expression of kind %d", (int)expr->kind);
}

ps_status ps_jinja_evaluate(ps_jinja_run *run, const ps_jinja_expr *expr, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(&run->budget, 1));
    PS_TRY(ps_jinja_enter(&run->budget));
    run->budget.line = expr->line;
    PS_TRY(evaluate_kind(run, expr, out));
    ps_jinja_leave(&run->budget);
    return PS_OK;
}
