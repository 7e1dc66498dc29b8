// cli/json_writer.c - values, escapes, commas.
#include "cli/json_writer.h"

#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(ps_json_writer *json, const char *bytes, size_t length)
{
    if (json->status == PS_OK) {
        json->status = ps_buffer_append(&json->text, bytes, length);
    }
}

static void add_quoted(ps_json_writer *json, ps_str value)
{
    add(json, "\"", 1);
    size_t i = 0;
    while (i < value.length) {
        const unsigned char byte = (unsigned char)value.data[i];
        uint32_t code_point = 0;
        const size_t bytes = ps_utf8_decode(value.data + i, value.length - i, &code_point);
        char escape[8];
        if (bytes == 0) {
            add(json, "\xef\xbf\xbd", 3); // U+FFFD
            i++;
        } else if (byte == '"' || byte == '\\') {
            add(json, byte == '"' ? "\\\"" : "\\\\", 2);
            i++;
        } else if (byte < 0x20 || byte == 0x7f) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", byte);
            add(json, byte == '\n' ? "\\n" : escape, byte == '\n' ? 2 : 6);
            i++;
        } else {
            add(json, value.data + i, bytes);
            i += bytes;
        }
    }
    add(json, "\"", 1);
}

static bool is_inline(const ps_json_writer *json)
{
    return json->inline_depth != 0 && json->depth >= json->inline_depth;
}

static void new_line(ps_json_writer *json)
{
    add(json, "\n", 1);
    for (uint32_t i = 0; i < json->depth; i++) {
        add(json, " ", 1);
    }
}

// What stands before a value.
static void begin_item(ps_json_writer *json, const char *key)
{
    if (json->has_items) {
        add(json, ", ", is_inline(json) ? 2 : 1);
    }
    if (json->depth > 0 && !is_inline(json)) {
        new_line(json);
    }
    if (key != NULL) {
        add_quoted(json, ps_str_of(key));
        add(json, ": ", 2);
    }
    json->has_items = true;
}

void ps_json_begin(ps_json_writer *json, const char *key, char bracket)
{
    begin_item(json, key);
    add(json, &bracket, 1);
    json->depth++;
    json->has_items = false;
}

void ps_json_begin_inline(ps_json_writer *json, const char *key, char bracket)
{
    ps_json_begin(json, key, bracket);
    if (json->inline_depth == 0) {
        json->inline_depth = json->depth;
    }
}

void ps_json_end(ps_json_writer *json, char bracket)
{
    const bool was_inline = is_inline(json);
    if (json->inline_depth == json->depth) {
        json->inline_depth = 0;
    }
    json->depth--;
    if (json->has_items && !was_inline) {
        new_line(json);
    }
    add(json, &bracket, 1);
    json->has_items = true;
}

void ps_json_string(ps_json_writer *json, const char *key, ps_str value)
{
    begin_item(json, key);
    add_quoted(json, value);
}

void ps_json_text(ps_json_writer *json, const char *key, const char *value)
{
    begin_item(json, key);
    if (value == NULL) {
        add(json, "null", 4);
    } else {
        add_quoted(json, ps_str_of(value));
    }
}

void ps_json_integer(ps_json_writer *json, const char *key, int64_t value)
{
    char text[24];
    begin_item(json, key);
    add(json, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

void ps_json_number(ps_json_writer *json, const char *key, double value)
{
    char text[32];
    begin_item(json, key);
    add(json, text,
        (size_t)(isfinite(value) ? snprintf(text, sizeof text, "%.7g", value)
                                 : snprintf(text, sizeof text, "null")));
}

void ps_json_raw(ps_json_writer *json, const char *key, const char *value)
{
    begin_item(json, key);
    add(json, value, strlen(value));
}

void ps_json_bool(ps_json_writer *json, const char *key, bool value)
{
    begin_item(json, key);
    add(json, value ? "true" : "false", value ? 4 : 5);
}

void ps_json_ids(ps_json_writer *json, const char *key, const int32_t *ids, size_t count)
{
    ps_json_begin_inline(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        ps_json_integer(json, NULL, ids[i]);
    }
    ps_json_end(json, ']');
}

ps_status ps_json_print(ps_json_writer *json)
{
    if (json->status == PS_OK) {
        (void)fwrite(json->text.data, 1, json->text.length, stdout);
        (void)putchar('\n');
    }
    ps_buffer_deinit(&json->text);
    return json->status;
}
