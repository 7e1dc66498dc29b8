// cli/cmd_machine.c - `prestage machine list|show|check`: machines that plans can be made for.
#include "cli/commands.h"
#include "engine/machine_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXTS_BYTES ((size_t)1 << 20)

const ps_cli_command ps_cli_machine_commands[] = {
    {"machine list", PS_CLI_MACHINE_LIST, "", "machines that prestage knows by name",
     ps_cli_machine_list},
    {"machine show", PS_CLI_MACHINE_SHOW, "NAME|FILE",
     "every number of a machine, with where it is from; \"this\" is the one it runs on",
     ps_cli_machine_show},
    {"machine check", PS_CLI_MACHINE_CHECK, "FILE",
     "whether a file describes a machine, and which of its numbers have no source",
     ps_cli_machine_check},
};
const size_t ps_cli_machine_command_count = sizeof ps_cli_machine_commands /
                                            sizeof ps_cli_machine_commands[0];

typedef struct shown_machine {
    ps_arena arena; // of the notes' texts
    ps_machine machine;
    ps_machine_notes notes;
    uint32_t numbers, fitted, unsourced;
} shown_machine;

static bool is_text(const ps_json_field *field)
{
    return field->kind == PS_JSON_TEXT;
}

// The i-th value that is given, or NULL; *out_end behind the last.
static const ps_json_field *given_at(const shown_machine *s, size_t i, bool *out_end)
{
    const ps_json_field *field = ps_machine_key(i);
    *out_end = field == NULL;
    return field != NULL && s->notes.of[i].is_given && !is_text(field) ? field : NULL;
}

static void count(shown_machine *s)
{
    bool is_end = false;
    for (size_t i = 0; !is_end; i++) {
        if (given_at(s, i, &is_end) != NULL) {
            const ps_machine_note *note = &s->notes.of[i];
            s->numbers++;
            s->fitted += note->is_fitted;
            s->unsourced += note->source == NULL && !note->is_fitted;
        }
    }
}

// To be closed either way.
static ps_status open_machine(const char *name, const ps_cli_options *options, shown_machine *out)
{
    const ps_machine_use use = {.threads = options->threads,
                                .ranks = options->ranks,
                                .link = options->comm_link,
                                .measure = !options->no_measure};
    *out = (shown_machine){.numbers = 0};
    ps_arena_init(&out->arena, TEXTS_BYTES);
    PS_TRY(ps_machine_open(name, &use, &out->arena, &out->notes, &out->machine));
    count(out);
    return PS_OK;
}

static void close_machine(shown_machine *s)
{
    ps_arena_deinit(&s->arena);
}

static ps_status name_check(const ps_cli_options *options)
{
    return options->model != NULL ? PS_OK
                                  : ps_fail(PS_INVALID, "no machine given; prestage machine list "
                                                        "has names, and a file would do, too");
}

// ---- values

static const void *value_at(const ps_json_field *field, const ps_machine *machine)
{
    return (const char *)machine + field->offset;
}

