// text/jinja_expression.c - parses expressions, with Jinja's precedences:
// if-else, or, and, not, comparisons, + -, ~, * / // %, ** (left to right), signs, postfix,
// filters.
#include "text/jinja_parse_internal.h"

#include <string.h>

static ps_status parse_unary(ps_jinja_parser *p, bool with_filters, ps_jinja_expr **out);

ps_status ps_jinja_new_expr(ps_jinja_parser *p, ps_jinja_expr_kind kind, uint32_t line,
                            ps_jinja_expr **out)
{
    ps_jinja_expr *expr = NULL;
    PS_JINJA_NEW(p->budget, expr, 1);
    expr->kind = kind;
    expr->line = line;
    *out = expr;
    return PS_OK;
}

ps_status ps_jinja_push_expr(ps_jinja_parser *p, ps_jinja_expr_list *list, ps_jinja_expr *item)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        ps_jinja_expr **items = NULL;
        PS_JINJA_NEW(p->budget, items, capacity);
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof *items);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return PS_OK;
}

static ps_status new_binary(ps_jinja_parser *p, ps_jinja_expr_kind kind, ps_jinja_operator op,
                            ps_jinja_expr *a, ps_jinja_expr *b, ps_jinja_expr **out)
{
    PS_TRY(ps_jinja_new_expr(p, kind, a->line, out));
    (*out)->as.binary.op = op;
    (*out)->as.binary.a = a;
    (*out)->as.binary.b = b;
    return PS_OK;
}

ps_status ps_jinja_new_literal(ps_jinja_parser *p, ps_jinja_value value, ps_jinja_expr **out)
{
    PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_LITERAL, p->token.line, out));
    (*out)->as.literal = value;
    return PS_OK;
}

// `a, b, c` up to a closing bracket that is stepped over; `pairs`: `a: b, c: d`.
static ps_status parse_items(ps_jinja_parser *p, const char *close, bool pairs,
                             ps_jinja_expr_list *list)
{
    while (!ps_jinja_at_operator(p, close)) {
        if (list->count > 0) {
            PS_TRY(ps_jinja_expect_operator(p, ","));
            if (ps_jinja_at_operator(p, close)) {
                break;
            }
        }
        ps_jinja_expr *item = NULL;
        PS_TRY(ps_jinja_parse_expression(p, &item));
        PS_TRY(ps_jinja_push_expr(p, list, item));
        if (pairs) {
            PS_TRY(ps_jinja_expect_operator(p, ":"));
            PS_TRY(ps_jinja_parse_expression(p, &item));
            PS_TRY(ps_jinja_push_expr(p, list, item));
        }
    }
    return ps_jinja_expect_operator(p, close);
}

static ps_status parse_bracketed(ps_jinja_parser *p, ps_jinja_expr **out)
{
    const uint32_t line = p->token.line;
    const char open = p->token.text.data[0];
    PS_TRY(ps_jinja_advance(p));
    if (open == '[' || open == '{') {
        const bool is_dict = open == '{';
        PS_TRY(ps_jinja_new_expr(p, is_dict ? PS_JINJA_EXPR_DICT : PS_JINJA_EXPR_LIST, line, out));
        return parse_items(p, is_dict ? "}" : "]", is_dict, &(*out)->as.list);
    }
    if (ps_jinja_at_operator(p, ")")) {
        PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_TUPLE, line, out));
    } else {
        PS_TRY(ps_jinja_parse_tuple(p, true, out));
    }
    return ps_jinja_expect_operator(p, ")");
}

// true, false and none in both spellings, or a variable.
static ps_status parse_name(ps_jinja_parser *p, ps_jinja_expr **out)
{
    const ps_str name = p->token.text;
    if (ps_str_equal(name, "true") || ps_str_equal(name, "True")) {
        PS_TRY(ps_jinja_new_literal(p, ps_jinja_of_boolean(true), out));
    } else if (ps_str_equal(name, "false") || ps_str_equal(name, "False")) {
        PS_TRY(ps_jinja_new_literal(p, ps_jinja_of_boolean(false), out));
    } else if (ps_str_equal(name, "none") || ps_str_equal(name, "None")) {
        PS_TRY(ps_jinja_new_literal(p, ps_jinja_none(), out));
    } else if (p->macros > 0 && (ps_str_equal(name, "varargs") || ps_str_equal(name, "kwargs"))) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "'%.*s' in a macro is not supported",
                             (int)name.length, name.data);
    } else {
        PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_NAME, p->token.line, out));
        (*out)->as.name = name;
    }
    return ps_jinja_advance(p);
}

