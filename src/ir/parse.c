// ir/parse.c - a graph from text: docs/graph-text.md.
//
// One line, one thing, no recursion: the loop over lines is bounded by the text, and what a line
// adds by the limits of ps_graph_add_value and _node.
#include "base/value_text.h"
#include "ir/graph.h"

// The first word of a line that defines no value, but for operators without an output.
enum { HEADING_VOCABULARY, HEADING_KV_GROUP, HEADINGS };
static const char *const HEADING_TEXT[] = {
    [HEADING_VOCABULARY] = "vocabulary", [HEADING_KV_GROUP] = "kv_group"};

static ps_status parse_value(ps_scan *scan, ps_graph *graph, const ps_definition *definition)
{
    ps_value value;
    PS_TRY(ps_value_scan(scan, definition, &graph->names, &value));
    PS_TRY(ps_scan_line_end(scan));
    ps_value_id id;
    const ps_status status = ps_graph_add_value(graph, &value, &id);
    return status == PS_OK ? PS_OK : ps_scan_prefix(scan, status);
}

static ps_status parse_node(ps_scan *scan, ps_graph *graph, ps_op op, const char *output)
{
    ps_node node;
    PS_TRY(ps_operation_scan(scan, op, output, &graph->names, &node));
    PS_TRY(ps_scan_line_end(scan));
    const ps_status status = ps_graph_add_node(graph, &node);
    return status == PS_OK ? PS_OK : ps_scan_prefix(scan, status);
}

static ps_status parse_definition(ps_scan *scan, ps_graph *graph)
{
    ps_definition definition;
    PS_TRY(ps_definition_scan(scan, &definition));
    return definition.is_value ? parse_value(scan, graph, &definition)
                               : parse_node(scan, graph, definition.op, definition.name);
}

static ps_status parse_kv_group(ps_scan *scan, ps_graph *graph)
{
    if (graph->kv_group_count == PS_KV_GROUPS_MAX) {
        return ps_scan_fail(scan, "more than %d kv groups", PS_KV_GROUPS_MAX);
    }
    PS_TRY(ps_setting_scan(scan, "window", &graph->kv_groups[graph->kv_group_count].window));
    graph->kv_group_count++;
    return ps_scan_line_end(scan);
}

static ps_status parse_vocabulary(ps_scan *scan, ps_graph *graph)
{
    PS_TRY(ps_scan_u32(scan, UINT32_MAX, &graph->vocabulary));
    return ps_scan_line_end(scan);
}

static ps_status parse_heading(ps_scan *scan, ps_graph *graph)
{
    uint32_t index = 0;
    PS_TRY(ps_heading_scan(scan, HEADING_TEXT, HEADINGS, &index));
    switch (index) {
    case HEADING_VOCABULARY:
        return parse_vocabulary(scan, graph);
    case HEADING_KV_GROUP:
        return parse_kv_group(scan, graph);
    default:
        return parse_node(scan, graph, (ps_op)(index - HEADINGS), NULL);
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