static void print_value(const ps_json_field *field, const ps_machine *machine)
{
    const void *at = value_at(field, machine);
    const char *name = ps_json_value_name(field, machine);
    char text[32];
    switch (field->kind) {
    case PS_JSON_U32:
        (void)snprintf(text, sizeof text, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PS_JSON_U64:
        (void)snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PS_JSON_F64:
        (void)snprintf(text, sizeof text, "%.7g", *(const double *)at);
        break;
    case PS_JSON_BOOL:
        (void)snprintf(text, sizeof text, "%s", *(const bool *)at ? "true" : "false");
        break;
    default:
        (void)snprintf(text, sizeof text, "%s", name == NULL ? "" : name);
    }
    (void)printf("%-17s %14s %-8s", field->key, text, ps_machine_unit(field->key));
}

static void add_value(ps_json_writer *json, const ps_json_field *field, const ps_machine *machine)
{
    const void *at = value_at(field, machine);
    switch (field->kind) {
    case PS_JSON_U32:
        ps_json_integer(json, "value", *(const uint32_t *)at);
        break;
    case PS_JSON_U64:
        ps_json_integer(json, "value", (int64_t) * (const uint64_t *)at);
        break;
    case PS_JSON_F64:
        ps_json_number(json, "value", *(const double *)at);
        break;
    case PS_JSON_BOOL:
        ps_json_bool(json, "value", *(const bool *)at);
        break;
    default:
        ps_json_text(json, "value", ps_json_value_name(field, machine));
    }
}

// ---- list

// "mesh of 8 at 137 GB/s, 17.5 between"
static void describe_links(const ps_machine *machine, char text[80])
{
    const ps_machine_profile *profile = &machine->profile;
    const char *shape = ps_comm_shape_name((ps_comm_shape)profile->comm_shape);
    if (profile->server_ranks > 0) {
        (void)snprintf(text, 80, "%s of %" PRIu32 " at %.4g GB/s, %.4g between", shape,
                       profile->server_ranks, machine->comm_gbs, profile->server_comm_gbs);
    } else {
        (void)snprintf(text, 80, "%s at %.4g GB/s", shape, machine->comm_gbs);
    }
}

static uint64_t l2_bytes_of(const ps_machine *machine)
{
    return machine->l2_bytes * machine->threads; // 2^50 and 4096 at most
}

static void print_line(const char *name, const shown_machine *s)
{
    const ps_machine *m = &s->machine;
    char links[80];
    describe_links(m, links);
    (void)printf("%-12s %7.0f %8.1f %8.0f %9.1f  %-37s %s\n", name,
                 (double)l2_bytes_of(m) / (1 << 20), (double)m->profile.memory_bytes / (1 << 30),
                 m->read_gbs, m->int8_gops / 500, links, s->notes.what);
}

static void add_line(ps_json_writer *json, const char *name, const shown_machine *s)
{
    const ps_machine *m = &s->machine;
    char links[80];
    describe_links(m, links);
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "machine", name);
    ps_json_text(json, "name", m->name);
    ps_json_text(json, "what", s->notes.what);
    ps_json_integer(json, "l2_bytes", (int64_t)l2_bytes_of(m));
    ps_json_integer(json, "memory_bytes", (int64_t)m->profile.memory_bytes);
    ps_json_number(json, "read_gbs", m->read_gbs);
    ps_json_number(json, "int8_gops", m->int8_gops);
    ps_json_text(json, "links", links);
    ps_json_integer(json, "numbers", s->numbers);
    ps_json_integer(json, "fitted", s->fitted);
    ps_json_end(json, '}');
}

static ps_status list_one(ps_str shipped, const ps_cli_options *options, ps_json_writer *json)
{
    char name[64];
    shown_machine s;
    (void)snprintf(name, sizeof name, "%.*s", (int)shipped.length, shipped.data);
    const ps_status status = open_machine(name, options, &s);
    if (status == PS_OK && options->json) {
        add_line(json, name, &s);
    } else if (status == PS_OK) {
        print_line(name, &s);
    }
    close_machine(&s);
    return status;
}

ps_status ps_cli_machine_list(const ps_cli_options *options)
{
    ps_json_writer json = {0};
    ps_str name;
    ps_status status = PS_OK;
    if (options->model != NULL) {
        return ps_fail(PS_INVALID,
                       "unexpected argument '%s'; prestage machine show NAME tells "
                       "more of one",
                       options->model);
    }
    if (options->json) {
        ps_json_begin(&json, NULL, '[');
    } else {
        (void)printf("%-12s %7s %8s %8s %9s  %-37s\n", "machine", "L2 MiB", "mem GiB", "GB/s",
                     "int8 TOPS", "links");
    }
    for (uint32_t i = 0; status == PS_OK && ps_machine_shipped(i, &name); i++) {
        status = list_one(name, options, &json);
    }
    if (options->json && status == PS_OK) {
        ps_json_end(&json, ']');
        return ps_json_print(&json);
    }
    ps_buffer_deinit(&json.text);
    if (status == PS_OK) {
        (void)printf("%-12s the machine this runs on, as prestage tune measured it\n",
                     PS_MACHINE_THIS);
    }
    return status;
}