static ps_status parse_primary(ps_jinja_parser *p, ps_jinja_expr **out)
{
    switch (p->token.kind) {
    case PS_JINJA_TOKEN_NAME:
        return parse_name(p, out);
    case PS_JINJA_TOKEN_STRING:
        return ps_jinja_parse_string(p, out);
    case PS_JINJA_TOKEN_INTEGER:
    case PS_JINJA_TOKEN_REAL:
        return ps_jinja_parse_number(p, out);
    default:
        if (ps_jinja_at_operator(p, "(") || ps_jinja_at_operator(p, "[") ||
            ps_jinja_at_operator(p, "{")) {
            return parse_bracketed(p, out);
        }
        (void)ps_jinja_unexpected(p, "an expression");
        return PS_INVALID; // spelled out, so that no reader need look whether *out is set
    }
}

static ps_status push_name(ps_jinja_parser *p, ps_jinja_call_syntax *call, ps_str name)
{
    for (size_t i = 0; i < call->named.count; i++) {
        if (call->names[i].length == name.length &&
            memcmp(call->names[i].data, name.data, name.length) == 0) {
            return ps_jinja_fail(p->budget, PS_INVALID, "argument '%.*s' is given twice",
                                 (int)name.length, name.data);
        }
    }
    ps_str *names = NULL;
    PS_JINJA_NEW(p->budget, names, call->named.count + 1);
    if (call->named.count > 0) {
        memcpy(names, call->names, call->named.count * sizeof *names);
    }
    names[call->named.count] = name;
    call->names = names;
    return PS_OK;
}

static ps_status parse_argument(ps_jinja_parser *p, ps_jinja_call_syntax *call)
{
    if (ps_jinja_at_operator(p, "*") || ps_jinja_at_operator(p, "**")) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED,
                             "arguments from '*' or '**' are not supported");
    }
    ps_jinja_token next = {0};
    ps_jinja_expr *value = NULL;
    if (p->token.kind == PS_JINJA_TOKEN_NAME) {
        PS_TRY(ps_jinja_peek(p, &next));
    }
    if (next.kind == PS_JINJA_TOKEN_OPERATOR && ps_str_equal(next.text, "=")) {
        const ps_str name = p->token.text;
        PS_TRY(ps_jinja_advance(p));
        PS_TRY(ps_jinja_advance(p));
        PS_TRY(ps_jinja_parse_expression(p, &value));
        PS_TRY(push_name(p, call, name));
        return ps_jinja_push_expr(p, &call->named, value);
    }
    if (call->named.count > 0) {
        return ps_jinja_unexpected(p, "name=value, as before");
    }
    PS_TRY(ps_jinja_parse_expression(p, &value));
    return ps_jinja_push_expr(p, &call->positional, value);
}

// The current token is "(".
static ps_status parse_arguments(ps_jinja_parser *p, ps_jinja_call_syntax *call)
{
    PS_TRY(ps_jinja_expect_operator(p, "("));
    while (!ps_jinja_at_operator(p, ")")) {
        PS_TRY(parse_argument(p, call));
        if (call->positional.count + call->named.count > PS_JINJA_BRACKETS_MAX) {
            return ps_jinja_fail(p->budget, PS_EXHAUSTED,
                                 "the template's limit of %d arguments is reached",
                                 PS_JINJA_BRACKETS_MAX);
        }
        if (!ps_jinja_at_operator(p, ")")) {
            PS_TRY(ps_jinja_expect_operator(p, ","));
        }
    }
    return ps_jinja_expect_operator(p, ")");
}

static ps_status new_call(ps_jinja_parser *p, ps_jinja_expr_kind kind, uint32_t line,
                          ps_jinja_expr *subject, ps_jinja_expr **out)
{
    PS_TRY(ps_jinja_new_expr(p, kind, line, out));
    (*out)->as.call.subject = subject;
    PS_JINJA_NEW(p->budget, (*out)->as.call.arguments, 1);
    return PS_OK;
}

