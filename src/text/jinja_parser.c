// text/jinja_parser.c - parses statements: the blocks `{% ... %}` and the text between them.
#include "text/jinja_parse_internal.h"

#include <string.h>

// The tags that may end the block being parsed, such as {"elif", "else", "endif"}.
#define ENDS_MAX 3
typedef struct block_ends {
    const char *names[ENDS_MAX]; // NULL behind the last
} block_ends;

static ps_status parse_block(ps_jinja_parser *p, const block_ends *ends, const char *opener,
                             ps_jinja_node **out_body);

ps_status ps_jinja_advance(ps_jinja_parser *p)
{
    if (p->has_ahead) {
        p->token = p->ahead;
        p->has_ahead = false;
    } else {
        PS_TRY(ps_jinja_lexer_next(&p->lexer, &p->token));
    }
    p->budget->line = p->token.line;
    return PS_OK;
}

ps_status ps_jinja_peek(ps_jinja_parser *p, ps_jinja_token *out)
{
    if (!p->has_ahead) {
        PS_TRY(ps_jinja_lexer_next(&p->lexer, &p->ahead));
        p->has_ahead = true;
    }
    *out = p->ahead;
    return PS_OK;
}

bool ps_jinja_at_operator(const ps_jinja_parser *p, const char *op)
{
    return p->token.kind == PS_JINJA_TOKEN_OPERATOR && ps_str_equal(p->token.text, op);
}

bool ps_jinja_at_name(const ps_jinja_parser *p, const char *name)
{
    return p->token.kind == PS_JINJA_TOKEN_NAME && ps_str_equal(p->token.text, name);
}

ps_status ps_jinja_accept_operator(ps_jinja_parser *p, const char *op, bool *out_found)
{
    *out_found = ps_jinja_at_operator(p, op);
    return *out_found ? ps_jinja_advance(p) : PS_OK;
}

ps_status ps_jinja_accept_name(ps_jinja_parser *p, const char *name, bool *out_found)
{
    *out_found = ps_jinja_at_name(p, name);
    return *out_found ? ps_jinja_advance(p) : PS_OK;
}

static ps_status expect(ps_jinja_parser *p, bool found, const char *wanted)
{
    return found ? ps_jinja_advance(p) : ps_jinja_unexpected(p, wanted);
}

ps_status ps_jinja_expect_operator(ps_jinja_parser *p, const char *op)
{
    const char wanted[] = {'\'', op[0], '\'', '\0'};
    return expect(p, ps_jinja_at_operator(p, op), wanted);
}

ps_status ps_jinja_expect_name(ps_jinja_parser *p, const char *name)
{
    return expect(p, ps_jinja_at_name(p, name), name);
}

ps_status ps_jinja_unexpected(ps_jinja_parser *p, const char *wanted)
{
    if (p->token.kind == PS_JINJA_TOKEN_END) {
        return ps_jinja_fail(p->budget, PS_INVALID, "expected %s, found the end of the template",
                             wanted);
    }
    const int length = p->token.text.length > 40 ? 40 : (int)p->token.text.length;
    return ps_jinja_fail(p->budget, PS_INVALID, "expected %s, found '%.*s'", wanted, length,
                         p->token.text.data);
}

static ps_status end_block_tag(ps_jinja_parser *p)
{
    return expect(p, p->token.kind == PS_JINJA_TOKEN_BLOCK_END, "'%}'");
}

static ps_status read_name(ps_jinja_parser *p, const char *wanted, ps_str *out)
{
    *out = p->token.text;
    return expect(p, p->token.kind == PS_JINJA_TOKEN_NAME, wanted);
}

static ps_status new_node(ps_jinja_parser *p, ps_jinja_node_kind kind, ps_jinja_node **out)
{
    ps_jinja_node *node = NULL;
    PS_JINJA_NEW(p->budget, node, 1);
    node->kind = kind;
    node->line = p->token.line;
    *out = node;
    return PS_OK;
}

static ps_status parse_target_item(ps_jinja_parser *p, bool attributes, ps_jinja_target **out);

