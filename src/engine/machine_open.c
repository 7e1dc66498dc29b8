// engine/machine_open.c - who has the numbers of a machine, and in which order they count.
//
// A file may start from another machine, its "base". This one starts from what was tuned, with the
// same link or with none, or is measured.
#include "engine/machine_open.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/scan.h"
#include "engine/calibrate.h"
#include "engine/data_files.h"
#include "engine/tuned.h"
#include "format/file_map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "machines"
#define WANTED "a machine as JSON"
#define TEXTS_BYTES ((size_t)1 << 20)

// What a machine is put together from.
typedef struct maker {
    const ps_machine_use *use;
    ps_arena *arena;
    ps_machine_notes notes;
    ps_machine machine;
    const char *comm_source; // where this is not the machine's
} maker;

#define COMM_DEFAULT PS_RATES_DEFAULT ", measured with several ranks only"

// ---- this machine

static ps_status measure(const ps_kernels *kernels, ps_machine *machine)
{
    ps_team *team = NULL;
    const uint64_t start = ps_clock_ns();
    PS_TRY(ps_team_create(machine->threads, &team));
    const ps_status status = ps_calibrate(team, kernels, machine);
    ps_team_destroy(team);
    ps_log(PS_LOG_INFO, "measuring took %.1f s; what prestage tune measures is kept",
           (double)(ps_clock_ns() - start) / 1e9);
    return status;
}

// A collective takes as long with any number of ranks.
static ps_status set_link(const char *text, ps_machine *machine)
{
    ps_comm_link link = {0};
    PS_TRY(ps_comm_link_parse(text, &link));
    ps_machine_profile *profile = &machine->profile;
    machine->comm_ns = (double)link.latency_ns;
    machine->comm_gbs = link.bits_per_second > 0 ? link.bits_per_second / 8e9 : 1e6;
    profile->comm_shape = PS_COMM_SHAPE_FLAT;
    profile->comm_step_ns = 0;
    profile->server_ranks = 0;
    profile->server_comm_ns = 0;
    profile->server_step_ns = 0;
    profile->server_comm_gbs = 0;
    return PS_OK;
}

static uint32_t ranks_of(const ps_machine_use *use)
{
    return use->ranks > 1 ? use->ranks : 1;
}

static void take_tuned(maker *m, const ps_tuned *tuned)
{
    m->machine = tuned->machine;
    m->comm_source = tuned->key.ranks > 1 ? NULL : COMM_DEFAULT;
}

static ps_status take_link(maker *m)
{
    m->comm_source = m->use->link;
    return set_link(m->use->link, &m->machine);
}

// What was tuned with this link, or without one; otherwise measured now.
static ps_status rate(maker *m)
{
    const ps_machine_use *use = m->use;
    ps_kernels kernels;
    ps_tuned_key key;
    ps_tuned tuned;
    PS_TRY(ps_kernels_select(&kernels));
    PS_TRY(ps_tuned_key_here(&m->machine, kernels.isa, NULL, use->ranks, use->link, &key));
    if (ps_tuned_find(&key, &tuned)) {
        take_tuned(m, &tuned);
        return PS_OK;
    }
    key.latency_ns = 0;
    key.bits_per_second = 0;
    if (use->link != NULL && ps_tuned_find(&key, &tuned)) {
        take_tuned(m, &tuned);
    } else {
        PS_TRY(measure(&kernels, &m->machine));
        m->comm_source = COMM_DEFAULT;
    }
    return use->link == NULL ? PS_OK : take_link(m);
}

static ps_status discover(maker *m)
{
    const ps_machine_use *use = m->use;
    const uint32_t ranks = ranks_of(use);
    const uint32_t share = ps_machine_affinity_count() / ranks; // of the first rank, on one host
    const uint32_t most = ps_machine_default_threads(ranks);
    const uint32_t threads = use->threads > 0 ? use->threads
                             : share < most   ? (share < 1 ? 1 : share)
                                              : most;
    PS_TRY(ps_machine_discover(threads, &m->machine));
    if (use->measure) {
        return rate(m);
    }
    return use->link == NULL ? PS_OK : take_link(m);
}

