// ir/parse.c - a graph from text: docs/graph-text.md.
//
// One line, one thing, no recursion: the loop over lines is bounded by the text, and what a line
// adds by the limits of ps_graph_add_value and _node.
#include "base/attributes.h"
#include "ir/graph.h"

#define NAME_CAPACITY (PS_VALUE_NAME_BYTES_MAX + 1)

// The first word of a definition: a kind of value, in the order of ps_value_kind, or an operator.
enum { VALUE_KINDS = 3 };

// The first word of a line that defines no value: a heading, or an operator.
enum { HEADING_VOCABULARY, HEADING_KV_GROUP, HEADINGS };

#define WORDS_MAX (PS_OP_COUNT + VALUE_KINDS)

static uint32_t add_operators(const char **words, uint32_t count)
{
    for (unsigned i = 0; i < PS_OP_COUNT; i++) {
        words[count++] = ps_op_get((ps_op)i)->name;
    }
    return count;
}

static ps_status parse_name(ps_scan *scan, char name[NAME_CAPACITY])
{
    PS_TRY(ps_scan_mark(scan, '%'));
    return ps_scan_string(scan, "a name", name, NAME_CAPACITY);
}

// A name that has been defined.
static ps_status parse_reference(ps_scan *scan, const ps_graph *graph, ps_value_id *out)
{
    char name[NAME_CAPACITY];
    PS_TRY(parse_name(scan, name));
    *out = ps_graph_find(graph, ps_str_of(name));
    return *out != PS_NO_VALUE ? PS_OK : ps_scan_fail(scan, "'%s' is not defined above", name);
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

// "<key>=<number>"
static ps_status parse_setting(ps_scan *scan, const char *key, uint32_t *out)
{
    uint32_t index;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &key, 1, &index));
    PS_TRY(ps_scan_mark(scan, '='));
    return ps_scan_u32(scan, UINT32_MAX, out);
}

// "[rows, columns]" or "[experts, rows, columns]"
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
    return PS_OK;
}

// "[columns] {group=0 head_dim=64}"
static ps_status parse_kv(ps_scan *scan, ps_value *value)
{
    PS_TRY(ps_scan_mark(scan, '['));
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->columns));
    PS_TRY(ps_scan_mark(scan, ']'));
    PS_TRY(ps_scan_mark(scan, '{'));
    PS_TRY(parse_setting(scan, "group", &value->kv_group));
    PS_TRY(parse_setting(scan, "head_dim", &value->head_dim));
    return ps_scan_mark(scan, '}');
}

// "{of=%base column=64}"
static ps_status parse_view(ps_scan *scan, const ps_graph *graph, ps_value *value)
{
    static const char *const OF = "of";
    uint32_t index;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &OF, 1, &index));
    PS_TRY(ps_scan_mark(scan, '='));
    PS_TRY(parse_reference(scan, graph, &value->alias_of));
    PS_TRY(parse_setting(scan, "column", &value->alias_column));
    return ps_scan_mark(scan, '}');
}

// "[8T, columns]", then a view, then "output"
static ps_status parse_activation(ps_scan *scan, const ps_graph *graph, ps_value *value)
{
    static const char *const ROWS[] = {[PS_ROWS_STEP] = "T", [PS_ROWS_LOGITS] = "L"};
    value->row_multiplier = 1;
    PS_TRY(ps_scan_mark(scan, '['));
    const char next = ps_scan_peek(scan);
    if (next >= '0' && next <= '9') {
        PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->row_multiplier));
    }
    uint32_t rows = 0;
    PS_TRY(ps_scan_choice(scan, "a kind of rows", ROWS, 2, &rows));
    value->row_kind = (ps_rows)rows;
    PS_TRY(ps_scan_mark(scan, ','));
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &value->columns));
    PS_TRY(ps_scan_mark(scan, ']'));
    if (ps_scan_try_mark(scan, '{')) {
        PS_TRY(parse_view(scan, graph, value));
    }
    value->is_output = ps_scan_try_word(scan, "output");
    return PS_OK;
}

