// test/ir/graph_text_test.h - tests of graphs as text: text in, text or an error out.
//
// For a pass:
//     static ps_status fuse(ps_graph *graph, void *context) { return ps_pass_fuse(graph); }
//     ps_graph_text_expect(input, fuse, NULL, expected);        // strings
//     ps_graph_text_expect_file("test/passes/fuse_qkv.txt", fuse, NULL);
//
// A file holds the input, a line "---", and what is expected. What is expected is a graph, compared
// as printing shows it (so comments, blanks and blank lines do not matter), or a line
// "error: <part of the message>". The graph is verified before and after the pass. A failure prints
// the lines that differ with their surroundings and fails the running cmocka test.
#ifndef PS_TEST_IR_GRAPH_TEXT_TEST_H
#define PS_TEST_IR_GRAPH_TEXT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_GRAPH_TEXT_ARENA_BYTES ((size_t)256 << 20)

typedef ps_status (*ps_graph_pass)(ps_graph *graph, void *context);

// The whole file, NUL-terminated, from the heap. Paths are relative to the source folder.
static inline char *ps_graph_text_load(const char *path)
{
    char full[1024];
    (void)snprintf(full, sizeof full, "%s/%s", PS_SOURCE_DIR, path);
    FILE *file = fopen(full, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", full);
    }
    size_t length = 0;
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t got;
    while ((got = fread(text + length, 1, capacity - length - 1, file)) > 0) {
        length += got;
        if (length + 1 == capacity) {
            capacity *= 2;
            text = realloc(text, capacity);
            assert_non_null(text);
        }
    }
    text[length] = '\0';
    (void)fclose(file);
    return text;
}

// One line of a text and what follows it.
static inline ps_str ps_graph_text_line(const char *text, size_t *out_next)
{
    const size_t length = strcspn(text, "\n");
    *out_next = length + (text[length] == '\n');
    return (ps_str){.data = text, .length = length};
}

static inline size_t ps_graph_text_lines(const char *text, ps_str *lines, size_t capacity)
{
    size_t count = 0;
    while (*text != '\0' && count < capacity) {
        size_t next;
        lines[count++] = ps_graph_text_line(text, &next);
        text += next;
    }
    return count;
}