static ps_status parse_call(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    ps_jinja_expr *call = NULL;
    PS_TRY(new_call(p, PS_JINJA_EXPR_CALL, p->token.line, subject, &call));
    PS_TRY(parse_arguments(p, call->as.call.arguments));
    *out = call;
    return PS_OK;
}

static ps_status parse_attribute(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    const uint32_t line = p->token.line;
    PS_TRY(ps_jinja_advance(p));
    ps_jinja_expr *expr = NULL;
    if (p->token.kind == PS_JINJA_TOKEN_INTEGER) {
        PS_TRY(ps_jinja_parse_number(p, &expr));
        return new_binary(p, PS_JINJA_EXPR_ITEM, PS_JINJA_ADD, subject, expr, out);
    }
    if (p->token.kind != PS_JINJA_TOKEN_NAME) {
        return ps_jinja_unexpected(p, "a name or a number behind '.'");
    }
    PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_ATTRIBUTE, line, &expr));
    expr->as.attribute.subject = subject;
    expr->as.attribute.name = p->token.text;
    *out = expr;
    return ps_jinja_advance(p);
}

// One bound of a slice, if there is one.
static ps_status parse_bound(ps_jinja_parser *p, ps_jinja_expr **out)
{
    if (ps_jinja_at_operator(p, ":") || ps_jinja_at_operator(p, "]") ||
        ps_jinja_at_operator(p, ",")) {
        *out = NULL;
        return PS_OK;
    }
    return ps_jinja_parse_expression(p, out);
}

static ps_status parse_subscript(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    const uint32_t line = p->token.line;
    PS_TRY(ps_jinja_advance(p));
    ps_jinja_expr *start = NULL;
    PS_TRY(parse_bound(p, &start));
    if (start != NULL && ps_jinja_at_operator(p, "]")) {
        PS_TRY(ps_jinja_advance(p));
        return new_binary(p, PS_JINJA_EXPR_ITEM, PS_JINJA_ADD, subject, start, out);
    }
    if (ps_jinja_at_operator(p, ",")) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED,
                             "several subscripts in one pair of brackets are not supported");
    }
    PS_TRY(ps_jinja_expect_operator(p, ":"));
    ps_jinja_expr *slice = NULL;
    PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_SLICE, line, &slice));
    slice->as.slice.subject = subject;
    slice->as.slice.start = start;
    PS_TRY(parse_bound(p, &slice->as.slice.stop));
    bool has_step = false;
    PS_TRY(ps_jinja_accept_operator(p, ":", &has_step));
    if (has_step) {
        PS_TRY(parse_bound(p, &slice->as.slice.step));
    }
    *out = slice;
    return ps_jinja_expect_operator(p, "]");
}

ps_status ps_jinja_parse_postfix(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    for (;;) {
        if (ps_jinja_at_operator(p, ".")) {
            PS_TRY(parse_attribute(p, subject, &subject));
        } else if (ps_jinja_at_operator(p, "[")) {
            PS_TRY(parse_subscript(p, subject, &subject));
        } else if (ps_jinja_at_operator(p, "(")) {
            PS_TRY(parse_call(p, subject, &subject));
        } else {
            *out = subject;
            return PS_OK;
        }
    }
}

static ps_status parse_filter(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    if (p->token.kind != PS_JINJA_TOKEN_NAME) {
        return ps_jinja_unexpected(p, "the name of a filter");
    }
    ps_jinja_expr *filter = NULL;
    PS_TRY(new_call(p, PS_JINJA_EXPR_FILTER, p->token.line, subject, &filter));
    filter->as.call.builtin = ps_jinja_find_filter(p->token.text);
    if (filter->as.call.builtin == NULL) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "filter '%.*s' is not supported",
                             (int)p->token.text.length, p->token.text.data);
    }
    PS_TRY(ps_jinja_advance(p));
    if (ps_jinja_at_operator(p, "(")) {
        PS_TRY(parse_arguments(p, filter->as.call.arguments));
    }
    *out = filter;
    return PS_OK;
}

ps_status ps_jinja_parse_filters(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    bool more = true;
    while (more) {
        PS_TRY(parse_filter(p, subject, &subject));
        PS_TRY(ps_jinja_accept_operator(p, "|", &more));
    }
    *out = subject;
    return PS_OK;
}

