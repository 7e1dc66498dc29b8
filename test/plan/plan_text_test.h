// test/plan/plan_text_test.h - plans as text with one thing changed.
#ifndef PS_TEST_PLAN_TEXT_TEST_H
#define PS_TEST_PLAN_TEXT_TEST_H

#include "ir/graph_text_test.h"
#include "plan/plan.h"

#define PS_PLAN_TEXT_ARENA_BYTES ((size_t)64 << 20)

// The text with `find`, which must stand there once, replaced; from the heap.
static inline char *ps_plan_text_replace(const char *text, const char *find, const char *replace)
{
    const char *place = strstr(text, find);
    if (place == NULL || strstr(place + 1, find) != NULL) {
        fail_msg("'%s' does not stand once in the plan", find);
    }
    const size_t bytes = strlen(text) + strlen(replace) + 1;
    char *changed = malloc(bytes);
    assert_non_null(changed);
    (void)snprintf(changed, bytes, "%.*s%s%s", (int)(place - text), text, replace,
                   place + strlen(find));
    return changed;
}

// Parses, and on success prints, as text and as text of what that text is, which must be the same.
// *out is what printing made, or untouched.
static inline ps_status ps_plan_text_round_trip(ps_str text, ps_buffer *out)
{
    ps_arena arena;
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_plan *plan = NULL;
    ps_status status = ps_plan_parse(text, &arena, &plan);
    if (status == PS_OK) {
        ps_buffer again = {0};
        ps_graph_text_require(ps_plan_print(plan, out), "printing");
        ps_graph_text_require(ps_plan_parse((ps_str){out->data, out->length}, &arena, &plan),
                              "parsing what was printed");
        ps_graph_text_require(ps_plan_print(plan, &again), "printing again");
        assert_string_equal(out->data, again.data);
        ps_buffer_deinit(&again);
    }
    ps_arena_deinit(&arena);
    return status;
}

#endif