static inline bool ps_graph_text_same_line(ps_str a, ps_str b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

// Prints the lines between the common start and the common end, '-' expected and '+' found, with
// two lines around them.
static inline void ps_graph_text_print_difference(const char *expected, const char *found)
{
    enum { LINES_MAX = 20000, AROUND = 2 };
    static ps_str a[LINES_MAX];
    static ps_str b[LINES_MAX];
    const size_t a_count = ps_graph_text_lines(expected, a, LINES_MAX);
    const size_t b_count = ps_graph_text_lines(found, b, LINES_MAX);
    size_t start = 0;
    while (start < a_count && start < b_count && ps_graph_text_same_line(a[start], b[start])) {
        start++;
    }
    size_t end = 0;
    while (end < a_count - start && end < b_count - start &&
           ps_graph_text_same_line(a[a_count - 1 - end], b[b_count - 1 - end])) {
        end++;
    }
    fprintf(stderr, "--- expected\n+++ found, line %zu\n", start + 1);
    for (size_t i = start < AROUND ? 0 : start - AROUND; i < start; i++) {
        fprintf(stderr, "  %.*s\n", (int)a[i].length, a[i].data);
    }
    for (size_t i = start; i < a_count - end; i++) {
        fprintf(stderr, "- %.*s\n", (int)a[i].length, a[i].data);
    }
    for (size_t i = start; i < b_count - end; i++) {
        fprintf(stderr, "+ %.*s\n", (int)b[i].length, b[i].data);
    }
    for (size_t i = a_count - end; i < a_count && i < a_count - end + AROUND; i++) {
        fprintf(stderr, "  %.*s\n", (int)a[i].length, a[i].data);
    }
}

static inline void ps_graph_text_require(ps_status status, const char *what)
{
    if (status != PS_OK) {
        fail_msg("%s: %s", what, ps_error_message());
    }
}

// Parses, verifies, runs the pass, verifies and appends the printed graph to *out.
static inline ps_status ps_graph_text_run(const char *text, ps_graph_pass pass, void *context,
                                          ps_buffer *out)
{
    ps_arena arena;
    ps_arena_init(&arena, PS_GRAPH_TEXT_ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    ps_status status = ps_graph_parse(ps_str_of(text), &graph);
    if (status == PS_OK) {
        status = ps_graph_verify(&graph, "parsing");
    }
    if (status == PS_OK && pass != NULL) {
        status = pass(&graph, context);
        status = status == PS_OK ? ps_graph_verify(&graph, "the pass") : status;
    }
    if (status == PS_OK) {
        status = ps_graph_print(&graph, out);
    }
    ps_arena_deinit(&arena);
    return status;
}

// The message of the failed call holds `part`.
static inline void ps_graph_text_expect_message(ps_status status, const char *part)
{
    if (status == PS_OK) {
        fail_msg("no error, expected '%s'", part);
    }
    if (strstr(ps_error_message(), part) == NULL) {
        fail_msg("message is '%s', expected '%s' in it", ps_error_message(), part);
    }
}

// What printing makes of a text that holds a graph, which need not verify.
static inline void ps_graph_text_canonical(const char *text, ps_buffer *out)
{
    ps_arena arena;
    ps_arena_init(&arena, PS_GRAPH_TEXT_ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    ps_graph_text_require(ps_graph_parse(ps_str_of(text), &graph), "the expected graph");
    ps_graph_text_require(ps_graph_print(&graph, out), "printing");
    ps_arena_deinit(&arena);
}

static inline bool ps_graph_text_is_error(ps_status status, const char *message)
{
    char part[512];
    (void)snprintf(part, sizeof part, "%.*s", (int)strcspn(message, "\n"), message);
    const bool right = status != PS_OK && strstr(ps_error_message(), part) != NULL;
    if (!right) {
        fprintf(stderr, "expected the error '%s', found %s%s\n", part,
                status == PS_OK ? "none" : "", status == PS_OK ? "" : ps_error_message());
    }
    return right;
}

static inline bool ps_graph_text_is_graph(ps_status status, const char *found, const char *expected)
{
    if (status != PS_OK) {
        fprintf(stderr, "expected a graph, found the error '%s'\n", ps_error_message());
        return false;
    }
    ps_buffer wanted = {0};
    ps_graph_text_canonical(expected, &wanted);
    const bool same = strcmp(wanted.data, found) == 0;
    if (!same) {
        ps_graph_text_print_difference(wanted.data, found);
    }
    ps_buffer_deinit(&wanted);
    return same;
}

// True when the pass makes of `input` what is expected; otherwise prints why not.
static inline bool ps_graph_text_matches(const char *input, ps_graph_pass pass, void *context,
                                         const char *expected)
{
    static const char ERROR[] = "error: ";
    ps_buffer found = {0};
    const ps_status status = ps_graph_text_run(input, pass, context, &found);
    const bool right = strncmp(expected, ERROR, sizeof ERROR - 1) == 0
                           ? ps_graph_text_is_error(status, expected + sizeof ERROR - 1)
                           : ps_graph_text_is_graph(status, found.data, expected);
    ps_buffer_deinit(&found);
    return right;
}

static inline void ps_graph_text_expect(const char *input, ps_graph_pass pass, void *context,
                                        const char *expected)
{
    if (!ps_graph_text_matches(input, pass, context, expected)) {
        fail_msg("the pass does not make what is expected: see above");
    }
}

static inline void ps_graph_text_expect_file(const char *path, ps_graph_pass pass, void *context)
{
    static const char BETWEEN[] = "\n---\n";
    char *text = ps_graph_text_load(path);
    char *between = strstr(text, BETWEEN);
    if (between == NULL) {
        fail_msg("%s has no line '---'", path);
    }
    between[1] = '\0';
    ps_graph_text_expect(text, pass, context, between + sizeof BETWEEN - 1);
    free(text);
}

#endif
