// text/jinja_ast.h - a parsed template. All of it lives in the arena of the parse and never
// changes.
#ifndef PS_TEXT_JINJA_AST_H
#define PS_TEXT_JINJA_AST_H

#include "text/jinja_builtin.h"
#include "text/jinja_value.h"

typedef enum ps_jinja_operator {
    PS_JINJA_ADD,
    PS_JINJA_SUBTRACT,
    PS_JINJA_MULTIPLY,
    PS_JINJA_DIVIDE,
    PS_JINJA_FLOOR_DIVIDE,
    PS_JINJA_MODULO,
    PS_JINJA_POWER,
    PS_JINJA_CONCAT,
    PS_JINJA_EQUAL,
    PS_JINJA_NOT_EQUAL,
    PS_JINJA_LESS,
    PS_JINJA_LESS_EQUAL,
    PS_JINJA_GREATER,
    PS_JINJA_GREATER_EQUAL,
    PS_JINJA_IN,
    PS_JINJA_NOT_IN,
} ps_jinja_operator;

typedef enum ps_jinja_expr_kind {
    PS_JINJA_EXPR_LITERAL,
    PS_JINJA_EXPR_NAME,
    PS_JINJA_EXPR_LIST,
    PS_JINJA_EXPR_TUPLE,
    PS_JINJA_EXPR_DICT,
    PS_JINJA_EXPR_NEGATE,
    PS_JINJA_EXPR_PLUS,
    PS_JINJA_EXPR_NOT,
    PS_JINJA_EXPR_AND,
    PS_JINJA_EXPR_OR,
    PS_JINJA_EXPR_BINARY,
    PS_JINJA_EXPR_COMPARE,
    PS_JINJA_EXPR_CONDITIONAL,
    PS_JINJA_EXPR_ATTRIBUTE,
    PS_JINJA_EXPR_ITEM,
    PS_JINJA_EXPR_SLICE,
    PS_JINJA_EXPR_CALL,
    PS_JINJA_EXPR_FILTER,
    PS_JINJA_EXPR_TEST,
    PS_JINJA_EXPR_CAPTURED, // the text that a filter or set block has just rendered
} ps_jinja_expr_kind;

typedef struct ps_jinja_expr ps_jinja_expr;
typedef struct ps_jinja_node ps_jinja_node;

typedef struct ps_jinja_expr_list {
    ps_jinja_expr **items; // [count]
    size_t count;
    size_t capacity;
} ps_jinja_expr_list;

// The arguments of a call as they are written.
typedef struct ps_jinja_call_syntax {
    ps_jinja_expr_list positional;
    ps_jinja_expr_list named;
    ps_str *names; // [named.count]
} ps_jinja_call_syntax;

// `a <= b < c`: operators[i] stands between the operands i and i + 1.
typedef struct ps_jinja_comparison {
    ps_jinja_expr_list operands;
    ps_jinja_operator *operators; // [operands.count - 1]
} ps_jinja_comparison;

struct ps_jinja_expr {
    ps_jinja_expr_kind kind;
    uint32_t line;
    union {
        ps_jinja_value literal;
        ps_str name;
        ps_jinja_expr_list list; // LIST and TUPLE; DICT: key, value, key, value, ...
        ps_jinja_comparison *comparison;
        struct {
            ps_jinja_operator op;
            ps_jinja_expr *a; // all with one operand use this one
            ps_jinja_expr *b;
        } binary;
        struct {
            ps_jinja_expr *condition;
            ps_jinja_expr *then;
            ps_jinja_expr *otherwise; // NULL: undefined
        } conditional;
        struct {
            ps_jinja_expr *subject;
            ps_str name;
        } attribute;
        struct {
            ps_jinja_expr *subject;
            ps_jinja_expr *start; // NULL: not given; so are the others
            ps_jinja_expr *stop;
            ps_jinja_expr *step;
        } slice;
        struct { // CALL, FILTER and TEST
            ps_jinja_expr *subject;
            const ps_jinja_builtin *builtin; // NULL for CALL
            ps_jinja_call_syntax *arguments;
            bool negated; // `is not`
        } call;
    } as;
};

// What `for` and `set` assign to: a name, an attribute of a namespace, or several of them.
typedef struct ps_jinja_target {
    ps_str name;                    // empty for a tuple
    ps_str attribute;               // empty for none
    struct ps_jinja_target **items; // of a tuple [count]
    size_t count;
} ps_jinja_target;

typedef struct ps_jinja_parameters {
    ps_str *names;            // [count]
    ps_jinja_expr **defaults; // [count], NULL where there is none
    size_t count;
} ps_jinja_parameters;

typedef enum ps_jinja_node_kind {
    PS_JINJA_NODE_TEXT,
    PS_JINJA_NODE_OUTPUT,
    PS_JINJA_NODE_IF,
    PS_JINJA_NODE_FOR,
    PS_JINJA_NODE_SET,
    PS_JINJA_NODE_SET_BLOCK,
    PS_JINJA_NODE_FILTER_BLOCK,
    PS_JINJA_NODE_MACRO,
    PS_JINJA_NODE_CALL_BLOCK,
    PS_JINJA_NODE_WITH,
    PS_JINJA_NODE_GROUP, // {% generation %}: its body, nothing else
    PS_JINJA_NODE_BREAK,
    PS_JINJA_NODE_CONTINUE,
} ps_jinja_node_kind;

// One `if` or `elif`; an `else` has no condition.
typedef struct ps_jinja_branch {
    ps_jinja_expr *condition;
    ps_jinja_node *body;
    struct ps_jinja_branch *next;
} ps_jinja_branch;

typedef struct ps_jinja_for {
    ps_jinja_target *target;
    ps_jinja_expr *iterable;
    ps_jinja_expr *condition; // NULL: every item
    ps_jinja_node *body;
    ps_jinja_node *otherwise;
} ps_jinja_for;

typedef struct ps_jinja_macro_node {
    ps_str name;
    ps_jinja_parameters parameters;
    ps_jinja_expr *call; // of a call block: the call that is made
    ps_jinja_node *body;
} ps_jinja_macro_node;

// A statement, and what follows it in the same block. An empty block is NULL.
struct ps_jinja_node {
    ps_jinja_node_kind kind;
    uint32_t line;
    ps_jinja_node *next;
    union {
        ps_str text;
        ps_jinja_expr *output;
        ps_jinja_branch *branches;
        ps_jinja_for *loop;
        ps_jinja_macro_node *macro;
        struct { // SET, SET_BLOCK, FILTER_BLOCK
            ps_jinja_target *target;
            ps_jinja_expr *value; // of a block: filters around EXPR_CAPTURED
            ps_jinja_node *body;
        } set;
        struct { // WITH, GROUP
            ps_jinja_parameters variables;
            ps_jinja_node *body;
        } with;
    } as;
};

// Parses a whole template. Besides syntax, the names of filters, tests and tags are checked:
// PS_UNSUPPORTED names one that does not exist here and its line.
PS_MUST_USE ps_status ps_jinja_parse(ps_jinja_budget *budget, ps_str source,
                                     ps_jinja_node **out_body);

#endif
