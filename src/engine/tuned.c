// engine/tuned.c - the file: JSON of known keys, all of which have to be there.
#include "engine/tuned.h"

#include "base/hash.h"
#include "base/log.h"
#include "engine/machine_file.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_MAX ((uint64_t)1 << 50)
#define RATE_MAX 1e9
#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])
#define TEXT_AT(type, member) PS_JSON_TEXT, offsetof(type, member), 0, sizeof(((type *)0)->member)

// ---- the parts

static const ps_json_field KEY[] = {
    {"version", TEXT_AT(ps_tuned_key, version)},
    {"name", TEXT_AT(ps_tuned_key, name)},
    {"isa", TEXT_AT(ps_tuned_key, isa)},
    {"threads", PS_JSON_U32, offsetof(ps_tuned_key, threads), 1, 4096},
    {"cpus", PS_JSON_U32, offsetof(ps_tuned_key, cpus), 1, 4096},
    {"l2_bytes", PS_JSON_U64, offsetof(ps_tuned_key, l2_bytes), 1, BYTES_MAX},
    {"llc_bytes", PS_JSON_U64, offsetof(ps_tuned_key, llc_bytes), 0, BYTES_MAX},
    {"ranks", PS_JSON_U32, offsetof(ps_tuned_key, ranks), 1, PS_COMM_RANKS_MAX},
    {"ranks_here", PS_JSON_U32, offsetof(ps_tuned_key, ranks_here), 1, PS_COMM_RANKS_MAX},
    {"comm", TEXT_AT(ps_tuned_key, comm)},
    {"latency_ns", PS_JSON_U64, offsetof(ps_tuned_key, latency_ns), 0, 1e10},
    {"bits_per_second", PS_JSON_F64, offsetof(ps_tuned_key, bits_per_second), 0, 1e18},
};

static const ps_json_field COMM[] = {
    {"way", PS_JSON_U32, offsetof(ps_comm_tuning, way), 0, 15},
    {"gather_bytes_max", PS_JSON_U64, offsetof(ps_comm_tuning, gather_bytes_max), 0, 1 << 30},
    {"ns", PS_JSON_F64, offsetof(ps_comm_tuning, ns), 0, 1e12},
    {"gbs", PS_JSON_F64, offsetof(ps_comm_tuning, gbs), 1e-6, RATE_MAX},
};

static const ps_json_field COLLECTIVE[] = {
    {"bytes", PS_JSON_U64, offsetof(ps_tuned_collective, bytes), 1, 1 << 30},
    {"ns", PS_JSON_F64, offsetof(ps_tuned_collective, ns), 0, 1e12},
};

static const ps_json_field FILL[] = {
    {"primitive", PS_JSON_U32, offsetof(ps_fill_rates, primitive), 0, PS_FILL_COUNT - 1},
    {"paced", PS_JSON_BOOL, offsetof(ps_fill_rates, is_paced), 0, 1},
    {"l2_gbs", PS_JSON_F64, offsetof(ps_fill_rates, l2_gbs), 1e-3, RATE_MAX},
    {"l2_again_gbs", PS_JSON_F64, offsetof(ps_fill_rates, l2_again_gbs), 1e-3, RATE_MAX},
    {"llc_gbs", PS_JSON_F64, offsetof(ps_fill_rates, llc_gbs), 0, RATE_MAX},
    {"llc_again_gbs", PS_JSON_F64, offsetof(ps_fill_rates, llc_again_gbs), 0, RATE_MAX},
};

typedef struct head {
    uint32_t format;
    char date[12];
} head;

static const ps_json_field HEAD[] = {
    {"prestage_tune", PS_JSON_U32, offsetof(head, format), 0, UINT32_MAX},
    {"date", TEXT_AT(head, date)},
};

// ---- reading

static ps_status read_part(json_t *root, const char *key, const ps_json_field *fields, size_t count,
                           void *out)
{
    json_t *part = NULL;
    PS_TRY(ps_json_take(root, key, &part));
    const ps_status status = ps_json_fields_read(part, fields, count, true, out);
    json_decref(part);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "%s", key);
}

static ps_status read_list(json_t *root, const char *key, const ps_json_field *fields, size_t count,
                           void *out, size_t item_bytes, uint32_t most, uint32_t *out_count)
{
    json_t *list = NULL;
    PS_TRY(ps_json_take(root, key, &list));
    const size_t length = json_array_size(list);
    ps_status status = PS_OK;
    if (!json_is_array(list) || length > most) {
        status = ps_fail(PS_INVALID, "a list of at most %u would be right", most);
    }
    for (size_t i = 0; i < length && status == PS_OK; i++) {
        status = ps_json_fields_read(json_array_get(list, i), fields, count, true,
                                     (char *)out + i * item_bytes);
    }
    *out_count = (uint32_t)length;
    json_decref(list);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "%s", key);
}