// Where the numbers of a measured machine are from: what was counted is certain, collectives are
// measured where there were ranks.
static const char *measured_source(const char *key, const maker *m)
{
    static const char *const COUNTED[] = {"threads", "l2_bytes", "llc_bytes", "prefetch_stream"};
    for (size_t i = 0; i < sizeof COUNTED / sizeof COUNTED[0]; i++) {
        if (strcmp(key, COUNTED[i]) == 0) {
            return "counted";
        }
    }
    const bool is_comm = strcmp(key, "comm_ns") == 0 || strcmp(key, "comm_gbs") == 0;
    return is_comm && m->comm_source != NULL ? m->comm_source : m->machine.source;
}

static ps_status note_measured(maker *m, const char *what)
{
    m->notes = (ps_machine_notes){.what = what};
    for (size_t i = 0; i < ps_machine_field_count; i++) {
        const char *source = measured_source(ps_machine_fields[i].key, m);
        const bool is_default = strncmp(source, PS_RATES_DEFAULT, strlen(PS_RATES_DEFAULT)) == 0;
        source = ps_arena_strndup(m->arena, source, strlen(source));
        if (source == NULL) {
            return PS_EXHAUSTED;
        }
        m->notes.of[i] = (ps_machine_note){true, is_default, source};
    }
    return PS_OK;
}

// The same of a described machine whose ranks are connected by a link instead.
static ps_status note_link(maker *m)
{
    const char *source = ps_arena_strndup(m->arena, m->use->link, strlen(m->use->link));
    const ps_json_field *field;
    for (size_t i = 0; source != NULL && (field = ps_machine_key(i)) != NULL; i++) {
        ps_machine_note *note = &m->notes.of[i];
        if (strcmp(field->key, "comm_ns") == 0 || strcmp(field->key, "comm_gbs") == 0) {
            *note = (ps_machine_note){.is_given = true, .source = source};
        } else if (strncmp(field->key, "comm_", 5) == 0 || strncmp(field->key, "server_", 7) == 0) {
            *note = (ps_machine_note){.is_given = false};
        }
    }
    return source != NULL ? PS_OK : PS_EXHAUSTED;
}

static ps_status make_this(maker *m)
{
    PS_TRY(discover(m));
    return note_measured(m, "this machine");
}

// ---- machines that are shipped

bool ps_machine_shipped(uint32_t index, ps_str *out)
{
    uint32_t count = 0;
    const ps_data_file *files = ps_data_folder(FOLDER, &count);
    if (index >= count || index >= PS_MACHINES_SHIPPED_MAX) {
        return false;
    }
    *out = ps_data_short_name(&files[index]);
    return true;
}

static const ps_data_file *find_shipped(const char *name)
{
    ps_str shipped;
    uint32_t count = 0;
    const ps_data_file *files = ps_data_folder(FOLDER, &count);
    for (uint32_t i = 0; ps_machine_shipped(i, &shipped); i++) {
        if (ps_str_equal(shipped, name)) {
            return &files[i];
        }
    }
    return NULL;
}

typedef struct machine_names {
    char all[1024]; // with commas
    char texts[PS_MACHINES_SHIPPED_MAX][64];
    const char *words[PS_MACHINES_SHIPPED_MAX + 1];
    uint32_t count;
} machine_names;

static void list_names(machine_names *names)
{
    ps_str name;
    size_t length = (size_t)snprintf(names->all, sizeof names->all, PS_MACHINE_THIS);
    for (uint32_t i = 0; ps_machine_shipped(i, &name); i++) {
        char *text = names->texts[i];
        (void)snprintf(text, sizeof names->texts[i], "%.*s", (int)name.length, name.data);
        names->words[names->count++] = text;
        const int more = snprintf(names->all + length, sizeof names->all - length, ", %s", text);
        length += more > 0 && (size_t)more < sizeof names->all - length ? (size_t)more : 0;
    }
    names->words[names->count++] = PS_MACHINE_THIS;
}

static ps_status refuse_name(const char *name)
{
    machine_names names = {.count = 0};
    list_names(&names);
    return ps_fail(
        PS_NOT_FOUND,
        "%s: No such file, and no machine of that name; machines are: %s; the nearest is %s", name,
        names.all, ps_nearest(ps_str_of(name), names.words, names.count));
}

// ---- objects

static ps_status read_object(maker *m, json_t *root);

