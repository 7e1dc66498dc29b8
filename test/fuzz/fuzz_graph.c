// fuzz-links: ps_ir
//
// Goal: no text whatever makes the graph's parser, verify or printing read or write outside, and
// what parses prints as a text that prints as itself.
#include "fuzz/fuzz.h"
#include "ir/graph.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

static void print_and_parse(const ps_graph *graph)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph back;
    ps_graph_init(&back, &arena);
    ps_buffer first = {0};
    ps_buffer second = {0};
    ps_assert(ps_graph_print(graph, &first) == PS_OK);
    ps_assert(ps_graph_parse((ps_str){first.data, first.length}, &back) == PS_OK);
    ps_assert(ps_graph_print(&back, &second) == PS_OK);
    ps_assert(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
    ps_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    const ps_str text = {.data = (const char *)bytes, .length = size_bytes};
    if (ps_graph_parse(text, &graph) != PS_OK) {
        ps_assert(strncmp(ps_error_message(), "line ", 5) == 0);
    } else {
        const ps_status status = ps_graph_verify(&graph, "parsing");
        ps_assert(status == PS_OK || status == PS_INVALID);
        print_and_parse(&graph);
    }
    ps_arena_deinit(&arena);
    return 0;
}