static ps_status read_parts(json_t *root, ps_tuned *out)
{
    PS_TRY(read_part(root, "key", KEY, COUNT_OF(KEY), &out->key));
    PS_TRY(read_part(root, "machine", ps_machine_fields, ps_machine_field_count, &out->machine));
    PS_TRY(read_part(root, "comm", COMM, COUNT_OF(COMM), &out->comm));
    PS_TRY(read_list(root, "fills", FILL, COUNT_OF(FILL), out->fills, sizeof out->fills[0],
                     PS_FILL_RATES_MAX, &out->fill_count));
    PS_TRY(read_list(root, "collectives", COLLECTIVE, COUNT_OF(COLLECTIVE), out->collectives,
                     sizeof out->collectives[0], PS_TUNED_COLLECTIVES_MAX, &out->collective_count));
    head h = {0};
    PS_TRY(ps_json_fields_read(root, HEAD, COUNT_OF(HEAD), true, &h)); // and nothing else
    memcpy(out->date, h.date, sizeof out->date);
    return PS_OK;
}

// What is said twice is the same.
static ps_status check_machine(const ps_tuned *tuned)
{
    const ps_machine *m = &tuned->machine;
    const ps_tuned_key *key = &tuned->key;
    return strcmp(m->name, key->name) == 0 && m->threads == key->threads &&
                   m->l2_bytes == key->l2_bytes && m->llc_bytes == key->llc_bytes
               ? PS_OK
               : ps_fail(PS_INVALID, "its machine is not that of its key");
}

bool ps_tuned_is_json(const json_t *root)
{
    return json_object_get(root, "prestage_tune") != NULL;
}

ps_status ps_tuned_read_json(json_t *root, const ps_tuned_key *key, ps_tuned *out)
{
    const json_t *format = json_object_get(root, "prestage_tune");
    if (!ps_tuned_is_json(root)) {
        return ps_fail(PS_INVALID, "a file that prestage tune wrote would be right");
    }
    if (!json_is_integer(format) || json_integer_value(format) != PS_TUNED_FORMAT) {
        return ps_fail(PS_UNSUPPORTED, "it is of another format, this build reads %u",
                       PS_TUNED_FORMAT);
    }
    ps_tuned tuned = {0};
    PS_TRY(read_parts(root, &tuned));
    PS_TRY(check_machine(&tuned));
    if (key != NULL) {
        PS_TRY(ps_json_fields_compare(KEY, COUNT_OF(KEY), &tuned.key, key));
    }
    *out = tuned;
    return PS_OK;
}

ps_status ps_tuned_read(const char *path, const ps_tuned_key *key, ps_tuned *out)
{
    json_t *root = NULL;
    ps_status status = ps_json_file_read(path, "a file of prestage tune", &root);
    if (status == PS_OK) {
        status = ps_tuned_read_json(root, key, out);
        json_decref(root);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

bool ps_tuned_find(const ps_tuned_key *key, ps_tuned *out)
{
    char path[PS_TUNED_PATH_BYTES];
    ps_status status = ps_tuned_path(key, path);
    if (status == PS_OK) {
        status = ps_tuned_read(path, key, out);
    }
    if (status != PS_OK && status != PS_NOT_FOUND) {
        ps_log(PS_LOG_WARNING, "%s; it is not used, prestage tune makes a new one",
               ps_error_message());
    }
    return status == PS_OK;
}

// ---- writing

static json_t *write_list(const ps_json_field *fields, size_t count, const void *items,
                          size_t item_bytes, uint32_t length)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < length; i++) {
        // a failure shows in the length
        (void)json_array_append_new(
            list, ps_json_fields_write(fields, count, (const char *)items + i * item_bytes));
    }
    if (json_array_size(list) != length) {
        json_decref(list);
        return NULL;
    }
    return list;
}

