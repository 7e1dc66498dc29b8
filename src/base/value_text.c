// base/value_text.c - values and operations as text.
#include "base/value_text.h"

#include "base/attributes.h"

// The first word of a definition: a kind of value, in the order of ps_value_kind, or an operator.
enum { VALUE_KINDS = 3 };

#define WORDS_MAX (PS_OP_COUNT + PS_HEADINGS_MAX)

// ---- printing

static ps_status print_name(const char *name, ps_buffer *out)
{
    PS_TRY(ps_buffer_append(out, "%", 1));
    return ps_buffer_string(out, ps_str_of(name));
}

static ps_status print_weight(const ps_value *value, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "weight %s [", ps_dtype_get(value->dtype)->name));
    if (value->experts > 0) {
        PS_TRY(ps_buffer_printf(out, "%u, ", value->experts));
    }
    PS_TRY(ps_buffer_printf(out, "%u, %u]", value->rows, value->columns));
    return value->row_first == 0 && value->column_first == 0
               ? PS_OK
               : ps_buffer_printf(out, " {row=%u column=%u}", value->row_first,
                                  value->column_first);
}

static ps_status print_kv(const ps_value *value, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "kv %s ", ps_dtype_get(value->dtype)->name));
    if (value->v_dtype != value->dtype) {
        PS_TRY(ps_buffer_printf(out, "%s ", ps_dtype_get(value->v_dtype)->name));
    }
    return ps_buffer_printf(out, "[%u] {group=%u head_dim=%u}", value->columns, value->kv_group,
                            value->head_dim);
}

static ps_status print_activation(const ps_value *value, const char *base_name, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "activation %s [", ps_dtype_get(value->dtype)->name));
    if (value->row_multiplier != 1) {
        PS_TRY(ps_buffer_printf(out, "%u", value->row_multiplier));
    }
    PS_TRY(ps_buffer_printf(out, "%s, %u]", ps_rows_name(value->row_kind), value->columns));
    if (value->alias_of != PS_NO_VALUE) {
        PS_TRY(ps_buffer_printf(out, " {of="));
        PS_TRY(print_name(base_name, out));
        PS_TRY(ps_buffer_printf(out, " column=%u}", value->alias_column));
    }
    return value->is_output ? ps_buffer_printf(out, " output") : PS_OK;
}

ps_status ps_value_print(const ps_value *value, const char *base_name, ps_buffer *out)
{
    PS_TRY(print_name(value->name, out));
    PS_TRY(ps_buffer_printf(out, " = "));
    switch (value->kind) {
    case PS_VALUE_WEIGHT:
        return print_weight(value, out);
    case PS_VALUE_KV:
        return print_kv(value, out);
    default:
        return print_activation(value, base_name, out);
    }
}

ps_status ps_operation_print(ps_op op, const ps_op_attributes *attributes,
                             const ps_value *const *inputs, uint32_t count, const ps_value *output,
                             ps_buffer *out)
{
    if (output != NULL) {
        PS_TRY(print_name(output->name, out));
        PS_TRY(ps_buffer_printf(out, " = "));
    }
    PS_TRY(ps_buffer_printf(out, "%s", ps_op_get(op)->name));
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(ps_buffer_printf(out, i == 0 ? " " : ", "));
        PS_TRY(print_name(inputs[i]->name, out));
    }
    return ps_attributes_print(attributes, out);
}

// ---- parsing

static uint32_t add_operators(const char **words, uint32_t count)
{
    for (unsigned i = 0; i < PS_OP_COUNT; i++) {
        words[count++] = ps_op_get((ps_op)i)->name;
    }
    return count;
}

static ps_status parse_name(ps_scan *scan, char name[PS_NAME_BYTES_MAX + 1])
{
    PS_TRY(ps_scan_mark(scan, '%'));
    return ps_scan_string(scan, "a name", name, PS_NAME_BYTES_MAX + 1);
}

static ps_status look_up(ps_scan *scan, const ps_names *names, const char *name, ps_value_id *out)
{
    *out = ps_names_find(names, ps_str_of(name));
    return *out != PS_NO_NAME ? PS_OK : ps_scan_fail(scan, "'%s' is not defined above", name);
}

// A name that has been defined.
static ps_status parse_reference(ps_scan *scan, const ps_names *names, ps_value_id *out)
{
    char name[PS_NAME_BYTES_MAX + 1];
    PS_TRY(parse_name(scan, name));
    return look_up(scan, names, name, out);
}

static ps_status parse_dtype(ps_scan *scan, ps_dtype *out)
{
    const char *names[PS_DTYPE_COUNT];
    for (unsigned i = 0; i < PS_DTYPE_COUNT; i++) {
        names[i] = ps_dtype_get((ps_dtype)i)->name;
    }
    uint32_t index = 0;
    PS_TRY(ps_scan_choice(scan, "a number format", names, PS_DTYPE_COUNT, &index));
    *out = (ps_dtype)index;
    return PS_OK;
}

ps_status ps_setting_scan(ps_scan *scan, const char *key, uint32_t *out)
{
    uint32_t index;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &key, 1, &index));
    PS_TRY(ps_scan_mark(scan, '='));
    return ps_scan_u32(scan, UINT32_MAX, out);
}