static ps_status read_text(maker *m, const char *text, size_t bytes)
{
    json_t *root = NULL;
    PS_TRY(ps_json_text_read(text, bytes, &root));
    const ps_status status = read_object(m, root);
    json_decref(root);
    return status;
}

static ps_status make_shipped(maker *m, const ps_data_file *file, const char *name)
{
    (void)snprintf(m->machine.source, sizeof m->machine.source, "shipped as %.28s", name);
    const ps_status status = read_text(m, file->text, file->length);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "data/%s", file->name);
}

static ps_status read_base(maker *m, const json_t *base)
{
    const char *name = json_string_value(base);
    const ps_data_file *file = name == NULL ? NULL : find_shipped(name);
    if (name != NULL && strcmp(name, PS_MACHINE_THIS) == 0) {
        return make_this(m);
    }
    if (file != NULL) {
        return make_shipped(m, file, name);
    }
    machine_names names = {.count = 0};
    list_names(&names);
    return name == NULL
               ? ps_fail(PS_INVALID, "base: one of %s would be right", names.all)
               : ps_fail(PS_INVALID, "base: no machine '%s'; the nearest of %s is %s", name,
                         names.all, ps_nearest(ps_str_of(name), names.words, names.count));
}

static ps_status read_tuned(maker *m, json_t *root)
{
    ps_tuned tuned;
    PS_TRY(ps_tuned_read_json(root, NULL, &tuned));
    take_tuned(m, &tuned);
    return note_measured(m, "a machine that prestage tune measured");
}

static ps_status read_object(maker *m, json_t *root)
{
    if (ps_tuned_is_json(root)) {
        return read_tuned(m, root);
    }
    json_t *base = json_incref(json_object_get(root, "base"));
    if (base != NULL) {
        char source[sizeof m->machine.source];
        memcpy(source, m->machine.source, sizeof source);
        const ps_status status = read_base(m, base);
        json_decref(base);
        PS_TRY(status);
        (void)json_object_del(root, "base");
        memcpy(m->machine.source, source, sizeof source);
    }
    PS_TRY(ps_machine_read(root, m->arena, &m->notes, &m->machine));
    return ps_machine_check(&m->machine, &m->notes);
}

static ps_status make_file(maker *m, const char *path)
{
    json_t *root = NULL;
    (void)snprintf(m->machine.source, sizeof m->machine.source, "as a file says");
    ps_status status = ps_json_file_read(path, WANTED, &root);
    if (status == PS_OK) {
        status = read_object(m, root);
        json_decref(root);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

// ---- the calls

static ps_status make(maker *m, const char *name)
{
    if (name == NULL || strcmp(name, PS_MACHINE_THIS) == 0) {
        return make_this(m);
    }
    const ps_data_file *file = find_shipped(name);
    if (file == NULL && access(name, F_OK) != 0 && errno == ENOENT) {
        return refuse_name(name);
    }
    PS_TRY(file != NULL ? make_shipped(m, file, name) : make_file(m, name));
    if (m->use->link == NULL) {
        return PS_OK;
    }
    PS_TRY(take_link(m));
    return note_link(m);
}

static void start(maker *m, const ps_machine_use *use, ps_arena *arena)
{
    *m = (maker){.use = use, .arena = arena, .notes = {.what = ""}};
}

static void end(const maker *m, ps_machine_notes *notes, ps_machine *out)
{
    *out = m->machine;
    if (notes != NULL) {
        *notes = m->notes;
    }
}

ps_status ps_machine_open(const char *name, const ps_machine_use *use, ps_arena *arena,
                          ps_machine_notes *notes, ps_machine *out)
{
    maker m;
    ps_arena own;
    ps_arena_init(&own, TEXTS_BYTES);
    start(&m, use, arena == NULL ? &own : arena);
    const ps_status status = make(&m, name);
    if (status == PS_OK) {
        end(&m, notes, out);
    }
    ps_arena_deinit(&own);
    return status;
}

ps_status ps_machine_parse(ps_str text, const ps_machine_use *use, ps_arena *arena,
                           ps_machine_notes *notes, ps_machine *out)
{
    maker m;
    start(&m, use, arena);
    PS_TRY(read_text(&m, text.data, text.length));
    end(&m, notes, out);
    return PS_OK;
}