static bool begins_test_argument(const ps_jinja_parser *p)
{
    switch (p->token.kind) {
    case PS_JINJA_TOKEN_NAME:
        return !ps_jinja_at_name(p, "else") && !ps_jinja_at_name(p, "or") &&
               !ps_jinja_at_name(p, "and") && !ps_jinja_at_name(p, "if") &&
               !ps_jinja_at_name(p, "in") && !ps_jinja_at_name(p, "not");
    case PS_JINJA_TOKEN_STRING:
    case PS_JINJA_TOKEN_INTEGER:
    case PS_JINJA_TOKEN_REAL:
        return true;
    default:
        return ps_jinja_at_operator(p, "[") || ps_jinja_at_operator(p, "{");
    }
}

// The current token is "is".
static ps_status parse_test(ps_jinja_parser *p, ps_jinja_expr *subject, ps_jinja_expr **out)
{
    ps_jinja_expr *test = NULL;
    PS_TRY(new_call(p, PS_JINJA_EXPR_TEST, p->token.line, subject, &test));
    PS_TRY(ps_jinja_advance(p));
    PS_TRY(ps_jinja_accept_name(p, "not", &test->as.call.negated));
    if (p->token.kind != PS_JINJA_TOKEN_NAME) {
        return ps_jinja_unexpected(p, "the name of a test");
    }
    test->as.call.builtin = ps_jinja_find_test(p->token.text);
    if (test->as.call.builtin == NULL) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "test '%.*s' is not supported",
                             (int)p->token.text.length, p->token.text.data);
    }
    PS_TRY(ps_jinja_advance(p));
    if (ps_jinja_at_operator(p, "(")) {
        PS_TRY(parse_arguments(p, test->as.call.arguments));
    } else if (ps_jinja_at_name(p, "is")) {
        return ps_jinja_fail(p->budget, PS_INVALID, "a test cannot follow a test");
    } else if (begins_test_argument(p)) {
        ps_jinja_expr *argument = NULL;
        PS_TRY(parse_primary(p, &argument));
        PS_TRY(ps_jinja_parse_postfix(p, argument, &argument));
        PS_TRY(ps_jinja_push_expr(p, &test->as.call.arguments->positional, argument));
    }
    *out = test;
    return PS_OK;
}

static ps_status parse_filters_and_tests(ps_jinja_parser *p, ps_jinja_expr **expr)
{
    for (;;) {
        bool piped = false;
        PS_TRY(ps_jinja_accept_operator(p, "|", &piped));
        if (piped) {
            PS_TRY(parse_filter(p, *expr, expr));
        } else if (ps_jinja_at_name(p, "is")) {
            PS_TRY(parse_test(p, *expr, expr));
        } else if (ps_jinja_at_operator(p, "(")) {
            PS_TRY(parse_call(p, *expr, expr));
        } else {
            return PS_OK;
        }
    }
}

static ps_status parse_unary(ps_jinja_parser *p, bool with_filters, ps_jinja_expr **out)
{
    PS_TRY(ps_jinja_enter(p->budget));
    ps_jinja_expr *expr = NULL;
    const bool negate = ps_jinja_at_operator(p, "-");
    if (negate || ps_jinja_at_operator(p, "+")) {
        ps_jinja_expr *operand = NULL;
        PS_TRY(ps_jinja_advance(p));
        PS_TRY(parse_unary(p, false, &operand));
        PS_TRY(new_binary(p, negate ? PS_JINJA_EXPR_NEGATE : PS_JINJA_EXPR_PLUS, PS_JINJA_ADD,
                          operand, NULL, &expr));
    } else {
        PS_TRY(parse_primary(p, &expr));
    }
    PS_TRY(ps_jinja_parse_postfix(p, expr, &expr));
    if (with_filters) {
        PS_TRY(parse_filters_and_tests(p, &expr));
    }
    *out = expr;
    ps_jinja_leave(p->budget);
    return PS_OK;
}

// Binary operators by level, loosest first; all of them go left to right.
static const struct {
    const char *text;
    ps_jinja_operator op;
    int level;
} binaries[] = {
    {"+", PS_JINJA_ADD, 0},      {"-", PS_JINJA_SUBTRACT, 0}, {"~", PS_JINJA_CONCAT, 1},
    {"*", PS_JINJA_MULTIPLY, 2}, {"/", PS_JINJA_DIVIDE, 2},   {"//", PS_JINJA_FLOOR_DIVIDE, 2},
    {"%", PS_JINJA_MODULO, 2},   {"**", PS_JINJA_POWER, 3},
};
#define BINARY_LEVELS 4

