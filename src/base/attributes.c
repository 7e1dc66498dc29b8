// base/attributes.c - attributes as text, from attributes.def.
#include "base/attributes.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum {
#define U32(name) ATTRIBUTE_##name,
#define F32(name) ATTRIBUTE_##name,
#include "base/attributes.def"
#undef U32
#undef F32
    ATTRIBUTE_COUNT,
};
_Static_assert(ATTRIBUTE_COUNT <= 64, "`seen` of ps_attributes_scan has one bit for each");

static const char *const NAMES[ATTRIBUTE_COUNT] = {
#define U32(name) #name,
#define F32(name) #name,
#include "base/attributes.def"
#undef U32
#undef F32
};

static const bool IS_FLOAT[ATTRIBUTE_COUNT] = {
#define U32(name) false,
#define F32(name) true,
#include "base/attributes.def"
#undef U32
#undef F32
};

static const size_t OFFSETS[ATTRIBUTE_COUNT] = {
#define U32(name) offsetof(ps_op_attributes, name),
#define F32(name) offsetof(ps_op_attributes, name),
#include "base/attributes.def"
#undef U32
#undef F32
};

static const char *const ROPE_STYLES[] = {[PS_ROPE_NORM] = "norm", [PS_ROPE_NEOX] = "neox"};
static const char *const ACTIVATIONS[] = {
    [PS_ACTIVATION_SILU] = "silu", [PS_ACTIVATION_GELU] = "gelu"};
static const char *const GATINGS[] = {
    [PS_GATING_SOFTMAX] = "softmax", [PS_GATING_SOFTMAX_SELECTED] = "softmax_selected"};

static const char *const WINDOWS[] = {[PS_WINDOW_NONE] = "none",
                                      [PS_WINDOW_VECTOR] = "vector",
                                      [PS_WINDOW_COMM] = "comm",
                                      [PS_WINDOW_BARRIER] = "barrier",
                                      [PS_WINDOW_SIDE] = "side"};

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

// The words that stand for the values of one attribute; count 0: it is a number.
typedef struct wordlist {
    const char *const *words;
    uint32_t count;
} wordlist;

// `sites` is room for the names of the sites; the nameless one is written by leaving it out.
static wordlist words_of(uint32_t attribute, const char *sites[PS_SITE_COUNT])
{
    switch (attribute) {
    case ATTRIBUTE_site:
        sites[PS_SITE_NONE] = NULL;
        for (unsigned i = PS_SITE_NONE + 1; i < PS_SITE_COUNT; i++) {
            sites[i] = ps_site_name((ps_site)i);
        }
        return (wordlist){sites, PS_SITE_COUNT};
    case ATTRIBUTE_rope_style:
        return (wordlist){ROPE_STYLES, COUNT_OF(ROPE_STYLES)};
    case ATTRIBUTE_activation:
        return (wordlist){ACTIVATIONS, COUNT_OF(ACTIVATIONS)};
    case ATTRIBUTE_gating:
        return (wordlist){GATINGS, COUNT_OF(GATINGS)};
    case ATTRIBUTE_reason:
        for (unsigned i = 0; i < PS_REASON_COUNT; i++) {
            sites[i] = ps_reason_name((ps_reason)i);
        }
        return (wordlist){sites, PS_REASON_COUNT};
    case ATTRIBUTE_window:
        return (wordlist){WINDOWS, COUNT_OF(WINDOWS)};
    default:
        return (wordlist){NULL, 0};
    }
}

static const void *field(const ps_op_attributes *attributes, uint32_t attribute)
{
    return (const char *)attributes + OFFSETS[attribute];
}

static ps_status print_value(const ps_op_attributes *attributes, uint32_t attribute, ps_buffer *out)
{
    if (IS_FLOAT[attribute]) {
        return ps_buffer_f32(out, *(const float *)field(attributes, attribute));
    }
    const uint32_t value = *(const uint32_t *)field(attributes, attribute);
    const char *sites[PS_SITE_COUNT];
    const wordlist list = words_of(attribute, sites);
    return value < list.count ? ps_buffer_printf(out, "%s", list.words[value])
                              : ps_buffer_printf(out, "%u", value);
}

static bool is_zero(const ps_op_attributes *attributes, uint32_t attribute)
{
    return IS_FLOAT[attribute] ? *(const float *)field(attributes, attribute) == 0
                               : *(const uint32_t *)field(attributes, attribute) == 0;
}

ps_status ps_attributes_print(const ps_op_attributes *attributes, ps_buffer *out)
{
    const char *before = " {";
    for (uint32_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        if (is_zero(attributes, i)) {
            continue;
        }
        PS_TRY(ps_buffer_printf(out, "%s%s=", before, NAMES[i]));
        PS_TRY(print_value(attributes, i, out));
        before = " ";
    }
    return before[1] == '{' ? PS_OK : ps_buffer_append(out, "}", 1);
}

static ps_status scan_value(ps_scan *scan, uint32_t attribute, ps_op_attributes *out)
{
    void *target = (char *)out + OFFSETS[attribute];
    if (IS_FLOAT[attribute]) {
        return ps_scan_f32(scan, target);
    }
    const char *sites[PS_SITE_COUNT];
    const wordlist list = words_of(attribute, sites);
    if (list.count > 0) {
        char what[32];
        (void)snprintf(what, sizeof what, "a value of '%s'", NAMES[attribute]);
        return ps_scan_choice(scan, what, list.words, list.count, target);
    }
    return ps_scan_u32(scan, UINT32_MAX, target);
}

ps_status ps_attributes_scan(ps_scan *scan, ps_op_attributes *out)
{
    ps_op_attributes attributes = {0};
    uint64_t seen = 0;
    if (ps_scan_try_mark(scan, '{')) {
        while (!ps_scan_try_mark(scan, '}')) {
            uint32_t attribute = 0;
            PS_TRY(ps_scan_choice(scan, "an attribute", NAMES, ATTRIBUTE_COUNT, &attribute));
            if (seen >> attribute & 1) {
                return ps_scan_fail(scan, "'%s' is given twice", NAMES[attribute]);
            }
            seen |= (uint64_t)1 << attribute;
            PS_TRY(ps_scan_mark(scan, '='));
            PS_TRY(scan_value(scan, attribute, &attributes));
        }
    }
    *out = attributes;
    return PS_OK;
}

ps_status ps_attributes_check(const ps_op_attributes *attributes)
{
    for (uint32_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        if (IS_FLOAT[i]) {
            if (!isfinite(*(const float *)field(attributes, i))) {
                return ps_fail(PS_INVALID, "%s is not finite", NAMES[i]);
            }
            continue;
        }
        const uint32_t value = *(const uint32_t *)field(attributes, i);
        const char *sites[PS_SITE_COUNT];
        const wordlist list = words_of(i, sites);
        if (list.count > 0 && value >= list.count) {
            return ps_fail(PS_INVALID, "%s=%u, less than %u would be right", NAMES[i], value,
                           list.count);
        }
    }
    return PS_OK;
}
