// text/jinja_exec.c - runs statements.
#include "text/jinja_run.h"

#include <string.h>

ps_status ps_jinja_new_scope(ps_jinja_run *run, ps_jinja_scope *parent, ps_jinja_scope **out)
{
    PS_JINJA_NEW(&run->budget, *out, 1);
    (*out)->parent = parent;
    return PS_OK;
}

ps_status ps_jinja_bind(ps_jinja_run *run, ps_jinja_scope *scope, ps_str name, ps_jinja_value value)
{
    ps_jinja_binding *binding = scope->bindings;
    while (binding != NULL && (binding->name.length != name.length ||
                               memcmp(binding->name.data, name.data, name.length) != 0)) {
        binding = binding->next;
    }
    if (binding == NULL) {
        PS_JINJA_NEW(&run->budget, binding, 1);
        binding->name = name;
        binding->next = scope->bindings;
        scope->bindings = binding;
    }
    binding->value = value;
    return PS_OK;
}

static ps_status set_attribute(ps_jinja_run *run, const ps_jinja_target *target,
                               ps_jinja_value value)
{
    const ps_jinja_expr name = {
        .kind = PS_JINJA_EXPR_NAME, .line = run->budget.line, .as.name = target->name};
    ps_jinja_value space = {0};
    PS_TRY(ps_jinja_evaluate(run, &name, &space));
    if (space.kind != PS_JINJA_NAMESPACE) {
        return ps_jinja_fail(&run->budget, PS_INVALID,
                             "'%.*s' is no namespace, so its attributes cannot be set",
                             (int)target->name.length, target->name.data);
    }
    const ps_jinja_value key = ps_jinja_of_string((ps_jinja_string){
        .data = target->attribute.data, .length = target->attribute.length, .trusted = true});
    return ps_jinja_dict_set(&run->budget, space.as.dict, key, value);
}

// Nested no deeper than the parser's depth.
static ps_status assign(ps_jinja_run *run, const ps_jinja_target *target, ps_jinja_value value)
{
    if (target->attribute.length > 0) {
        return set_attribute(run, target, value);
    }
    if (target->count == 0) {
        return ps_jinja_bind(run, run->scope, target->name, value);
    }
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_iterate(&run->budget, &value, &items));
    if (items->count != target->count) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "%zu values for %zu names", items->count,
                             target->count);
    }
    for (size_t i = 0; i < items->count; i++) {
        PS_TRY(assign(run, target->items[i], items->items[i]));
    }
    return PS_OK;
}

static ps_status run_if(ps_jinja_run *run, const ps_jinja_node *node)
{
    for (const ps_jinja_branch *branch = node->as.branches; branch != NULL; branch = branch->next) {
        ps_jinja_value condition = ps_jinja_of_boolean(true);
        if (branch->condition != NULL) {
            PS_TRY(ps_jinja_evaluate(run, branch->condition, &condition));
        }
        if (ps_jinja_truth(&condition)) {
            return ps_jinja_run_block(run, branch->body);
        }
    }
    return PS_OK;
}

// The items for which the loop's condition holds.
static ps_status select_items(ps_jinja_run *run, const ps_jinja_for *loop,
                              const ps_jinja_list *items, const ps_jinja_list **out)
{
    ps_jinja_value kept = {0};
    ps_jinja_scope *const outer = run->scope;
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_PLAIN, items->count, &kept));
    PS_TRY(ps_jinja_new_scope(run, outer, &run->scope));
    for (size_t i = 0; i < items->count; i++) {
        ps_jinja_value condition = {0};
        PS_TRY(assign(run, loop->target, items->items[i]));
        PS_TRY(ps_jinja_evaluate(run, loop->condition, &condition));
        if (ps_jinja_truth(&condition)) {
            PS_TRY(ps_jinja_list_append(&run->budget, kept.as.list, items->items[i]));
        }
    }
    run->scope = outer;
    *out = kept.as.list;
    return PS_OK;
}

