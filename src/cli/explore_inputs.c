// cli/explore_inputs.c - see explore_inputs.h.
#include "cli/explore_inputs.h"

#include "base/hash.h"
#include "base/scan.h"
#include "engine/data_files.h"
#include "format/file_map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIPPED_MAX 128u

// ---- specs

static const char *file_name(ps_arena *arena, const char *path)
{
    static const char SUFFIX[] = ".json";
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t length = strlen(name);
    if (length >= sizeof SUFFIX && strcmp(name + length + 1 - sizeof SUFFIX, SUFFIX) == 0) {
        length -= sizeof SUFFIX - 1;
    }
    return ps_arena_strndup(arena, name, length);
}

static ps_status refuse_name(const char *name)
{
    uint32_t count;
    const ps_data_file *files = ps_data_folder(PS_EXPLORE_FOLDER, &count);
    const char *names[SHIPPED_MAX];
    char texts[SHIPPED_MAX][PS_NAME_BYTES_MAX];
    count = count < SHIPPED_MAX ? count : SHIPPED_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const ps_str shipped = ps_data_short_name(&files[i]);
        (void)snprintf(texts[i], sizeof texts[i], "%.*s", (int)shipped.length, shipped.data);
        names[i] = texts[i];
    }
    const char *nearest = ps_nearest(ps_str_of(name), names, count);
    return ps_fail(PS_NOT_FOUND,
                   "%s: neither a shipped spec nor a file; prestage explore --list "
                   "lists those%s%s",
                   name, nearest == NULL ? "" : ", and the nearest is ",
                   nearest == NULL ? "" : nearest);
}

static ps_status read_json(const char *name, ps_arena *arena, json_t **out)
{
    char *shipped = ps_arena_printf(arena, "%s/%.200s.json", PS_EXPLORE_FOLDER, name);
    if (shipped == NULL) {
        return PS_NO_MEMORY;
    }
    const ps_data_file *file = ps_data_find(ps_str_of(shipped));
    if (file != NULL) {
        return ps_json_text_read(file->text, file->length, out);
    }
    if (strchr(name, '/') == NULL && strchr(name, '.') == NULL && access(name, F_OK) != 0) {
        return refuse_name(name);
    }
    return ps_json_file_read(name, "a spec", out);
}

static ps_status read_source(const char *name, ps_explore_inputs *inputs, ps_explore_source *out)
{
    ps_status status = read_json(name, &inputs->arena, &out->json);
    if (status == PS_NOT_FOUND && strncmp(ps_error_message(), name, strlen(name)) == 0) {
        return status; // refuse_name has said all
    }
    if (status == PS_OK) {
        out->name = file_name(&inputs->arena, name);
        status = out->name == NULL
                     ? PS_NO_MEMORY
                     : ps_explore_spec_read(out->json, &inputs->fields, &inputs->arena, &out->spec);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(name, status);
}

ps_status ps_explore_inputs_read(const char *const *names, uint32_t count, ps_explore_inputs *out)
{
    *out = (ps_explore_inputs){.source_count = 0};
    ps_arena_init(&out->arena, PS_EXPLORE_SPEC_BYTES);
    out->sources = PS_ARENA_NEW(&out->arena, ps_explore_source, count);
    if (out->sources == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_explore_fields_make(&out->arena, &out->fields));
    for (uint32_t i = 0; i < count; i++) {
        out->source_count++;
        PS_TRY(read_source(names[i], out, &out->sources[i]));
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out->sources[j].name, out->sources[i].name) == 0) {
                return ps_fail(
                    PS_INVALID,
                    "%s: another spec is called '%s', too; names that differ would be right",
                    names[i], out->sources[i].name);
            }
        }
    }
    return PS_OK;
}

// ---- machines and models

static void add_to_key(ps_explore_inputs *inputs, const void *bytes, size_t length)
{
    inputs->key = ps_hash(bytes, length, inputs->key);
}

