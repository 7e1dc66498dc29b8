// cli/explore_files.c - results as CSV, JSON and HTML.
#include "cli/explore_output.h"

#include "cli/json_writer.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20) // that is kept before it is written

// ---- text that goes to a file, or to stdout, in pieces

typedef struct sink {
    ps_new_file *file; // NULL: stdout
    uint64_t offset;
} sink;

static ps_status drain(sink *s, ps_buffer *text, size_t least)
{
    if (text->length < least) {
        return PS_OK;
    }
    if (s->file == NULL) {
        (void)fwrite(text->data, 1, text->length, stdout); // main() looks at its errors
    } else {
        PS_TRY(ps_new_file_write(s->file, text->data, text->length, s->offset));
    }
    s->offset += text->length;
    text->length = 0;
    return PS_OK;
}

// ---- CSV

static ps_status add_csv_text(ps_buffer *out, const char *text)
{
    if (text == NULL || text[strcspn(text, "\",\r\n")] == '\0') {
        return ps_buffer_printf(out, "%s", text == NULL ? "" : text);
    }
    PS_TRY(ps_buffer_append(out, "\"", 1));
    for (; *text != '\0'; text++) {
        PS_TRY(ps_buffer_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    }
    return ps_buffer_append(out, "\"", 1);
}

static ps_status add_csv_row(const ps_result_table *table, uint32_t row, ps_buffer *out)
{
    const ps_result_cell *cells = table->cells + (size_t)row * table->column_count;
    for (uint32_t i = 0; i < table->column_count; i++) {
        char number[PS_EXPLORE_NUMBER_BYTES];
        PS_TRY(i == 0 ? PS_OK : ps_buffer_append(out, ",", 1));
        if (table->columns[i].is_text) {
            PS_TRY(add_csv_text(out, cells[i].text));
        } else {
            ps_explore_number_write(cells[i].number, number);
            PS_TRY(ps_buffer_append(out, number, strlen(number)));
        }
    }
    return ps_buffer_append(out, "\n", 1);
}

static ps_status write_csv(sink *s, const ps_result_table *table, ps_buffer *text)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        PS_TRY(i == 0 ? PS_OK : ps_buffer_append(text, ",", 1));
        PS_TRY(add_csv_text(text, table->columns[i].name));
    }
    PS_TRY(ps_buffer_append(text, "\n", 1));
    for (uint32_t row = 0; row < table->row_count; row++) {
        PS_TRY(add_csv_row(table, row, text));
        PS_TRY(drain(s, text, PIECE_BYTES));
    }
    return drain(s, text, 1);
}

ps_status ps_explore_csv_write(const char *path, const ps_result_table *table, bool replace)
{
    ps_new_file file;
    ps_buffer text = {0};
    ps_status status = ps_new_file_create(&file, path, replace);
    if (status == PS_OK) {
        status = ps_new_file_finish(&file, write_csv(&(sink){.file = &file}, table, &text));
    }
    ps_buffer_deinit(&text);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

// ---- JSON

static void add_cell(ps_json_writer *json, const ps_result_column *column, ps_result_cell cell)
{
    if (column->is_text) {
        ps_json_text(json, column->name, cell.text);
    } else if (isfinite(cell.number) && cell.number == nearbyint(cell.number) &&
               fabs(cell.number) < 0x1p53) {
        ps_json_integer(json, column->name, (int64_t)cell.number);
    } else {
        ps_json_number(json, column->name, cell.number);
    }
}

static ps_status add_json(ps_json_writer *json, const char *key, const json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a text");
    }
    ps_json_raw(json, key, text);
    free(text);
    return PS_OK;
}

static ps_status add_points(sink *s, const ps_result_table *table, ps_json_writer *json)
{
    ps_json_begin(json, "points", '[');
    for (uint32_t row = 0; row < table->row_count; row++) {
        ps_json_begin_inline(json, NULL, '{');
        for (uint32_t i = 0; i < table->column_count; i++) {
            add_cell(json, &table->columns[i], table->cells[(size_t)row * table->column_count + i]);
        }
        ps_json_end(json, '}');
        PS_TRY(json->status);
        PS_TRY(drain(s, &json->text, PIECE_BYTES));
    }
    ps_json_end(json, ']');
    return PS_OK;
}

static const char *verdict_name(ps_report_verdict verdict)
{
    return verdict == PS_REPORT_CONFIRMED        ? "confirmed"
           : verdict == PS_REPORT_NOT_REPRODUCED ? "not reproduced"
                                                 : "unknown";
}

