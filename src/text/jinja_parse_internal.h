// text/jinja_parse_internal.h - what the parsers of statements and of expressions share.
#ifndef PS_TEXT_JINJA_PARSE_INTERNAL_H
#define PS_TEXT_JINJA_PARSE_INTERNAL_H

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

typedef struct ps_jinja_parser {
    ps_jinja_budget *budget;
    ps_jinja_lexer lexer;
    ps_jinja_token token; // the current one
    ps_jinja_token ahead; // the one behind it, when has_ahead
    bool has_ahead;
    uint32_t loops;    // `for` bodies around the current token, within the macro
    uint32_t macros;   // macro bodies around it
    uint32_t tag_line; // where the statement whose block comes next began
} ps_jinja_parser;

PS_MUST_USE ps_status ps_jinja_advance(ps_jinja_parser *p);
PS_MUST_USE ps_status ps_jinja_peek(ps_jinja_parser *p, ps_jinja_token *out);

bool ps_jinja_at_operator(const ps_jinja_parser *p, const char *op);
bool ps_jinja_at_name(const ps_jinja_parser *p, const char *name);
// Steps over the operator (the name) if it is the current token; *out_found says so.
PS_MUST_USE ps_status ps_jinja_accept_operator(ps_jinja_parser *p, const char *op, bool *out_found);
PS_MUST_USE ps_status ps_jinja_accept_name(ps_jinja_parser *p, const char *name, bool *out_found);
PS_MUST_USE ps_status ps_jinja_expect_operator(ps_jinja_parser *p, const char *op);
PS_MUST_USE ps_status ps_jinja_expect_name(ps_jinja_parser *p, const char *name);

// PS_INVALID: "expected <wanted>, found <the current token>".
ps_status ps_jinja_unexpected(ps_jinja_parser *p, const char *wanted);

PS_MUST_USE ps_status ps_jinja_new_expr(ps_jinja_parser *p, ps_jinja_expr_kind kind, uint32_t line,
                                        ps_jinja_expr **out);
PS_MUST_USE ps_status ps_jinja_new_literal(ps_jinja_parser *p, ps_jinja_value value,
                                           ps_jinja_expr **out);
PS_MUST_USE ps_status ps_jinja_push_expr(ps_jinja_parser *p, ps_jinja_expr_list *list,
                                         ps_jinja_expr *item);

// The current token is a string (those that follow it are part of it), an integer or a real.
PS_MUST_USE ps_status ps_jinja_parse_string(ps_jinja_parser *p, ps_jinja_expr **out);
PS_MUST_USE ps_status ps_jinja_parse_number(ps_jinja_parser *p, ps_jinja_expr **out);

PS_MUST_USE ps_status ps_jinja_parse_expression(ps_jinja_parser *p, ps_jinja_expr **out);
// Without `a if b else c` at the top, as `for ... in` wants it.
PS_MUST_USE ps_status ps_jinja_parse_unconditional(ps_jinja_parser *p, ps_jinja_expr **out);
// An expression, or several with commas between them as a tuple.
PS_MUST_USE ps_status ps_jinja_parse_tuple(ps_jinja_parser *p, bool conditional,
                                           ps_jinja_expr **out);
// `name(args)|name...` applied to `subject`; the current token is the first filter's name.
PS_MUST_USE ps_status ps_jinja_parse_filters(ps_jinja_parser *p, ps_jinja_expr *subject,
                                             ps_jinja_expr **out);
PS_MUST_USE ps_status ps_jinja_parse_postfix(ps_jinja_parser *p, ps_jinja_expr *subject,
                                             ps_jinja_expr **out);

#endif