static ps_status add_json_to_key(ps_explore_inputs *inputs, const json_t *json)
{
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a text");
    }
    add_to_key(inputs, text, strlen(text));
    free(text);
    return PS_OK;
}

static ps_status add_machine_to_key(ps_explore_inputs *inputs, const ps_machine *machine)
{
    const ps_json_field *field;
    for (size_t i = 0; (field = ps_machine_key(i)) != NULL; i++) {
        json_t *value = ps_json_fields_write(field, 1, machine);
        const ps_status status = add_json_to_key(inputs, value);
        json_decref(value);
        PS_TRY(status);
    }
    return PS_OK;
}

// A shipped one by what it says, a file by what the system says of it.
static ps_status add_model_to_key(ps_explore_inputs *inputs, const char *name)
{
    char *shipped = ps_arena_printf(&inputs->arena, "models/%.200s.json", name);
    const ps_data_file *file = shipped == NULL ? NULL : ps_data_find(ps_str_of(shipped));
    if (file != NULL) {
        add_to_key(inputs, file->text, file->length);
        return PS_OK;
    }
    ps_file_stamp stamp;
    memset(&stamp, 0, sizeof stamp);
    PS_TRY(ps_file_stamp_get(name, &stamp));
    add_to_key(inputs, &stamp, sizeof stamp);
    return PS_OK;
}

static ps_status open_machines(ps_explore_inputs *inputs)
{
    const ps_names *names = &inputs->fields.machines;
    const ps_machine_use use = {.measure = true};
    inputs->machines = PS_ARENA_NEW(&inputs->arena, ps_machine, names->count);
    inputs->notes = PS_ARENA_NEW(&inputs->arena, ps_machine_notes, names->count);
    if (inputs->machines == NULL || inputs->notes == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        PS_TRY(ps_machine_open(names->names[i], &use, &inputs->arena, &inputs->notes[i],
                               &inputs->machines[i]));
        PS_TRY(add_machine_to_key(inputs, &inputs->machines[i]));
    }
    return PS_OK;
}

static ps_status open_models(ps_explore_inputs *inputs)
{
    const ps_names *names = &inputs->fields.models;
    inputs->models = PS_ARENA_NEW(&inputs->arena, ps_model_source, names->count);
    if (inputs->models == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        PS_TRY(ps_model_source_open(names->names[i], 0, &inputs->arena, &inputs->models[i]));
        inputs->model_count++;
        PS_TRY(add_model_to_key(inputs, names->names[i]));
    }
    return PS_OK;
}

ps_status ps_explore_inputs_open(ps_explore_inputs *inputs)
{
    add_to_key(inputs, ps_version(), strlen(ps_version()));
    for (uint32_t i = 0; i < inputs->source_count; i++) {
        PS_TRY(add_json_to_key(inputs, inputs->sources[i].json));
    }
    PS_TRY(open_machines(inputs));
    return open_models(inputs);
}

void ps_explore_inputs_close(ps_explore_inputs *inputs)
{
    for (uint32_t i = 0; i < inputs->model_count; i++) {
        ps_model_source_close(&inputs->models[i]);
    }
    for (uint32_t i = 0; i < inputs->source_count; i++) {
        json_decref(inputs->sources[i].json);
    }
    ps_arena_deinit(&inputs->arena);
    *inputs = (ps_explore_inputs){.source_count = 0};
}

static ps_status play(void *context, const ps_explore_point *point, ps_arena *arena,
                      ps_design_point *out)
{
    const ps_explore_inputs *inputs = context;
    const ps_model_source *model = &inputs->models[point->model_index];
    return ps_design_point_play(model->config, model->file.gguf, &point->machine, &point->workload,
                                arena, out);
}

ps_explore_player ps_explore_inputs_player(ps_explore_inputs *inputs)
{
    return (ps_explore_player){.context = inputs, .play = play};
}
