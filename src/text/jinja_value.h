// text/jinja_value.h - the values of a template: Python's, as far as chat templates need them.
//
// Every value lives in one arena, that of the parse or of the rendering, and is immutable once it
// is built, except namespaces, loop objects and generators (which are used up by reading). Sizes
// are code points where a template can see them and bytes everywhere else. All text is valid UTF-8.
//
// Provenance: every byte of a string is trusted (written in the template, or given by the caller
// as such) or not (it came out of a message). Bytes keep their mark through every operation.
#ifndef PS_TEXT_JINJA_VALUE_H
#define PS_TEXT_JINJA_VALUE_H

#include "base/memory.h"

// What a parse or a rendering may still use, and the line of the template it has reached.
typedef struct ps_jinja_budget {
    ps_arena *arena;     // its limit is the memory limit
    uint64_t steps_max;  // nodes evaluated, plus one for every 64 bytes worked on
    uint64_t steps;      // used so far
    uint32_t depth_max;  // nested expressions, statements, calls and values
    uint32_t depth;      // now
    size_t output_bytes; // the longest text that a rendering may build
    uint32_t line;       // from 1; starts every error message
} ps_jinja_budget;

#define ps_jinja_fail(budget, code, format, ...)                                                   \
    ps_fail((code), "line %u: " format, (budget)->line, ##__VA_ARGS__)

// PS_EXHAUSTED at the limit, and the message names it. After a failure nothing needs to be undone.
PS_MUST_USE ps_status ps_jinja_spend(ps_jinja_budget *budget, uint64_t steps);
PS_MUST_USE ps_status ps_jinja_enter(ps_jinja_budget *budget); // one level deeper
void ps_jinja_leave(ps_jinja_budget *budget);

// Zeroed memory, or NULL; then ps_jinja_memory_failed writes the message for PS_EXHAUSTED.
void *ps_jinja_alloc(ps_jinja_budget *budget, uint64_t count, uint64_t size_bytes);
void ps_jinja_memory_failed(const ps_jinja_budget *budget);

// pointer = zeroed array of `count`; returns from the calling function when there is no memory.
#define PS_JINJA_NEW(budget, pointer, count)                                                       \
    do {                                                                                           \
        (pointer) = ps_jinja_alloc((budget), (count), sizeof *(pointer));                          \
        if ((pointer) == NULL) {                                                                   \
            ps_jinja_memory_failed(budget);                                                        \
            return PS_EXHAUSTED;                                                                   \
        }                                                                                          \
    } while (0)

typedef enum ps_jinja_kind {
    PS_JINJA_ABSENT, // an argument that was not given; never seen by a template
    PS_JINJA_UNDEFINED,
    PS_JINJA_NONE,
    PS_JINJA_BOOLEAN,
    PS_JINJA_INTEGER,
    PS_JINJA_REAL,
    PS_JINJA_STRING,
    PS_JINJA_LIST,
    PS_JINJA_DICT,
    PS_JINJA_NAMESPACE, // a dict with another kind
    PS_JINJA_LOOP,      // the rest is defined in jinja_run.h
    PS_JINJA_MACRO,
    PS_JINJA_FUNCTION,
    PS_JINJA_METHOD,
} ps_jinja_kind;

typedef struct ps_jinja_string {
    const char *data;     // [length]
    size_t length;        // bytes
    const uint8_t *marks; // [length], 1: trusted; NULL: `trusted` holds for all of it
    bool trusted;
} ps_jinja_string;

typedef struct ps_jinja_value ps_jinja_value;
typedef struct ps_jinja_list ps_jinja_list;
typedef struct ps_jinja_dict ps_jinja_dict;

struct ps_jinja_value {
    ps_jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        ps_jinja_string string;
        ps_str name; // of what is undefined, for messages
        ps_jinja_list *list;
        ps_jinja_dict *dict;
        struct ps_jinja_loop *loop;
        const struct ps_jinja_macro *macro;
        const struct ps_jinja_builtin *function;
        const struct ps_jinja_method *method;
    } as;
};

// What Python calls the sequence decides what may be done with it.
typedef enum ps_jinja_flavour {
    PS_JINJA_PLAIN,
    PS_JINJA_TUPLE,
    PS_JINJA_RANGE,
    PS_JINJA_VIEW,      // of a dict: no indexing
    PS_JINJA_GENERATOR, // no length, no indexing, read once
} ps_jinja_flavour;

struct ps_jinja_list {
    ps_jinja_value *items; // [count]
    size_t count;
    size_t capacity;
    ps_jinja_flavour flavour;
};

typedef struct ps_jinja_entry {
    ps_jinja_value key;
    ps_jinja_value value;
} ps_jinja_entry;