static void add_expectations(ps_json_writer *json, const ps_explore_result *result)
{
    const uint32_t count = result->expectations == NULL ? 0
                                                        : result->source->spec.expectation_count;
    ps_json_begin(json, "expectations", '[');
    for (uint32_t i = 0; i < count; i++) {
        const ps_report_expectation *e = &result->expectations[i];
        ps_json_begin(json, NULL, '{');
        ps_json_text(json, "what", e->what);
        ps_json_text(json, "paper", e->paper);
        ps_json_text(json, "ours", e->ours);
        ps_json_text(json, "within", e->within);
        ps_json_text(json, "verdict", verdict_name(e->verdict));
        ps_json_text(json, "source", e->source);
        ps_json_text(json, "reason", e->reason);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

static ps_status add_result(sink *s, const ps_explore_result *result, ps_json_writer *json)
{
    const ps_explore_spec *spec = &result->source->spec;
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "name", result->source->name);
    ps_json_text(json, "title", spec->title);
    PS_TRY(add_json(json, "spec", result->source->json));
    ps_json_begin(json, "columns", '[');
    for (uint32_t i = 0; i < result->table.column_count; i++) {
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "name", result->table.columns[i].name);
        ps_json_text(json, "unit", result->table.columns[i].unit);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
    PS_TRY(add_points(s, &result->table, json));
    add_expectations(json, result);
    ps_json_end(json, '}');
    return PS_OK;
}

// Every number that a machine has.
static ps_status add_machines(ps_json_writer *json, const ps_explore_inputs *inputs)
{
    ps_json_begin(json, "machines", '{');
    for (uint32_t i = 0; i < inputs->fields.machines.count; i++) {
        json_t *all = json_object();
        const ps_json_field *field;
        for (size_t j = 0; (field = ps_machine_key(j)) != NULL && all != NULL; j++) {
            json_t *one = ps_json_fields_write(field, 1, &inputs->machines[i]);
            if (one == NULL || json_object_update(all, one) != 0) {
                json_decref(all);
                all = NULL;
            }
            json_decref(one);
        }
        const ps_status status = add_json(json, inputs->fields.machines.names[i], all);
        json_decref(all);
        PS_TRY(status);
    }
    ps_json_end(json, '}');
    return PS_OK;
}

static ps_status write_json(sink *s, const ps_explore_inputs *inputs,
                            const ps_explore_result *results, uint32_t count, ps_json_writer *json)
{
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "prestage", ps_version());
    PS_TRY(add_machines(json, inputs));
    ps_json_begin(json, "specs", '[');
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(add_result(s, &results[i], json));
    }
    ps_json_end(json, ']');
    ps_json_end(json, '}');
    PS_TRY(json->status);
    PS_TRY(ps_buffer_append(&json->text, "\n", 1));
    return drain(s, &json->text, 1);
}

ps_status ps_explore_json_write(const char *path, const ps_explore_inputs *inputs,
                                const ps_explore_result *results, uint32_t count, bool replace)
{
    ps_json_writer json = {0};
    ps_new_file file;
    ps_status status = path == NULL ? write_json(&(sink){NULL, 0}, inputs, results, count, &json)
                                    : ps_new_file_create(&file, path, replace);
    if (path != NULL && status == PS_OK) {
        status = ps_new_file_finish(
            &file, write_json(&(sink){.file = &file}, inputs, results, count, &json));
    }
    ps_buffer_deinit(&json.text);
    return status == PS_OK || path == NULL ? status : ps_file_name_error(path, status);
}

// ---- HTML