// a, b, c up to what cannot belong to it; one item without comma is that item.
static ps_status parse_target(ps_jinja_parser *p, bool attributes, ps_jinja_target **out)
{
    ps_jinja_target *items[16];
    size_t count = 0;
    bool more = true;
    bool comma = false;
    while (more && (p->token.kind == PS_JINJA_TOKEN_NAME || ps_jinja_at_operator(p, "(")) &&
           !ps_jinja_at_name(p, "in")) {
        if (count == sizeof items / sizeof items[0]) {
            return ps_jinja_fail(p->budget, PS_EXHAUSTED,
                                 "the template's limit of 16 names to assign to is reached");
        }
        PS_TRY(parse_target_item(p, attributes, &items[count++]));
        PS_TRY(ps_jinja_accept_operator(p, ",", &more));
        comma = comma || more;
    }
    if (count == 0) {
        (void)ps_jinja_unexpected(p, "a name to assign to");
        return PS_INVALID;
    }
    if (!comma) {
        *out = items[0];
        return PS_OK;
    }
    ps_jinja_target *tuple = NULL;
    PS_JINJA_NEW(p->budget, tuple, 1);
    PS_JINJA_NEW(p->budget, tuple->items, count);
    memcpy(tuple->items, items, count * sizeof items[0]);
    tuple->count = count;
    *out = tuple;
    return PS_OK;
}

static bool is_reserved(ps_str name)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (ps_str_equal(name, reserved[i])) {
            return true;
        }
    }
    return false;
}

static ps_status parse_target_item(ps_jinja_parser *p, bool attributes, ps_jinja_target **out)
{
    bool found = false;
    PS_TRY(ps_jinja_accept_operator(p, "(", &found));
    if (found) {
        PS_TRY(ps_jinja_enter(p->budget));
        PS_TRY(parse_target(p, attributes, out));
        ps_jinja_leave(p->budget);
        return ps_jinja_expect_operator(p, ")");
    }
    ps_jinja_target *target = NULL;
    PS_JINJA_NEW(p->budget, target, 1);
    if (is_reserved(p->token.text)) {
        return ps_jinja_unexpected(p, "a name to assign to");
    }
    PS_TRY(read_name(p, "a name to assign to", &target->name));
    if (attributes) {
        PS_TRY(ps_jinja_accept_operator(p, ".", &found));
        if (found) {
            PS_TRY(read_name(p, "the name of an attribute", &target->attribute));
        }
    }
    *out = target;
    return PS_OK;
}

// Behind `if` or `elif`: the rest of the statement up to and with `endif`.
static ps_status parse_if(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"elif", "else", "endif"}};
    static const block_ends last = {{"endif"}};
    ps_jinja_branch **tail = &node->as.branches;
    bool more = true;
    bool otherwise = false;
    while (more) {
        ps_jinja_branch *branch = NULL;
        PS_JINJA_NEW(p->budget, branch, 1);
        if (!otherwise) {
            PS_TRY(ps_jinja_parse_tuple(p, true, &branch->condition));
        }
        PS_TRY(end_block_tag(p));
        PS_TRY(parse_block(p, otherwise ? &last : &ends, "if", &branch->body));
        *tail = branch;
        tail = &branch->next;
        otherwise = ps_jinja_at_name(p, "else");
        more = otherwise || ps_jinja_at_name(p, "elif");
        PS_TRY(ps_jinja_advance(p));
    }
    return end_block_tag(p);
}

static ps_status parse_for_body(ps_jinja_parser *p, ps_jinja_for *loop)
{
    static const block_ends ends = {{"else", "endfor"}};
    static const block_ends last = {{"endfor"}};
    bool otherwise = false;
    PS_TRY(end_block_tag(p));
    p->loops++;
    PS_TRY(parse_block(p, &ends, "for", &loop->body));
    p->loops--;
    PS_TRY(ps_jinja_accept_name(p, "else", &otherwise));
    if (otherwise) {
        PS_TRY(end_block_tag(p));
        PS_TRY(parse_block(p, &last, "for", &loop->otherwise));
    }
    PS_TRY(ps_jinja_expect_name(p, "endfor"));
    return end_block_tag(p);
}