struct ps_jinja_dict {
    ps_jinja_entry *entries; // [count], in the order of first insertion
    size_t count;
    size_t capacity;
};

static inline ps_jinja_value ps_jinja_of_boolean(bool boolean)
{
    return (ps_jinja_value){.kind = PS_JINJA_BOOLEAN, .as.boolean = boolean};
}

static inline ps_jinja_value ps_jinja_of_integer(int64_t integer)
{
    return (ps_jinja_value){.kind = PS_JINJA_INTEGER, .as.integer = integer};
}

static inline ps_jinja_value ps_jinja_of_real(double real)
{
    return (ps_jinja_value){.kind = PS_JINJA_REAL, .as.real = real};
}

static inline ps_jinja_value ps_jinja_of_string(ps_jinja_string string)
{
    return (ps_jinja_value){.kind = PS_JINJA_STRING, .as.string = string};
}

static inline ps_jinja_value ps_jinja_none(void)
{
    return (ps_jinja_value){.kind = PS_JINJA_NONE};
}

static inline ps_jinja_value ps_jinja_undefined(ps_str name)
{
    return (ps_jinja_value){.kind = PS_JINJA_UNDEFINED, .as.name = name};
}

static inline ps_str ps_jinja_bytes(ps_jinja_string string)
{
    return (ps_str){.data = string.data, .length = string.length};
}

// "str", "list", ... as Python names the type, for messages.
const char *ps_jinja_type_name(const ps_jinja_value *value);

// A trusted string that borrows `literal`.
ps_jinja_value ps_jinja_literal(const char *literal);

// Bytes begin..end of a string; 0 <= begin <= end <= length. Borrows.
ps_jinja_string ps_jinja_cut(ps_jinja_string string, size_t begin, size_t end);

// Empty containers. `capacity` is a guess.
PS_MUST_USE ps_status ps_jinja_list_create(ps_jinja_budget *budget, ps_jinja_flavour flavour,
                                           size_t capacity, ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_list_append(ps_jinja_budget *budget, ps_jinja_list *list,
                                           ps_jinja_value item);
PS_MUST_USE ps_status ps_jinja_dict_create(ps_jinja_budget *budget, ps_jinja_kind kind,
                                           size_t capacity, ps_jinja_value *out);

// PS_INVALID for what Python cannot hash, a list or a dict.
PS_MUST_USE ps_status ps_jinja_check_key(const ps_jinja_budget *budget, const ps_jinja_value *key);

// *out_value is NULL when the dict has no such key; else it points into the dict.
PS_MUST_USE ps_status ps_jinja_dict_find(ps_jinja_budget *budget, const ps_jinja_dict *dict,
                                         const ps_jinja_value *key, ps_jinja_value **out_value);
// Replaces the value of an equal key. PS_INVALID when the key cannot be one (a list, a dict).
PS_MUST_USE ps_status ps_jinja_dict_set(ps_jinja_budget *budget, ps_jinja_dict *dict,
                                        ps_jinja_value key, ps_jinja_value value);
// Adds behind the others without looking for an equal key.
PS_MUST_USE ps_status ps_jinja_dict_append(ps_jinja_budget *budget, ps_jinja_dict *dict,
                                           ps_jinja_value key, ps_jinja_value value);

// Python's truth value. A loop, macro, function or generator is true.
bool ps_jinja_truth(const ps_jinja_value *value);

// Python's ==. Lists of different length or flavour differ; nesting is bounded by the budget.
PS_MUST_USE ps_status ps_jinja_equal(ps_jinja_budget *budget, const ps_jinja_value *a,
                                     const ps_jinja_value *b, bool *out);

// Python's order: *out_order < 0, 0 or > 0; NaN orders as 2, for which every comparison is false.
// PS_INVALID for types that have no order between them.
PS_MUST_USE ps_status ps_jinja_compare(ps_jinja_budget *budget, const ps_jinja_value *a,
                                       const ps_jinja_value *b, int *out_order);

// Python's `item in container`.
PS_MUST_USE ps_status ps_jinja_contains(ps_jinja_budget *budget, const ps_jinja_value *container,
                                        const ps_jinja_value *item, bool *out);

// The items that iterating gives, as a plain list that must not be changed: of a string its
// characters, of a dict its keys, of undefined nothing. Uses a generator up. PS_INVALID otherwise.
PS_MUST_USE ps_status ps_jinja_iterate(ps_jinja_budget *budget, const ps_jinja_value *value,
                                       const ps_jinja_list **out);

// Where `needle` first stands in haystack at or behind byte `from`, or SIZE_MAX.
PS_MUST_USE ps_status ps_jinja_find(ps_jinja_budget *budget, ps_str haystack, ps_str needle,
                                    size_t from, size_t *out_index);

#endif