// Whether any point is on this machine.
static bool uses_machine(const ps_explore_spec *spec, const char *name)
{
    for (uint32_t i = 0; i < spec->settings.count; i++) {
        const ps_result_cell cell = spec->settings.all[i].value.cell;
        if (spec->settings.all[i].field == 0 && strcmp(cell.text, name) == 0) {
            return true;
        }
    }
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        const ps_explore_axis *axis = &spec->axes[i];
        for (uint32_t j = 0; j < axis->count * axis->field_count; j++) {
            if (axis->fields[j % axis->field_count] == 0 &&
                strcmp(axis->values[j].cell.text, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

typedef struct parameters {
    ps_report_parameter *all;
    uint32_t count;
} parameters;

static ps_status add_parameter(parameters *p, ps_report_parameter parameter)
{
    p->all[p->count++] = parameter;
    return parameter.key == NULL || parameter.value == NULL ? PS_NO_MEMORY : PS_OK;
}

static ps_status add_settings(const ps_explore_inputs *inputs, const ps_explore_settings *settings,
                              const char *prefix, ps_arena *arena, parameters *out)
{
    for (uint32_t i = 0; i < settings->count; i++) {
        const ps_explore_field *field = &inputs->fields.all[settings->all[i].field];
        const ps_explore_value *value = &settings->all[i].value;
        char number[PS_EXPLORE_NUMBER_BYTES];
        ps_explore_number_write(value->is_text ? NAN : value->cell.number, number);
        PS_TRY(add_parameter(
            out,
            (ps_report_parameter){.key = ps_arena_printf(arena, "%s%.200s", prefix, field->name),
                                  .value = value->is_text ? value->cell.text
                                                          : ps_arena_printf(arena, "%s", number),
                                  .unit = field->unit[0] == '\0' ? NULL : field->unit}));
    }
    return PS_OK;
}

// What a member of a machine says, as a text.
static const char *value_text(const ps_json_field *field, const ps_machine *machine,
                              ps_arena *arena)
{
    char number[PS_EXPLORE_NUMBER_BYTES];
    json_t *object = ps_json_fields_write(field, 1, machine);
    const json_t *value = json_object_get(object, field->key);
    ps_explore_number_write(json_is_number(value) ? json_number_value(value) : NAN, number);
    const char *text = json_is_string(value)    ? json_string_value(value)
                       : json_is_boolean(value) ? (json_is_true(value) ? "true" : "false")
                                                : number;
    const char *copy = value == NULL ? NULL : ps_arena_strndup(arena, text, strlen(text));
    json_decref(object);
    return copy;
}

static ps_status add_machine(const ps_explore_inputs *inputs, uint32_t index, bool is_only,
                             ps_arena *arena, parameters *out)
{
    const char *name = inputs->fields.machines.names[index];
    const ps_machine_notes *notes = &inputs->notes[index];
    const ps_json_field *field;
    for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
        if (!notes->of[i].is_given) {
            continue;
        }
        const char *unit = ps_machine_unit(field->key);
        PS_TRY(add_parameter(
            out, (ps_report_parameter){.key = ps_arena_printf(arena, "%.200s%smachine.%.60s",
                                                              is_only ? "" : name,
                                                              is_only ? "" : ": ", field->key),
                                       .value = value_text(field, &inputs->machines[index], arena),
                                       .unit = unit[0] == '\0' ? NULL : unit,
                                       .source = notes->of[i].source,
                                       .is_fitted = notes->of[i].is_fitted}));
    }
    return PS_OK;
}

static ps_status find_parameters(const ps_explore_inputs *inputs, const ps_explore_spec *spec,
                                 ps_arena *arena, parameters *out)
{
    const uint32_t machines = inputs->fields.machines.count;
    const uint64_t most = 2 * PS_EXPLORE_SETTINGS_MAX + (uint64_t)machines * PS_MACHINE_KEYS_MAX;
    uint32_t used = 0;
    *out = (parameters){.all = PS_ARENA_NEW(arena, ps_report_parameter, most)};
    if (out->all == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(add_settings(inputs, &spec->settings, "", arena, out));
    PS_TRY(add_settings(inputs, &spec->baseline, "baseline: ", arena, out));
    for (uint32_t i = 0; i < machines; i++) {
        used += uses_machine(spec, inputs->fields.machines.names[i]);
    }
    for (uint32_t i = 0; i < machines; i++) {
        if (uses_machine(spec, inputs->fields.machines.names[i])) {
            PS_TRY(add_machine(inputs, i, used == 1, arena, out));
        }
    }
    return PS_OK;
}

static ps_status make_html(ps_explore_inputs *inputs, const ps_explore_result *results,
                           uint32_t count, ps_buffer *out)
{
    ps_report_section *sections = PS_ARENA_NEW(&inputs->arena, ps_report_section, count);
    if (sections == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        const ps_explore_spec *spec = &results[i].source->spec;
        parameters found;
        PS_TRY(find_parameters(inputs, spec, &inputs->arena, &found));
        sections[i] = (ps_report_section){
            .title = spec->title,
            .about = spec->about,
            .plots = spec->plots,
            .table = &results[i].table,
            .expectations = results[i].expectations,
            .expectation_count = results[i].expectations == NULL ? 0 : spec->expectation_count,
            .timelines = results[i].timelines,
            .timeline_count = spec->timeline_count,
            .parameters = found.all,
            .parameter_count = found.count};
    }
    return ps_explore_report_write(sections, count, count == 1 ? sections[0].title : "Explorations",
                                   out);
}

ps_status ps_explore_html_write(const char *path, ps_explore_inputs *inputs,
                                const ps_explore_result *results, uint32_t count, bool replace)
{
    ps_buffer text = {0};
    ps_status status = make_html(inputs, results, count, &text);
    if (status == PS_OK) {
        status = ps_new_file_write_all(path, text.data, text.length, replace);
        status = status == PS_OK ? PS_OK : ps_file_name_error(path, status);
    }
    ps_buffer_deinit(&text);
    return status;
}