static ps_status parse_for(ps_jinja_parser *p, ps_jinja_node *node)
{
    ps_jinja_for *loop = NULL;
    bool found = false;
    PS_JINJA_NEW(p->budget, loop, 1);
    node->as.loop = loop;
    PS_TRY(parse_target(p, false, &loop->target));
    PS_TRY(ps_jinja_expect_name(p, "in"));
    PS_TRY(ps_jinja_parse_tuple(p, false, &loop->iterable));
    PS_TRY(ps_jinja_accept_name(p, "if", &found));
    if (found) {
        PS_TRY(ps_jinja_parse_expression(p, &loop->condition));
    }
    if (ps_jinja_at_name(p, "recursive")) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "'for ... recursive' is not supported");
    }
    return parse_for_body(p, loop);
}

static ps_status parse_captured(ps_jinja_parser *p, ps_jinja_expr **out)
{
    ps_jinja_expr *captured = NULL;
    PS_TRY(ps_jinja_new_expr(p, PS_JINJA_EXPR_CAPTURED, p->token.line, &captured));
    *out = captured;
    return PS_OK;
}

static ps_status parse_set(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endset"}};
    bool found = false;
    PS_TRY(parse_target(p, true, &node->as.set.target));
    PS_TRY(ps_jinja_accept_operator(p, "=", &found));
    if (found) {
        PS_TRY(ps_jinja_parse_tuple(p, true, &node->as.set.value));
        return end_block_tag(p);
    }
    node->kind = PS_JINJA_NODE_SET_BLOCK;
    PS_TRY(parse_captured(p, &node->as.set.value));
    PS_TRY(ps_jinja_accept_operator(p, "|", &found));
    if (found) {
        PS_TRY(ps_jinja_parse_filters(p, node->as.set.value, &node->as.set.value));
    }
    PS_TRY(end_block_tag(p));
    PS_TRY(parse_block(p, &ends, "set", &node->as.set.body));
    PS_TRY(ps_jinja_advance(p));
    return end_block_tag(p);
}

static ps_status parse_filter_block(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endfilter"}};
    PS_TRY(parse_captured(p, &node->as.set.value));
    PS_TRY(ps_jinja_parse_filters(p, node->as.set.value, &node->as.set.value));
    PS_TRY(end_block_tag(p));
    PS_TRY(parse_block(p, &ends, "filter", &node->as.set.body));
    PS_TRY(ps_jinja_advance(p));
    return end_block_tag(p);
}

static ps_status push_parameter(ps_jinja_parser *p, ps_jinja_parameters *parameters, ps_str name,
                                ps_jinja_expr *value)
{
    ps_str *names = NULL;
    ps_jinja_expr **defaults = NULL;
    const size_t count = parameters->count;
    if (count == 64) {
        return ps_jinja_fail(p->budget, PS_EXHAUSTED,
                             "the template's limit of 64 parameters is reached");
    }
    PS_JINJA_NEW(p->budget, names, count + 1);
    PS_JINJA_NEW(p->budget, defaults, count + 1);
    if (count > 0) {
        memcpy(names, parameters->names, count * sizeof *names);
        memcpy(defaults, parameters->defaults, count * sizeof *defaults);
    }
    names[count] = name;
    defaults[count] = value;
    *parameters = (ps_jinja_parameters){.names = names, .defaults = defaults, .count = count + 1};
    return PS_OK;
}