static bool binary_at(const ps_jinja_parser *p, int level, ps_jinja_operator *out)
{
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++) {
        if (binaries[i].level == level && ps_jinja_at_operator(p, binaries[i].text)) {
            *out = binaries[i].op;
            return true;
        }
    }
    return false;
}

static ps_status parse_binary(ps_jinja_parser *p, int level, ps_jinja_expr **out)
{
    if (level == BINARY_LEVELS) {
        return parse_unary(p, true, out);
    }
    ps_jinja_expr *left = NULL;
    PS_TRY(parse_binary(p, level + 1, &left));
    for (ps_jinja_operator op; binary_at(p, level, &op);) {
        ps_jinja_expr *right = NULL;
        PS_TRY(ps_jinja_advance(p));
        PS_TRY(parse_binary(p, level + 1, &right));
        PS_TRY(new_binary(p, PS_JINJA_EXPR_BINARY, op, left, right, &left));
    }
    *out = left;
    return PS_OK;
}

// A comparison operator at the current token, stepped over; *out_found says whether there was one.
static ps_status accept_comparison(ps_jinja_parser *p, ps_jinja_operator *out, bool *out_found)
{
    static const struct {
        const char *text;
        ps_jinja_operator op;
    } comparisons[] = {{"==", PS_JINJA_EQUAL},  {"!=", PS_JINJA_NOT_EQUAL},
                       {"<", PS_JINJA_LESS},    {"<=", PS_JINJA_LESS_EQUAL},
                       {">", PS_JINJA_GREATER}, {">=", PS_JINJA_GREATER_EQUAL}};
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        PS_TRY(ps_jinja_accept_operator(p, comparisons[i].text, out_found));
        if (*out_found) {
            *out = comparisons[i].op;
            return PS_OK;
        }
    }
    *out = PS_JINJA_IN;
    PS_TRY(ps_jinja_accept_name(p, "in", out_found));
    if (*out_found || !ps_jinja_at_name(p, "not")) {
        return PS_OK;
    }
    ps_jinja_token next;
    PS_TRY(ps_jinja_peek(p, &next));
    if (next.kind == PS_JINJA_TOKEN_NAME && ps_str_equal(next.text, "in")) {
        *out = PS_JINJA_NOT_IN;
        *out_found = true;
        PS_TRY(ps_jinja_advance(p));
        return ps_jinja_advance(p);
    }
    return PS_OK;
}

static ps_status push_operator(ps_jinja_parser *p, ps_jinja_comparison *comparison,
                               ps_jinja_operator op)
{
    ps_jinja_operator *operators = NULL;
    const size_t count = comparison->operands.count;
    if (count > PS_JINJA_BRACKETS_MAX) {
        return ps_jinja_fail(p->budget, PS_EXHAUSTED,
                             "the template's limit of %d comparisons in a row is reached",
                             PS_JINJA_BRACKETS_MAX);
    }
    PS_JINJA_NEW(p->budget, operators, count);
    if (count > 1) {
        memcpy(operators, comparison->operators, (count - 1) * sizeof *operators);
    }
    operators[count - 1] = op;
    comparison->operators = operators;
    return PS_OK;
}

static ps_status parse_comparison(ps_jinja_parser *p, ps_jinja_expr **out)
{
    ps_jinja_expr *operand = NULL;
    ps_jinja_comparison *comparison = NULL;
    const uint32_t line = p->token.line;
    PS_TRY(parse_binary(p, 0, &operand));
    for (;;) {
        ps_jinja_operator op = PS_JINJA_EQUAL;
        bool found = false;
        PS_TRY(accept_comparison(p, &op, &found));
        if (!found) {
            break;
        }
        if (comparison == NULL) {
            PS_JINJA_NEW(p->budget, comparison, 1);
            PS_TRY(ps_jinja_push_expr(p, &comparison->operands, operand));
        }
        PS_TRY(push_operator(p, comparison, op));
        PS_TRY(parse_binary(p, 0, &operand));
        PS_TRY(ps_jinja_push_expr(p, &comparison->operands, operand));
    }
    *out = operand;
    if (comparison != NULL) {
        PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_COMPARE, line, out));
        (*out)->as.comparison = comparison;
    }
    return PS_OK;
}