static ps_status parse_value(ps_scan *scan, ps_graph *graph, const char *name, ps_value_kind kind)
{
    ps_value value = {.name = name, .kind = kind, .alias_of = PS_NO_VALUE};
    PS_TRY(parse_dtype(scan, &value.dtype));
    switch (kind) {
    case PS_VALUE_WEIGHT:
        PS_TRY(parse_weight(scan, &value));
        break;
    case PS_VALUE_KV:
        PS_TRY(parse_kv(scan, &value));
        break;
    case PS_VALUE_ACTIVATION:
        PS_TRY(parse_activation(scan, graph, &value));
        break;
    }
    PS_TRY(ps_scan_line_end(scan));
    ps_value_id id;
    const ps_status status = ps_graph_add_value(graph, &value, &id);
    return status == PS_OK ? PS_OK : ps_scan_prefix(scan, status);
}

// "%a, %b {key=value ...}", after the operator's name
static ps_status parse_node(ps_scan *scan, ps_graph *graph, ps_op op, ps_value_id output)
{
    ps_node node = {.op = op, .output = output};
    if (ps_scan_peek(scan) == '%') {
        do {
            if (node.input_count == PS_OP_INPUTS_MAX) {
                return ps_scan_fail(scan, "more than %d operands", PS_OP_INPUTS_MAX);
            }
            PS_TRY(parse_reference(scan, graph, &node.inputs[node.input_count++]));
        } while (ps_scan_try_mark(scan, ','));
    }
    PS_TRY(ps_attributes_scan(scan, &node.attributes));
    PS_TRY(ps_scan_line_end(scan));
    const ps_status status = ps_graph_add_node(graph, &node);
    return status == PS_OK ? PS_OK : ps_scan_prefix(scan, status);
}

// "%name = <kind of value> ..." or "%name = <operator> ..."
static ps_status parse_definition(ps_scan *scan, ps_graph *graph)
{
    const char *words[WORDS_MAX] = {
        [PS_VALUE_WEIGHT] = "weight", [PS_VALUE_KV] = "kv", [PS_VALUE_ACTIVATION] = "activation"};
    const uint32_t count = add_operators(words, VALUE_KINDS);
    char name[NAME_CAPACITY];
    uint32_t index = 0;
    PS_TRY(parse_name(scan, name));
    PS_TRY(ps_scan_mark(scan, '='));
    PS_TRY(ps_scan_choice(scan, "a kind of value or an operator", words, count, &index));
    if (index < VALUE_KINDS) {
        return parse_value(scan, graph, name, (ps_value_kind)index);
    }
    const ps_value_id output = ps_graph_find(graph, ps_str_of(name));
    if (output == PS_NO_VALUE) {
        return ps_scan_fail(scan, "'%s' is not defined above", name);
    }
    return parse_node(scan, graph, (ps_op)(index - VALUE_KINDS), output);
}

static ps_status parse_kv_group(ps_scan *scan, ps_graph *graph)
{
    if (graph->kv_group_count == PS_KV_GROUPS_MAX) {
        return ps_scan_fail(scan, "more than %d kv groups", PS_KV_GROUPS_MAX);
    }
    PS_TRY(parse_setting(scan, "window", &graph->kv_groups[graph->kv_group_count].window));
    graph->kv_group_count++;
    return ps_scan_line_end(scan);
}

static ps_status parse_vocabulary(ps_scan *scan, ps_graph *graph)
{
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &graph->vocabulary));
    return ps_scan_line_end(scan);
}

// "vocabulary n", "kv_group window=n" or "<operator without output> ..."
static ps_status parse_heading(ps_scan *scan, ps_graph *graph)
{
    const char *words[WORDS_MAX] = {
        [HEADING_VOCABULARY] = "vocabulary", [HEADING_KV_GROUP] = "kv_group"};
    const uint32_t count = add_operators(words, HEADINGS);
    uint32_t index = 0;
    PS_TRY(ps_scan_choice(scan, "a heading or an operator", words, count, &index));
    switch (index) {
    case HEADING_VOCABULARY:
        return parse_vocabulary(scan, graph);
    case HEADING_KV_GROUP:
        return parse_kv_group(scan, graph);
    default:
        return parse_node(scan, graph, (ps_op)(index - HEADINGS), PS_NO_VALUE);
    }
}

ps_status ps_graph_parse(ps_str text, ps_graph *graph)
{
    ps_scan scan = ps_scan_start(text);
    while (ps_scan_line(&scan)) {
        PS_TRY(ps_scan_peek(&scan) == '%' ? parse_definition(&scan, graph)
                                          : parse_heading(&scan, graph));
    }
    return PS_OK;
}