// The current token is "(".
static ps_status parse_parameters(ps_jinja_parser *p, ps_jinja_parameters *parameters)
{
    bool defaulted = false;
    PS_TRY(ps_jinja_expect_operator(p, "("));
    while (!ps_jinja_at_operator(p, ")")) {
        ps_str name = {0};
        ps_jinja_expr *value = NULL;
        bool found = false;
        PS_TRY(read_name(p, "the name of a parameter", &name));
        PS_TRY(ps_jinja_accept_operator(p, "=", &found));
        if (found) {
            PS_TRY(ps_jinja_parse_expression(p, &value));
        } else if (defaulted) {
            return ps_jinja_fail(p->budget, PS_INVALID,
                                 "parameter '%.*s' needs a default, as the one before it",
                                 (int)name.length, name.data);
        }
        defaulted = found;
        PS_TRY(push_parameter(p, parameters, name, value));
        if (!ps_jinja_at_operator(p, ")")) {
            PS_TRY(ps_jinja_expect_operator(p, ","));
        }
    }
    return ps_jinja_expect_operator(p, ")");
}

static ps_status parse_macro_body(ps_jinja_parser *p, const block_ends *ends, const char *opener,
                                  ps_jinja_macro_node *macro)
{
    const uint32_t loops = p->loops;
    p->loops = 0; // a macro cannot break out of the loop it stands in
    p->macros++;
    PS_TRY(end_block_tag(p));
    PS_TRY(parse_block(p, ends, opener, &macro->body));
    PS_TRY(ps_jinja_advance(p));
    p->macros--;
    p->loops = loops;
    return end_block_tag(p);
}

static ps_status parse_macro(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endmacro"}};
    PS_JINJA_NEW(p->budget, node->as.macro, 1);
    PS_TRY(read_name(p, "the name of a macro", &node->as.macro->name));
    PS_TRY(parse_parameters(p, &node->as.macro->parameters));
    return parse_macro_body(p, &ends, "macro", node->as.macro);
}

static ps_status parse_call_block(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endcall"}};
    PS_JINJA_NEW(p->budget, node->as.macro, 1);
    node->as.macro->name = ps_str_of("caller");
    if (ps_jinja_at_operator(p, "(")) {
        PS_TRY(parse_parameters(p, &node->as.macro->parameters));
    }
    PS_TRY(ps_jinja_parse_expression(p, &node->as.macro->call));
    if (node->as.macro->call->kind != PS_JINJA_EXPR_CALL) {
        return ps_jinja_unexpected(p, "a call");
    }
    return parse_macro_body(p, &ends, "call", node->as.macro);
}

static ps_status parse_with(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endwith"}};
    while (p->token.kind != PS_JINJA_TOKEN_BLOCK_END) {
        ps_str name = {0};
        ps_jinja_expr *value = NULL;
        if (node->as.with.variables.count > 0) {
            PS_TRY(ps_jinja_expect_operator(p, ","));
        }
        PS_TRY(read_name(p, "a name to assign to", &name));
        PS_TRY(ps_jinja_expect_operator(p, "="));
        PS_TRY(ps_jinja_parse_expression(p, &value));
        PS_TRY(push_parameter(p, &node->as.with.variables, name, value));
    }
    PS_TRY(end_block_tag(p));
    PS_TRY(parse_block(p, &ends, "with", &node->as.with.body));
    PS_TRY(ps_jinja_advance(p));
    return end_block_tag(p);
}

static ps_status parse_generation(ps_jinja_parser *p, ps_jinja_node *node)
{
    static const block_ends ends = {{"endgeneration"}};
    PS_TRY(end_block_tag(p));
    PS_TRY(parse_block(p, &ends, "generation", &node->as.with.body));
    PS_TRY(ps_jinja_advance(p));
    return end_block_tag(p);
}

static ps_status parse_jump(ps_jinja_parser *p, ps_jinja_node *node)
{
    if (p->loops == 0) {
        return ps_jinja_fail(p->budget, PS_INVALID, "'break' and 'continue' belong into a loop");
    }
    return end_block_tag(p);
}