static ps_status run_iterations(ps_jinja_run *run, const ps_jinja_for *node, ps_jinja_loop *loop)
{
    ps_jinja_scope *const outer = run->scope;
    const ps_jinja_value variable = {.kind = PS_JINJA_LOOP, .as.loop = loop};
    for (; loop->index < loop->items->count; loop->index++) {
        PS_TRY(ps_jinja_spend(&run->budget, 1));
        PS_TRY(ps_jinja_new_scope(run, outer, &run->scope));
        PS_TRY(ps_jinja_bind(run, run->scope, ps_str_of("loop"), variable));
        PS_TRY(assign(run, node->target, loop->items->items[loop->index]));
        PS_TRY(ps_jinja_run_block(run, node->body));
        const bool left = run->flow == PS_JINJA_BREAK;
        run->flow = PS_JINJA_GO_ON;
        if (left) {
            break;
        }
    }
    run->scope = outer;
    return PS_OK;
}

static ps_status run_in_new_scope(ps_jinja_run *run, const ps_jinja_node *body)
{
    ps_jinja_scope *const outer = run->scope;
    PS_TRY(ps_jinja_new_scope(run, outer, &run->scope));
    PS_TRY(ps_jinja_run_block(run, body));
    run->scope = outer;
    return PS_OK;
}

static ps_status run_for(ps_jinja_run *run, const ps_jinja_for *node)
{
    ps_jinja_value iterable = {0};
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_evaluate(run, node->iterable, &iterable));
    PS_TRY(ps_jinja_iterate(&run->budget, &iterable, &items));
    if (node->condition != NULL) {
        PS_TRY(select_items(run, node, items, &items));
    }
    if (items->count == 0) {
        return run_in_new_scope(run, node->otherwise);
    }
    ps_jinja_loop *loop = NULL;
    PS_JINJA_NEW(&run->budget, loop, 1);
    loop->items = items;
    return run_iterations(run, node, loop);
}

// Runs a block in a scope of its own and gives its text.
static ps_status capture(ps_jinja_run *run, const ps_jinja_node *body, ps_jinja_value *out)
{
    ps_jinja_text *text = NULL;
    ps_jinja_text *const outer_output = run->output;
    ps_jinja_scope *const outer_scope = run->scope;
    PS_TRY(ps_jinja_new_scope(run, outer_scope, &run->scope));
    PS_JINJA_NEW(&run->budget, text, 1);
    run->output = text;
    PS_TRY(ps_jinja_run_block(run, body));
    run->output = outer_output;
    run->scope = outer_scope;
    *out = ps_jinja_text_finish(text);
    return PS_OK;
}

static ps_status output_value(ps_jinja_run *run, const ps_jinja_value *value)
{
    ps_jinja_string string = {0};
    PS_TRY(ps_jinja_to_string(&run->budget, value, &string));
    return ps_jinja_text_add(&run->budget, run->output, string);
}

static ps_status run_set(ps_jinja_run *run, const ps_jinja_node *node)
{
    ps_jinja_value value = {0};
    if (node->kind != PS_JINJA_NODE_SET) {
        PS_TRY(capture(run, node->as.set.body, &run->captured));
        run->budget.line = node->line;
    }
    PS_TRY(ps_jinja_evaluate(run, node->as.set.value, &value));
    run->budget.line = node->line;
    if (node->kind == PS_JINJA_NODE_FILTER_BLOCK) {
        return output_value(run, &value);
    }
    return assign(run, node->as.set.target, value);
}

static ps_status make_macro(ps_jinja_run *run, const ps_jinja_node *node, ps_jinja_value *out)
{
    ps_jinja_macro *macro = NULL;
    PS_JINJA_NEW(&run->budget, macro, 1);
    *macro = (ps_jinja_macro){.node = node->as.macro, .scope = run->scope};
    *out = (ps_jinja_value){.kind = PS_JINJA_MACRO, .as.macro = macro};
    return PS_OK;
}

static ps_status run_macro(ps_jinja_run *run, const ps_jinja_node *node)
{
    ps_jinja_value macro = {0};
    PS_TRY(make_macro(run, node, &macro));
    return ps_jinja_bind(run, run->scope, node->as.macro->name, macro);
}

