// text/jinja_access.c - attributes, subscripts and calls.
#include "text/jinja_run.h"
#include "text/jinja_unicode.h"

#include <string.h>

static ps_status bind_method(ps_jinja_run *run, const ps_jinja_builtin *builtin,
                             const ps_jinja_value *subject, ps_jinja_value *out)
{
    ps_jinja_method *method = NULL;
    PS_JINJA_NEW(&run->budget, method, 1);
    *method = (ps_jinja_method){.builtin = builtin, .subject = *subject};
    *out = (ps_jinja_value){.kind = PS_JINJA_METHOD, .as.method = method};
    return PS_OK;
}

// The method `name` of a value, or undefined.
static ps_status get_method(ps_jinja_run *run, const ps_jinja_value *subject, ps_str name,
                            ps_jinja_value *out)
{
    const ps_jinja_builtin *method = NULL;
    PS_TRY(ps_jinja_find_method(&run->budget, subject, name, &method));
    if (method != NULL) {
        return bind_method(run, method, subject, out);
    }
    *out = ps_jinja_undefined(name);
    return PS_OK;
}

// An item of the loop's list, or undefined where it has none.
static ps_jinja_value loop_item(const ps_jinja_loop *loop, size_t index, ps_str name)
{
    return index < loop->items->count ? loop->items->items[index] : ps_jinja_undefined(name);
}

static ps_status loop_attribute(ps_jinja_run *run, const ps_jinja_value *subject, ps_str name,
                                ps_jinja_value *out)
{
    const ps_jinja_loop *loop = subject->as.loop;
    const int64_t index = (int64_t)loop->index;
    const int64_t count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index0", index},
                   {"index", index + 1},
                   {"revindex0", count - index - 1},
                   {"revindex", count - index},
                   {"length", count},
                   {"depth0", 0},
                   {"depth", 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (ps_str_equal(name, numbers[i].name)) {
            *out = ps_jinja_of_integer(numbers[i].value);
            return PS_OK;
        }
    }
    if (ps_str_equal(name, "first")) {
        *out = ps_jinja_of_boolean(index == 0);
    } else if (ps_str_equal(name, "last")) {
        *out = ps_jinja_of_boolean(index == count - 1);
    } else if (ps_str_equal(name, "previtem")) {
        *out = loop_item(loop, loop->index - 1, name);
    } else if (ps_str_equal(name, "nextitem")) {
        *out = loop_item(loop, loop->index + 1, name);
    } else {
        return get_method(run, subject, name, out);
    }
    return PS_OK;
}

// The value behind a name in a dict, or undefined.
static ps_status get_member(ps_jinja_run *run, const ps_jinja_dict *dict, ps_str name,
                            ps_jinja_value *out)
{
    const ps_jinja_value key = ps_jinja_of_string(
        (ps_jinja_string){.data = name.data, .length = name.length});
    ps_jinja_value *found = NULL;
    PS_TRY(ps_jinja_dict_find(&run->budget, dict, &key, &found));
    *out = found == NULL ? ps_jinja_undefined(name) : *found;
    return PS_OK;
}

static ps_status fail_undefined(ps_jinja_run *run, const ps_jinja_value *subject, ps_str wanted)
{
    const ps_str name = subject->as.name;
    return ps_jinja_fail(
        &run->budget, PS_INVALID, "'%.*s' is undefined, so it has no '%.*s'",
        name.length > 60 ? 60 : (int)name.length, name.length == 0 ? "" : name.data,
        wanted.length > 60 ? 60 : (int)wanted.length, wanted.length == 0 ? "" : wanted.data);
}

ps_status ps_jinja_get_attribute(ps_jinja_run *run, const ps_jinja_value *subject, ps_str name,
                                 ps_jinja_value *out)
{
    switch (subject->kind) {
    case PS_JINJA_UNDEFINED:
        return fail_undefined(run, subject, name);
    case PS_JINJA_NAMESPACE:
        return get_member(run, subject->as.dict, name, out);
    case PS_JINJA_LOOP:
        return loop_attribute(run, subject, name, out);
    case PS_JINJA_DICT:
        PS_TRY(get_method(run, subject, name, out));
        return out->kind == PS_JINJA_METHOD ? PS_OK : get_member(run, subject->as.dict, name, out);
    default:
        return get_method(run, subject, name, out);
    }
}

static ps_status index_string(ps_jinja_run *run, ps_jinja_string string, int64_t index,
                              ps_jinja_value *out)
{
    const int64_t count = (int64_t)ps_jinja_characters(string);
    PS_TRY(ps_jinja_spend(&run->budget, string.length / 16));
    index = index < 0 ? index + count : index;
    if (index < 0 || index >= count) {
        *out = ps_jinja_undefined(ps_str_of("the character at this index"));
        return PS_OK;
    }
    const size_t begin = ps_jinja_byte_index(string, (size_t)index);
    size_t bytes = 0;
    (void)ps_jinja_decode(string.data + begin, string.length - begin, &bytes);
    *out = ps_jinja_of_string(ps_jinja_cut(string, begin, begin + bytes));
    return PS_OK;
}

static ps_status index_list(const ps_jinja_list *list, int64_t index, ps_jinja_value *out)
{
    const int64_t count = (int64_t)list->count;
    index = index < 0 ? index + count : index;
    *out = index < 0 || index >= count ? ps_jinja_undefined(ps_str_of("the item at this index"))
                                       : list->items[index];
    return PS_OK;
}