static ps_status parse_not(ps_jinja_parser *p, ps_jinja_expr **out)
{
    bool negated = false;
    PS_TRY(ps_jinja_accept_name(p, "not", &negated));
    if (!negated) {
        return parse_comparison(p, out);
    }
    ps_jinja_expr *operand = NULL;
    PS_TRY(ps_jinja_enter(p->budget));
    PS_TRY(parse_not(p, &operand));
    ps_jinja_leave(p->budget);
    return new_binary(p, PS_JINJA_EXPR_NOT, PS_JINJA_ADD, operand, NULL, out);
}

static ps_status parse_and(ps_jinja_parser *p, ps_jinja_expr **out)
{
    ps_jinja_expr *left = NULL;
    bool more = false;
    PS_TRY(parse_not(p, &left));
    for (;;) {
        ps_jinja_expr *right = NULL;
        PS_TRY(ps_jinja_accept_name(p, "and", &more));
        if (!more) {
            *out = left;
            return PS_OK;
        }
        PS_TRY(parse_not(p, &right));
        PS_TRY(new_binary(p, PS_JINJA_EXPR_AND, PS_JINJA_ADD, left, right, &left));
    }
}

ps_status ps_jinja_parse_unconditional(ps_jinja_parser *p, ps_jinja_expr **out)
{
    ps_jinja_expr *left = NULL;
    bool more = false;
    PS_TRY(parse_and(p, &left));
    for (;;) {
        ps_jinja_expr *right = NULL;
        PS_TRY(ps_jinja_accept_name(p, "or", &more));
        if (!more) {
            *out = left;
            return PS_OK;
        }
        PS_TRY(parse_and(p, &right));
        PS_TRY(new_binary(p, PS_JINJA_EXPR_OR, PS_JINJA_ADD, left, right, &left));
    }
}

ps_status ps_jinja_parse_expression(ps_jinja_parser *p, ps_jinja_expr **out)
{
    PS_TRY(ps_jinja_enter(p->budget));
    ps_jinja_expr *value = NULL;
    PS_TRY(ps_jinja_parse_unconditional(p, &value));
    for (;;) {
        bool found = false;
        ps_jinja_expr *conditional = NULL;
        PS_TRY(ps_jinja_accept_name(p, "if", &found));
        if (!found) {
            break;
        }
        PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_CONDITIONAL, value->line, &conditional));
        conditional->as.conditional.then = value;
        PS_TRY(ps_jinja_parse_unconditional(p, &conditional->as.conditional.condition));
        PS_TRY(ps_jinja_accept_name(p, "else", &found));
        if (found) {
            PS_TRY(ps_jinja_parse_expression(p, &conditional->as.conditional.otherwise));
        }
        value = conditional;
    }
    *out = value;
    ps_jinja_leave(p->budget);
    return PS_OK;
}

static bool ends_tuple(const ps_jinja_parser *p)
{
    return p->token.kind == PS_JINJA_TOKEN_VARIABLE_END ||
           p->token.kind == PS_JINJA_TOKEN_BLOCK_END || ps_jinja_at_operator(p, ")") ||
           ps_jinja_at_operator(p, "=") || ps_jinja_at_name(p, "in");
}

ps_status ps_jinja_parse_tuple(ps_jinja_parser *p, bool conditional, ps_jinja_expr **out)
{
    ps_jinja_expr *item = NULL;
    const uint32_t line = p->token.line;
    PS_TRY(conditional ? ps_jinja_parse_expression(p, &item)
                       : ps_jinja_parse_unconditional(p, &item));
    if (!ps_jinja_at_operator(p, ",")) {
        *out = item;
        return PS_OK;
    }
    ps_jinja_expr *tuple = NULL;
    PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_TUPLE, line, &tuple));
    PS_TRY(ps_jinja_push_expr(p, &tuple->as.list, item));
    bool more = false;
    PS_TRY(ps_jinja_accept_operator(p, ",", &more));
    while (more && !ends_tuple(p)) {
        PS_TRY(conditional ? ps_jinja_parse_expression(p, &item)
                           : ps_jinja_parse_unconditional(p, &item));
        PS_TRY(ps_jinja_push_expr(p, &tuple->as.list, item));
        PS_TRY(ps_jinja_accept_operator(p, ",", &more));
    }
    *out = tuple;
    return PS_OK;
}