ps_status ps_tuned_print(const ps_tuned *tuned, ps_buffer *out)
{
    json_t *root = json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "prestage_tune", (int)PS_TUNED_FORMAT, "date",
        tuned->date, "key", ps_json_fields_write(KEY, COUNT_OF(KEY), &tuned->key), "machine",
        ps_json_fields_write(ps_machine_fields, ps_machine_field_count, &tuned->machine), "comm",
        ps_json_fields_write(COMM, COUNT_OF(COMM), &tuned->comm), "fills",
        write_list(FILL, COUNT_OF(FILL), tuned->fills, sizeof tuned->fills[0], tuned->fill_count),
        "collectives",
        write_list(COLLECTIVE, COUNT_OF(COLLECTIVE), tuned->collectives,
                   sizeof tuned->collectives[0], tuned->collective_count));
    char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the measurements as JSON");
    }
    const ps_status status = ps_buffer_printf(out, "%s\n", text);
    free(text);
    return status;
}

// The folders above the file.
static ps_status make_folders(const char *path)
{
    char folder[PS_TUNED_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s", path);
    for (char *at = strchr(folder + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            return ps_fail(PS_IO, "%s: %s", folder, strerror(errno));
        }
        *at = '/';
    }
    return PS_OK;
}

ps_status ps_tuned_write(const ps_tuned *tuned, const char *path, bool replace)
{
    ps_buffer text = {0};
    ps_status status = ps_tuned_print(tuned, &text);
    if (status == PS_OK) {
        status = make_folders(path);
    }
    if (status == PS_OK) {
        status = ps_new_file_write_all(path, text.data, text.length, replace);
        status = status == PS_OK ? PS_OK : ps_file_name_error(path, status);
    }
    ps_buffer_deinit(&text);
    return status;
}

// ---- keys and paths

ps_status ps_tuned_key_here(const ps_machine *machine, const char *isa, const ps_ranks *ranks,
                            uint32_t planned, const char *link, ps_tuned_key *out)
{
    ps_tuned_key key = {.threads = machine->threads,
                        .cpus = ps_machine_affinity_count(),
                        .l2_bytes = machine->l2_bytes,
                        .llc_bytes = machine->llc_bytes,
                        .ranks = planned > 1 ? planned : 1,
                        .ranks_here = planned > 1 ? planned : 1};
    ps_comm_link parsed = {0};
    const char *comm = planned > 1 ? "local" : "none";
    if (link != NULL) {
        PS_TRY(ps_comm_link_parse(link, &parsed));
    }
    if (ranks != NULL) {
        key.cpus = ps_ranks_cpus(ranks);
        key.ranks = ps_ranks_size(ranks);
        key.ranks_here = ps_ranks_here(ranks);
        comm = ps_ranks_launch_name(ranks);
        parsed = *ps_ranks_link(ranks);
    }
    key.latency_ns = parsed.latency_ns;
    key.bits_per_second = parsed.bits_per_second;
    (void)snprintf(key.version, sizeof key.version, "%s", ps_version());
    (void)snprintf(key.name, sizeof key.name, "%s", machine->name);
    (void)snprintf(key.isa, sizeof key.isa, "%s", isa);
    (void)snprintf(key.comm, sizeof key.comm, "%s", comm);
    *out = key;
    return PS_OK;
}

static bool find_folder(char folder[PS_TUNED_PATH_BYTES])
{
    const char *own = getenv("PRESTAGE_CACHE");
    const char *caches = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    if (own != NULL && *own != '\0') {
        length = snprintf(folder, PS_TUNED_PATH_BYTES, "%s", own);
    } else if (caches != NULL && *caches == '/') { // others are to be ignored
        length = snprintf(folder, PS_TUNED_PATH_BYTES, "%s/prestage", caches);
    } else if (home != NULL && *home != '\0') {
        length = snprintf(folder, PS_TUNED_PATH_BYTES, "%s/.cache/prestage", home);
    }
    return length >= 0 && length < (int)PS_TUNED_PATH_BYTES - 64;
}

ps_status ps_tuned_path(const ps_tuned_key *key, char path[PS_TUNED_PATH_BYTES])
{
    if (!find_folder(path)) {
        return ps_fail(PS_NOT_FOUND, "no folder to keep measurements in: none of PRESTAGE_CACHE, "
                                     "XDG_CACHE_HOME and HOME is set");
    }
    json_t *object = ps_json_fields_write(KEY, COUNT_OF(KEY), key);
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the name of a file");
    }
    const size_t length = strlen(path);
    (void)snprintf(path + length, PS_TUNED_PATH_BYTES - length, "/machine-%016" PRIx64 ".json",
                   ps_hash(text, strlen(text), PS_TUNED_FORMAT));
    free(text);
    return PS_OK;
}