ps_status ps_jinja_get_item(ps_jinja_run *run, const ps_jinja_value *subject,
                            const ps_jinja_value *key, ps_jinja_value *out)
{
    const bool is_index = key->kind == PS_JINJA_INTEGER || key->kind == PS_JINJA_BOOLEAN;
    const int64_t index = key->kind == PS_JINJA_BOOLEAN ? key->as.boolean : key->as.integer;
    if (subject->kind == PS_JINJA_UNDEFINED) {
        return fail_undefined(run, subject,
                              key->kind == PS_JINJA_STRING ? ps_jinja_bytes(key->as.string)
                                                           : ps_str_of("items"));
    }
    if (subject->kind == PS_JINJA_STRING && is_index) {
        return index_string(run, subject->as.string, index, out);
    }
    if (subject->kind == PS_JINJA_LIST && subject->as.list->flavour <= PS_JINJA_RANGE && is_index) {
        return index_list(subject->as.list, index, out);
    }
    const bool hashable = key->kind != PS_JINJA_DICT &&
                          (key->kind != PS_JINJA_LIST || key->as.list->flavour == PS_JINJA_TUPLE);
    if (subject->kind == PS_JINJA_DICT && hashable) {
        ps_jinja_value *found = NULL;
        PS_TRY(ps_jinja_dict_find(&run->budget, subject->as.dict, key, &found));
        if (found != NULL) {
            *out = *found;
            return PS_OK;
        }
    }
    if (key->kind == PS_JINJA_STRING) {
        return ps_jinja_get_attribute(run, subject, ps_jinja_bytes(key->as.string), out);
    }
    *out = ps_jinja_undefined(ps_str_of("the item of this key"));
    return PS_OK;
}

// The argument for parameter `index`: by position, by name, or NULL.
static const ps_jinja_value *find_argument(const ps_jinja_arguments *arguments, size_t index,
                                           ps_str name)
{
    if (index < arguments->count) {
        return &arguments->values[index];
    }
    for (size_t i = 0; i < arguments->named_count; i++) {
        if (arguments->names[i].length == name.length &&
            memcmp(arguments->names[i].data, name.data, name.length) == 0) {
            return &arguments->named[i];
        }
    }
    return NULL;
}

static ps_status bind_parameters(ps_jinja_run *run, const ps_jinja_macro_node *node,
                                 const ps_jinja_arguments *arguments)
{
    const ps_jinja_parameters *parameters = &node->parameters;
    size_t taken = arguments->count < parameters->count ? arguments->count : parameters->count;
    for (size_t i = 0; i < parameters->count; i++) {
        ps_jinja_value value = ps_jinja_undefined(parameters->names[i]);
        const ps_jinja_value *given = find_argument(arguments, i, parameters->names[i]);
        if (given != NULL) {
            value = *given;
            taken += i >= arguments->count;
        } else if (parameters->defaults[i] != NULL) {
            PS_TRY(ps_jinja_evaluate(run, parameters->defaults[i], &value));
        }
        PS_TRY(ps_jinja_bind(run, run->scope, parameters->names[i], value));
    }
    const ps_str caller = ps_str_of("caller");
    const ps_jinja_value *block = find_argument(arguments, SIZE_MAX, caller);
    if (block != NULL) {
        PS_TRY(ps_jinja_bind(run, run->scope, caller, *block));
        taken++;
    }
    if (taken < arguments->count + arguments->named_count) {
        return ps_jinja_fail(&run->budget, PS_INVALID,
                             "macro '%.*s' takes %zu arguments, and not one of those given",
                             (int)node->name.length, node->name.data, parameters->count);
    }
    return PS_OK;
}

ps_status ps_jinja_call_macro(ps_jinja_run *run, const ps_jinja_macro *macro,
                              const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    ps_jinja_text *text = NULL;
    ps_jinja_text *const outer_output = run->output;
    ps_jinja_scope *const outer_scope = run->scope;
    const uint32_t line = run->budget.line;
    ps_jinja_scope *scope = NULL;
    PS_TRY(ps_jinja_enter(&run->budget));
    PS_TRY(ps_jinja_new_scope(run, macro->scope, &scope));
    PS_JINJA_NEW(&run->budget, text, 1);
    run->scope = scope;
    run->output = text;
    PS_TRY(bind_parameters(run, macro->node, arguments));
    PS_TRY(ps_jinja_run_block(run, macro->node->body));
    run->output = outer_output;
    run->scope = outer_scope;
    run->budget.line = line;
    ps_jinja_leave(&run->budget);
    *out = ps_jinja_text_finish(text);
    return PS_OK;
}

ps_status ps_jinja_call(ps_jinja_run *run, const ps_jinja_value *callee,
                        const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    switch (callee->kind) {
    case PS_JINJA_FUNCTION:
        return ps_jinja_call_builtin(run, callee->as.function, NULL, arguments, out);
    case PS_JINJA_METHOD:
        return ps_jinja_call_builtin(run, callee->as.method->builtin, &callee->as.method->subject,
                                     arguments, out);
    case PS_JINJA_MACRO:
        return ps_jinja_call_macro(run, callee->as.macro, arguments, out);
    default:
        PS_TRY(ps_jinja_want_defined(&run->budget, callee));
        return ps_jinja_fail(&run->budget, PS_INVALID, "a %s cannot be called",
                             ps_jinja_type_name(callee));
    }
}