// The call of a call block, with the block as one more argument named `caller`.
static ps_status run_call_block(ps_jinja_run *run, const ps_jinja_node *node)
{
    const ps_jinja_expr *call = node->as.macro->call;
    const ps_jinja_call_syntax *written = call->as.call.arguments;
    ps_jinja_call_syntax extended = *written;
    ps_jinja_expr *caller = NULL;
    ps_jinja_value result = {0};
    PS_JINJA_NEW(&run->budget, caller, 1);
    *caller = (ps_jinja_expr){.kind = PS_JINJA_EXPR_LITERAL, .line = node->line};
    PS_TRY(make_macro(run, node, &caller->as.literal));
    const size_t count = written->named.count;
    PS_JINJA_NEW(&run->budget, extended.named.items, count + 1);
    PS_JINJA_NEW(&run->budget, extended.names, count + 1);
    if (count > 0) {
        memcpy(extended.named.items, written->named.items, count * sizeof written->named.items[0]);
        memcpy(extended.names, written->names, count * sizeof written->names[0]);
    }
    extended.named.items[count] = caller;
    extended.names[count] = node->as.macro->name;
    extended.named.count = count + 1;
    ps_jinja_expr made = *call;
    made.as.call.arguments = &extended;
    PS_TRY(ps_jinja_evaluate(run, &made, &result));
    return output_value(run, &result);
}

static ps_status run_with(ps_jinja_run *run, const ps_jinja_node *node)
{
    const ps_jinja_parameters *variables = &node->as.with.variables;
    ps_jinja_scope *const outer = run->scope;
    ps_jinja_scope *scope = NULL;
    PS_TRY(ps_jinja_new_scope(run, outer, &scope));
    for (size_t i = 0; i < variables->count; i++) {
        ps_jinja_value value = {0};
        PS_TRY(ps_jinja_evaluate(run, variables->defaults[i], &value));
        PS_TRY(ps_jinja_bind(run, scope, variables->names[i], value));
    }
    run->scope = scope;
    PS_TRY(ps_jinja_run_block(run, node->as.with.body));
    run->scope = outer;
    return PS_OK;
}

static ps_status run_text(ps_jinja_run *run, ps_str text)
{
    return ps_jinja_text_add_bytes(&run->budget, run->output, text.data, text.length, true);
}

static ps_status run_output(ps_jinja_run *run, const ps_jinja_node *node)
{
    ps_jinja_value value = {0};
    PS_TRY(ps_jinja_evaluate(run, node->as.output, &value));
    run->budget.line = node->line;
    return output_value(run, &value);
}

static ps_status run_node(ps_jinja_run *run, const ps_jinja_node *node)
{
    switch (node->kind) {
    case PS_JINJA_NODE_TEXT:
        return run_text(run, node->as.text);
    case PS_JINJA_NODE_OUTPUT:
        return run_output(run, node);
    case PS_JINJA_NODE_IF:
        return run_if(run, node);
    case PS_JINJA_NODE_FOR:
        return run_for(run, node->as.loop);
    case PS_JINJA_NODE_SET:
    case PS_JINJA_NODE_SET_BLOCK:
    case PS_JINJA_NODE_FILTER_BLOCK:
        return run_set(run, node);
    case PS_JINJA_NODE_MACRO:
        return run_macro(run, node);
    case PS_JINJA_NODE_CALL_BLOCK:
        return run_call_block(run, node);
    case PS_JINJA_NODE_WITH:
    case PS_JINJA_NODE_GROUP:
        return run_with(run, node);
    case PS_JINJA_NODE_BREAK:
        run->flow = PS_JINJA_BREAK;
        return PS_OK;
    case PS_JINJA_NODE_CONTINUE:
        run->flow = PS_JINJA_CONTINUE;
        return PS_OK;
    }
    return ps_jinja_fail(&run->budget, PS_INTERNAL, "statement of kind %d", (int)node->kind);
}

ps_status ps_jinja_run_block(ps_jinja_run *run, const ps_jinja_node *body)
{
    PS_TRY(ps_jinja_enter(&run->budget));
    for (const ps_jinja_node *node = body; node != NULL; node = node->next) {
        PS_TRY(ps_jinja_spend(&run->budget, 1));
        run->budget.line = node->line;
        PS_TRY(run_node(run, node));
        if (run->flow != PS_JINJA_GO_ON) {
            break;
        }
    }
    ps_jinja_leave(&run->budget);
    return PS_OK;
}
