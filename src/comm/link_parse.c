// comm/link_parse.c - "latency=40us,bandwidth=25Gbps".
#include "comm/comm.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATENCY_S_MAX 10.0
#define RATE_MIN 1e3

typedef struct unit {
    const char *name;
    double factor;
} unit;

typedef struct scale {
    const char *units_text;
    unit units[9]; // up to NULL
} scale;

static const scale TIMES = {"ns, us, ms and s", {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
static const scale RATES = {"Kbps, Mbps, Gbps and Tbps, KB/s, MB/s, GB/s and TB/s",
                            {{"Kbps", 1e3},
                             {"Mbps", 1e6},
                             {"Gbps", 1e9},
                             {"Tbps", 1e12},
                             {"KB/s", 8e3},
                             {"MB/s", 8e6},
                             {"GB/s", 8e9},
                             {"TB/s", 8e12}}};

#define EXAMPLE "; right would be latency=40us,bandwidth=25Gbps"

// Digits with at most one point, then a unit of the list.
static ps_status parse_quantity(const char *key, ps_str text, const scale *of, double *out)
{
    char number[32];
    const char *digits = "0123456789.";
    size_t length = 0;
    while (length < text.length && text.data[length] != '\0' &&
           strchr(digits, text.data[length]) != NULL) {
        length++;
    }
    const int shown = (int)(text.length < 64 ? text.length : 64);
    if (length == 0 || length >= sizeof number || text.data[0] == '.' ||
        text.data[length - 1] == '.') {
        return ps_fail(PS_INVALID, "%s '%.*s' is not a number with a unit" EXAMPLE, key, shown,
                       text.data);
    }
    memcpy(number, text.data, length);
    number[length] = '\0';
    char *end = NULL;
    const double value = strtod(number, &end);
    if (*end != '\0') {
        return ps_fail(PS_INVALID, "%s '%.*s' is not a number with a unit" EXAMPLE, key, shown,
                       text.data);
    }
    const ps_str name = {text.data + length, text.length - length};
    for (const unit *u = of->units; u->name != NULL; u++) {
        if (ps_str_equal(name, u->name)) {
            *out = value * u->factor;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%.*s' has no known unit; there are %s" EXAMPLE, key, shown,
                   text.data, of->units_text);
}

static bool take_key(ps_str *item, const char *key)
{
    const size_t length = strlen(key);
    if (item->length <= length || memcmp(item->data, key, length) != 0 ||
        item->data[length] != '=') {
        return false;
    }
    item->data += length + 1;
    item->length -= length + 1;
    return true;
}

// Negative: the key has not been given.
static ps_status parse_item(ps_str item, double *latency_ns, double *bandwidth)
{
    const int shown = (int)(item.length < 64 ? item.length : 64);
    const char *text = item.data;
    const bool is_latency = take_key(&item, "latency");
    if (!is_latency && !take_key(&item, "bandwidth")) {
        return ps_fail(PS_INVALID, "'%.*s' is neither latency=... nor bandwidth=..." EXAMPLE, shown,
                       text);
    }
    double *value = is_latency ? latency_ns : bandwidth;
    if (*value >= 0) {
        return ps_fail(PS_INVALID, "%s is given twice", is_latency ? "latency" : "bandwidth");
    }
    if (!is_latency) {
        PS_TRY(parse_quantity("bandwidth", item, &RATES, value));
        if (*value == 0) {
            return ps_fail(PS_INVALID, "a bandwidth of 0" EXAMPLE);
        }
        return *value >= RATE_MIN ? PS_OK
                                  : ps_fail(PS_INVALID, "bandwidth '%.*s' is less than 1 Kbps",
                                            (int)item.length, item.data);
    }
    PS_TRY(parse_quantity("latency", item, &TIMES, value));
    return *value <= LATENCY_S_MAX * 1e9 ? PS_OK
                                         : ps_fail(PS_INVALID, "latency '%.*s' is more than %.0f s",
                                                   (int)item.length, item.data, LATENCY_S_MAX);
}

ps_status ps_comm_link_parse(const char *text, ps_comm_link *out)
{
    double latency_ns = -1;
    double bandwidth = -1;
    for (const char *at = text;;) {
        const size_t length = strcspn(at, ",");
        PS_TRY(parse_item((ps_str){at, length}, &latency_ns, &bandwidth));
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    *out = (ps_comm_link){.latency_ns = latency_ns > 0 ? (uint64_t)llround(latency_ns) : 0,
                          .bits_per_second = bandwidth > 0 ? bandwidth : 0};
    return PS_OK;
}