// "[rows, columns]" or "[experts, rows, columns]", then for a slice "{row=64 column=0}"
static ps_status parse_weight(ps_scan *scan, ps_value *value)
{
    uint32_t sizes[3] = {0};
    uint32_t count = 0;
    PS_TRY(ps_scan_mark(scan, '['));
    do {
        PS_TRY(ps_scan_u32(scan, UINT32_MAX, &sizes[count++]));
    } while (count < 3 && ps_scan_try_mark(scan, ','));
    PS_TRY(ps_scan_mark(scan, ']'));
    if (count < 2) {
        return ps_scan_fail(scan, "a weight is [rows, columns] or [experts, rows, columns]");
    }
    value->experts = count == 3 ? sizes[0] : 0;
    value->rows = sizes[count - 2];
    value->columns = sizes[count - 1];
    if (ps_scan_try_mark(scan, '{')) {
        PS_TRY(ps_setting_scan(scan, "row", &value->row_first));
        PS_TRY(ps_setting_scan(scan, "column", &value->column_first));
        return ps_scan_mark(scan, '}');
    }
    return PS_OK;
}

// "[columns] {group=0 head_dim=64}", before it the format of V where it is not that of K
static ps_status parse_kv(ps_scan *scan, ps_value *value)
{
    value->v_dtype = value->dtype;
    if (ps_scan_peek(scan) != '[') {
        PS_TRY(parse_dtype(scan, &value->v_dtype));
    }
    PS_TRY(ps_scan_mark(scan, '['));
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->columns));
    PS_TRY(ps_scan_mark(scan, ']'));
    PS_TRY(ps_scan_mark(scan, '{'));
    PS_TRY(ps_setting_scan(scan, "group", &value->kv_group));
    PS_TRY(ps_setting_scan(scan, "head_dim", &value->head_dim));
    return ps_scan_mark(scan, '}');
}

// "{of=%base column=64}"
static ps_status parse_view(ps_scan *scan, const ps_names *names, ps_value *value)
{
    static const char *const OF = "of";
    uint32_t index;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &OF, 1, &index));
    PS_TRY(ps_scan_mark(scan, '='));
    PS_TRY(parse_reference(scan, names, &value->alias_of));
    PS_TRY(ps_setting_scan(scan, "column", &value->alias_column));
    return ps_scan_mark(scan, '}');
}

// "[8T, columns]", then a view, then "output"
static ps_status parse_activation(ps_scan *scan, const ps_names *names, ps_value *value)
{
    const char *kinds[PS_ROWS_COUNT] = {0};
    for (uint32_t i = 0; i < PS_ROWS_COUNT; i++) {
        kinds[i] = ps_rows_name((ps_rows)i);
    }
    value->row_multiplier = 1;
    PS_TRY(ps_scan_mark(scan, '['));
    const char next = ps_scan_peek(scan);
    if (next >= '0' && next <= '9') {
        PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->row_multiplier));
    }
    uint32_t rows = 0;
    PS_TRY(ps_scan_choice(scan, "a kind of rows", kinds, PS_ROWS_COUNT, &rows));
    value->row_kind = (ps_rows)rows;
    PS_TRY(ps_scan_mark(scan, ','));
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->columns));
    PS_TRY(ps_scan_mark(scan, ']'));
    if (ps_scan_try_mark(scan, '{')) {
        PS_TRY(parse_view(scan, names, value));
    }
    value->is_output = ps_scan_try_word(scan, "output");
    return PS_OK;
}

ps_status ps_value_scan(ps_scan *scan, const ps_definition *definition, const ps_names *names,
                        ps_value *out)
{
    *out = (ps_value){.name = definition->name, .kind = definition->kind, .alias_of = PS_NO_VALUE};
    PS_TRY(parse_dtype(scan, &out->dtype));
    switch (definition->kind) {
    case PS_VALUE_WEIGHT:
        return parse_weight(scan, out);
    case PS_VALUE_KV:
        return parse_kv(scan, out);
    default:
        return parse_activation(scan, names, out);
    }
}

// "%a, %b {key=value ...}"
ps_status ps_operation_scan(ps_scan *scan, ps_op op, const char *output, const ps_names *names,
                            ps_operation *out)
{
    *out = (ps_operation){.op = op, .output = PS_NO_VALUE};
    if (output != NULL) {
        PS_TRY(look_up(scan, names, output, &out->output));
    }
    if (ps_scan_peek(scan) == '%') {
        do {
            if (out->input_count == PS_OP_INPUTS_MAX) {
                return ps_scan_fail(scan, "more than %d operands", PS_OP_INPUTS_MAX);
            }
            PS_TRY(parse_reference(scan, names, &out->inputs[out->input_count++]));
        } while (ps_scan_try_mark(scan, ','));
    }
    return ps_attributes_scan(scan, &out->attributes);
}

ps_status ps_definition_scan(ps_scan *scan, ps_definition *out)
{
    const char *words[WORDS_MAX] = {
        [PS_VALUE_WEIGHT] = "weight", [PS_VALUE_KV] = "kv", [PS_VALUE_ACTIVATION] = "activation"};
    const uint32_t count = add_operators(words, VALUE_KINDS);
    uint32_t index = 0;
    PS_TRY(parse_name(scan, out->name));
    PS_TRY(ps_scan_mark(scan, '='));
    PS_TRY(ps_scan_choice(scan, "a kind of value or an operator", words, count, &index));
    out->is_value = index < VALUE_KINDS;
    out->kind = out->is_value ? (ps_value_kind)index : PS_VALUE_ACTIVATION;
    out->op = out->is_value ? PS_OP_COUNT : (ps_op)(index - VALUE_KINDS);
    return PS_OK;
}

ps_status ps_heading_scan(ps_scan *scan, const char *const *headings, uint32_t count,
                          uint32_t *out_index)
{
    ps_assert(count <= PS_HEADINGS_MAX);
    const char *words[WORDS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        words[i] = headings[i];
    }
    return ps_scan_choice(scan, "a heading or an operator", words, add_operators(words, count),
                          out_index);
}