// The current token is the name of the tag.
static ps_status parse_statement(ps_jinja_parser *p, ps_jinja_node **out)
{
    static const struct {
        const char *tag;
        ps_jinja_node_kind kind;
        ps_status (*parse)(ps_jinja_parser *p, ps_jinja_node *node);
    } tags[] = {
        {"if", PS_JINJA_NODE_IF, parse_if},
        {"for", PS_JINJA_NODE_FOR, parse_for},
        {"set", PS_JINJA_NODE_SET, parse_set},
        {"filter", PS_JINJA_NODE_FILTER_BLOCK, parse_filter_block},
        {"macro", PS_JINJA_NODE_MACRO, parse_macro},
        {"call", PS_JINJA_NODE_CALL_BLOCK, parse_call_block},
        {"with", PS_JINJA_NODE_WITH, parse_with},
        {"generation", PS_JINJA_NODE_GROUP, parse_generation},
        {"break", PS_JINJA_NODE_BREAK, parse_jump},
        {"continue", PS_JINJA_NODE_CONTINUE, parse_jump},
    };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (ps_jinja_at_name(p, tags[i].tag)) {
            ps_jinja_node *node = NULL;
            PS_TRY(new_node(p, tags[i].kind, &node));
            p->tag_line = node->line;
            PS_TRY(ps_jinja_advance(p));
            PS_TRY(tags[i].parse(p, node));
            *out = node;
            return PS_OK;
        }
    }
    if (p->token.kind != PS_JINJA_TOKEN_NAME) {
        return ps_jinja_unexpected(p, "the name of a tag");
    }
    return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "tag '%.*s' is not supported here",
                         (int)p->token.text.length, p->token.text.data);
}

static bool ends_block(const ps_jinja_parser *p, const block_ends *ends)
{
    for (size_t i = 0; ends != NULL && i < ENDS_MAX && ends->names[i] != NULL; i++) {
        if (ps_jinja_at_name(p, ends->names[i])) {
            return true;
        }
    }
    return false;
}

// One piece of text, output or statement. *out stays NULL at the tag that ends the block.
static ps_status parse_node(ps_jinja_parser *p, const block_ends *ends, ps_jinja_node **out)
{
    *out = NULL;
    if (p->token.kind == PS_JINJA_TOKEN_DATA) {
        PS_TRY(new_node(p, PS_JINJA_NODE_TEXT, out));
        (*out)->as.text = p->token.text;
        return ps_jinja_advance(p);
    }
    const bool is_output = p->token.kind == PS_JINJA_TOKEN_VARIABLE_BEGIN;
    PS_TRY(ps_jinja_advance(p));
    if (is_output) {
        PS_TRY(new_node(p, PS_JINJA_NODE_OUTPUT, out));
        PS_TRY(ps_jinja_parse_tuple(p, true, &(*out)->as.output));
        return expect(p, p->token.kind == PS_JINJA_TOKEN_VARIABLE_END, "'}}'");
    }
    return ends_block(p, ends) ? PS_OK : parse_statement(p, out);
}

// Parses up to one of the tags `ends` (NULL: up to the end of the template), whose name is then the
// current token.
static ps_status parse_block(ps_jinja_parser *p, const block_ends *ends, const char *opener,
                             ps_jinja_node **out_body)
{
    const uint32_t line = p->tag_line;
    ps_jinja_node *first = NULL;
    ps_jinja_node **tail = &first;
    PS_TRY(ps_jinja_enter(p->budget));
    for (;;) {
        ps_jinja_node *node = NULL;
        if (p->token.kind == PS_JINJA_TOKEN_END) {
            if (ends == NULL) {
                break;
            }
            p->budget->line = line;
            return ps_jinja_fail(p->budget, PS_INVALID, "'%s' has no 'end%s'", opener, opener);
        }
        PS_TRY(parse_node(p, ends, &node));
        if (node == NULL) {
            break;
        }
        *tail = node;
        tail = &node->next;
    }
    ps_jinja_leave(p->budget);
    p->tag_line = line; // for the next block of the same statement
    *out_body = first;
    return PS_OK;
}

ps_status ps_jinja_parse(ps_jinja_budget *budget, ps_str source, ps_jinja_node **out_body)
{
    ps_jinja_parser p = {.budget = budget};
    PS_TRY(ps_jinja_lexer_init(&p.lexer, budget, source));
    PS_TRY(ps_jinja_advance(&p));
    return parse_block(&p, NULL, "", out_body);
}
