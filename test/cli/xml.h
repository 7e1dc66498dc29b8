// test/cli/xml.h - whether a text is well-formed XML, as far as pictures and reports use it.
#ifndef PS_TEST_CLI_XML_H
#define PS_TEST_CLI_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define XML_DEPTH_MAX 32

// What may stand between tags and in quotes: no '<', known entities, no control characters, UTF-8
// by its lead bytes.
static bool xml_text_is_right(const char *text, size_t length)
{
    static const char *const ENTITIES[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (size_t i = 0; i < length;) {
        const unsigned char byte = (unsigned char)text[i];
        const size_t more = byte < 0x80   ? 0
                            : byte < 0xc2 ? 9
                            : byte < 0xe0 ? 1
                            : byte < 0xf0 ? 2
                                          : 3;
        bool is_right = more < 9 && byte != '<' && (byte >= 0x20 || byte == '\n') && byte != 0x7f;
        for (size_t k = 1; k <= more && is_right; k++) {
            is_right = i + k < length && ((unsigned char)text[i + k] & 0xc0) == 0x80;
        }
        bool is_entity = byte != '&';
        for (size_t e = 0; e < sizeof ENTITIES / sizeof ENTITIES[0] && !is_entity; e++) {
            is_entity = strncmp(text + i, ENTITIES[e], strlen(ENTITIES[e])) == 0;
        }
        if (!is_right || !is_entity) {
            (void)fprintf(stderr, "wrong text: %.60s\n", text + i);
            return false;
        }
        i += more + 1;
    }
    return true;
}

// From behind a tag's name to its end; NULL if that is wrong. Every attribute is quoted.
static const char *xml_attributes_end(const char *at)
{
    while (*at != '>' && strncmp(at, "/>", 2) != 0) {
        const size_t name = strcspn(at + 1, "=<>\"/ ");
        if (*at != ' ' || strncmp(at + 1 + name, "=\"", 2) != 0) {
            return NULL;
        }
        const char *value = at + 1 + name + 2;
        const size_t length = strcspn(value, "\"");
        if (value[length] == '\0' || !xml_text_is_right(value, length)) {
            return NULL;
        }
        at = value + length + 1;
    }
    return at;
}

static bool xml_is_well_formed(const char *text)
{
    const char *open[XML_DEPTH_MAX];
    size_t depth = 0;
    const char *at = strncmp(text, "<!DOCTYPE html>\n", 16) == 0 ? text + 16 : text;
    do {
        const size_t length = strcspn(at, "<");
        if (!xml_text_is_right(at, length)) {
            return false;
        }
        at += length;
        if (at[0] == '<' && at[1] == '/') {
            const size_t name = strcspn(at + 2, ">");
            if (depth == 0 || strncmp(open[depth - 1], at + 2, name) != 0 ||
                strcspn(open[depth - 1], " />") != name) {
                (void)fprintf(stderr, "not open: %.60s\n", at);
                return false;
            }
            depth--;
            at += 2 + name + 1;
        } else if (*at == '<') {
            const char *end = xml_attributes_end(at + 1 + strcspn(at + 1, " />"));
            if (end == NULL || depth == XML_DEPTH_MAX) {
                (void)fprintf(stderr, "wrong tag: %.60s\n", at);
                return false;
            }
            if (*end == '>') {
                open[depth++] = at + 1;
            }
            at = end + (*end == '>' ? 1 : 2);
        }
    } while (depth > 0 && *at != '\0');
    return depth == 0 && strcmp(at, "\n") == 0;
}

#endif