// ---- show

static void print_text(const shown_machine *s)
{
    bool is_end = false;
    (void)printf("%s, %s\n", s->machine.name, s->machine.source);
    if (*s->notes.what != '\0') {
        (void)printf("%s\n", s->notes.what);
    }
    for (size_t i = 0; !is_end; i++) {
        const ps_json_field *field = given_at(s, i, &is_end);
        if (field != NULL) {
            const ps_machine_note *note = &s->notes.of[i];
            print_value(field, &s->machine);
            (void)printf(" %c %s\n", note->is_fitted ? '~' : ' ',
                         note->source == NULL ? "no source" : note->source);
        }
    }
    (void)printf("%" PRIu32 " numbers, %" PRIu32 " of them (~) fitted or assumed\n", s->numbers,
                 s->fitted);
}

// As a file of a machine.
static ps_status print_json(const shown_machine *s)
{
    ps_json_writer json = {0};
    bool is_end = false;
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "name", s->machine.name);
    ps_json_text(&json, "source", s->machine.source);
    ps_json_text(&json, "what", s->notes.what);
    for (size_t i = 0; !is_end; i++) {
        const ps_json_field *field = given_at(s, i, &is_end);
        if (field == NULL) {
            continue;
        }
        const ps_machine_note *note = &s->notes.of[i];
        const char *unit = ps_machine_unit(field->key);
        ps_json_begin_inline(&json, field->key, '{');
        add_value(&json, field, &s->machine);
        if (*unit != '\0') {
            ps_json_text(&json, "unit", unit);
        }
        if (note->source != NULL) {
            ps_json_text(&json, "source", note->source);
        }
        ps_json_bool(&json, "fitted", note->is_fitted);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_machine_show(const ps_cli_options *options)
{
    shown_machine s;
    PS_TRY(name_check(options));
    ps_status status = open_machine(options->model, options, &s);
    if (status == PS_OK && options->json) {
        status = print_json(&s);
    } else if (status == PS_OK) {
        print_text(&s);
    }
    close_machine(&s);
    return status;
}

// ---- check

static void print_unsourced(const shown_machine *s)
{
    bool is_end = false;
    for (size_t i = 0; !is_end; i++) {
        const ps_json_field *field = given_at(s, i, &is_end);
        const ps_machine_note *note = &s->notes.of[i];
        if (field != NULL && note->source == NULL) {
            (void)printf("%s: %s\n", field->key,
                         note->is_fitted ? "fitted, and no source that says to what"
                                         : "no source, and not marked as fitted");
        }
    }
}

static ps_status print_counts(const shown_machine *s)
{
    ps_json_writer json = {0};
    bool is_end = false;
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "name", s->machine.name);
    ps_json_integer(&json, "numbers", s->numbers);
    ps_json_integer(&json, "fitted", s->fitted);
    ps_json_begin_inline(&json, "without_source", '[');
    for (size_t i = 0; !is_end; i++) {
        const ps_json_field *field = given_at(s, i, &is_end);
        if (field != NULL && s->notes.of[i].source == NULL) {
            ps_json_text(&json, NULL, field->key);
        }
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_machine_check(const ps_cli_options *options)
{
    shown_machine s;
    PS_TRY(name_check(options));
    ps_status status = open_machine(options->model, options, &s);
    if (status == PS_OK && options->json) {
        status = print_counts(&s);
    } else if (status == PS_OK) {
        print_unsourced(&s);
        (void)printf("%s: right; %" PRIu32 " numbers, %" PRIu32 " fitted or assumed, %" PRIu32
                     " without a source\n",
                     s.machine.name, s.numbers, s.fitted, s.unsourced);
    }
    close_machine(&s);
    return status;
}
