// text/jinja_unicode.c - code points, as far as templates meet them.
#include "text/jinja_unicode.h"

#include "text/utf8.h"

#include <locale.h>
#include <pthread.h>
#include <wctype.h>

#define REPLACEMENT 0xFFFDu

uint32_t ps_jinja_decode(const char *text, size_t length, size_t *out_bytes)
{
    uint32_t code = REPLACEMENT;
    const size_t bytes = ps_utf8_decode(text, length, &code);
    *out_bytes = bytes == 0 ? 1 : bytes;
    return code;
}

size_t ps_jinja_valid_bytes(ps_str text)
{
    size_t at = 0;
    while (at < text.length) {
        uint32_t code = 0;
        const size_t bytes = ps_utf8_decode(text.data + at, text.length - at, &code);
        if (bytes == 0) {
            break;
        }
        at += bytes;
    }
    return at;
}

bool ps_jinja_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 ||
           code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool ps_jinja_is_printable(uint32_t code)
{
    // Categories Cc, Cf, Cs, Co, Zl, Zp and Zs but the space, from Unicode's general categories.
    static const uint32_t hidden[][2] = {
        {0x00, 0x1F},       {0x7F, 0xA0},        {0xAD, 0xAD},     {0x600, 0x605},
        {0x61C, 0x61C},     {0x6DD, 0x6DD},      {0x70F, 0x70F},   {0x890, 0x891},
        {0x8E2, 0x8E2},     {0x1680, 0x1680},    {0x180E, 0x180E}, {0x2000, 0x200F},
        {0x2028, 0x202F},   {0x205F, 0x206F},    {0x3000, 0x3000}, {0xD800, 0xF8FF},
        {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},    {0xFFFE, 0xFFFF}, {0x110BD, 0x110BD},
        {0xE0000, 0xE00FF}, {0xF0000, 0x10FFFF},
    };
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        if (code >= hidden[i][0] && code <= hidden[i][1]) {
            return false;
        }
    }
    return true;
}

static locale_t utf8_locale;

static void open_locale(void)
{
    utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static locale_t locale_of_case(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_locale);
    return utf8_locale;
}

uint32_t ps_jinja_upper(uint32_t code)
{
    const locale_t locale = code < 0x80 ? (locale_t)0 : locale_of_case();
    if (locale == (locale_t)0) {
        return code >= 'a' && code <= 'z' ? code - 32 : code;
    }
    return (uint32_t)towupper_l((wint_t)code, locale);
}

uint32_t ps_jinja_lower(uint32_t code)
{
    const locale_t locale = code < 0x80 ? (locale_t)0 : locale_of_case();
    if (locale == (locale_t)0) {
        return code >= 'A' && code <= 'Z' ? code + 32 : code;
    }
    return (uint32_t)towlower_l((wint_t)code, locale);
}

size_t ps_jinja_space_prefix(ps_str text)
{
    size_t at = 0;
    while (at < text.length) {
        size_t bytes = 0;
        if (!ps_jinja_is_space(ps_jinja_decode(text.data + at, text.length - at, &bytes))) {
            break;
        }
        at += bytes;
    }
    return at;
}

size_t ps_jinja_space_suffix(ps_str text)
{
    size_t end = text.length;
    while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && ((unsigned char)text.data[begin] & 0xC0u) == 0x80u) {
            begin--;
        }
        size_t bytes = 0;
        if (!ps_jinja_is_space(ps_jinja_decode(text.data + begin, end - begin, &bytes))) {
            break;
        }
        end = begin;
    }
    return text.length - end;
}
