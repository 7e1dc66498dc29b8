// cli/plot_scale.c - which numbers an axis shows, in which unit, and where.
#include "cli/plot_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX 1e150 // far from where sums and ticks overflow
#define VALUE_MIN 1e-150
#define STEPS 5.0      // that a linear axis has at least half of, and at most two more
#define LOG_STEPS 9    // that a logarithmic one has at most
#define FROM_ZERO 0.35 // an axis whose low end is less of its high end starts at 0
#define EQUAL 1e-6     // values closer than that, in relation to them, are one

// ---- units

typedef struct unit {
    const char *of, *name;
    double size;
} unit;

// Rising, of each unit.
static const unit UNITS[] = {
    {"ns", "ns", 1},
    {"ns", "\xc2\xb5s", 1e3},
    {"ns", "ms", 1e6},
    {"ns", "s", 1e9},
    {"bytes", "B", 1},
    {"bytes", "KiB", 1024},
    {"bytes", "MiB", 1048576},
    {"bytes", "GiB", 1073741824},
    {"bytes", "TiB", 1099511627776},
};

// The one in which `value` is at least 1.
static unit unit_of(const char *name, double value)
{
    unit best = {.name = name == NULL ? "" : name, .size = 1};
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        const bool is_first = UNITS[i].size == 1; // what is less than 1 has none better
        if (strcmp(best.name, "") != 0 && strcmp(name, UNITS[i].of) == 0 &&
            (is_first || fabs(value) >= UNITS[i].size)) {
            best = UNITS[i];
        }
    }
    return best;
}

// The shortest of what "%g" makes of a number: "1e9", not "1e+09".
static void print_number(double value, int digits, char out[PS_PLOT_VALUE_BYTES])
{
    (void)snprintf(out, PS_PLOT_VALUE_BYTES, "%.*g", digits, value == 0 ? 0 : value);
    char *e = strchr(out, 'e');
    if (e != NULL) {
        char exponent[8];
        const char *digit = e + 2;
        digit += strspn(digit, "0");
        (void)snprintf(exponent, sizeof exponent, "%s%s", e[1] == '-' ? "-" : "", digit);
        memcpy(e + 1, exponent, strlen(exponent) + 1);
    }
}

void ps_plot_value_text(double value, const char *unit_name, char out[PS_PLOT_VALUE_BYTES])
{
    if (!isfinite(value)) {
        (void)snprintf(out, PS_PLOT_VALUE_BYTES, "none");
        return;
    }
    const unit shown = unit_of(unit_name, value);
    const double scaled = value / shown.size;
    // Six digits, or all of a whole number.
    print_number(scaled, scaled == rint(scaled) && fabs(scaled) < 1e9 ? 9 : 6, out);
    const size_t length = strlen(out);
    if (*shown.name != '\0') {
        (void)snprintf(out + length, PS_PLOT_VALUE_BYTES - length, " %s", shown.name);
    }
}

void ps_plot_short_text(double value, char out[PS_PLOT_VALUE_BYTES])
{
    const double size = fabs(value);
    if (size >= 1e6 || (size < 1e-3 && size > 0)) {
        print_number(value, 3, out);
        return;
    }
    const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 || size == 0 ? 2 : 3;
    (void)snprintf(out, PS_PLOT_VALUE_BYTES, "%.*f", decimals, value);
}

// ---- ranges

bool ps_plot_has_place(const ps_plot_axis *axis, double value)
{
    if (axis->places != NULL) {
        return value >= 0 && value < axis->place_count;
    }
    return fabs(value) <= VALUE_MAX && (!axis->is_log || value >= VALUE_MIN);
}

void ps_plot_range_add(ps_plot_range *range, const ps_plot_axis *axis, double value)
{
    if (!ps_plot_has_place(axis, value)) {
        return;
    }
    range->low = range->count == 0 ? value : fmin(range->low, value);
    range->high = range->count == 0 ? value : fmax(range->high, value);
    int exponent;
    range->has_other_power |= frexp(value, &exponent) != 0.5;
    range->count++;
}

// ---- ticks

static void add_tick(ps_plot_scale *scale, double value)
{
    ps_assert(scale->tick_count < PS_PLOT_TICKS_MAX);
    scale->ticks[scale->tick_count++] = value * scale->unit_size;
}

// 1, 2, 2.5 or 5 times a power of ten, at least `least`.
static double round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    static const double STEPS_OF_TEN[] = {1, 2, 2.5, 5};
    for (size_t i = 0; i < sizeof STEPS_OF_TEN / sizeof STEPS_OF_TEN[0]; i++) {
        if (STEPS_OF_TEN[i] * power >= least * (1 - EQUAL)) {
            return STEPS_OF_TEN[i] * power;
        }
    }
    return 10 * power;
}

static void make_linear(double low, double high, ps_plot_scale *scale)
{
    if (high - low <= EQUAL * fmax(fabs(low), fabs(high)) || (low > 0 && low < FROM_ZERO * high)) {
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    if (high - low < VALUE_MIN) {
        low = 0;
        high = 1;
    }
    const double step = round_step((high - low) / STEPS);
    const double first = floor(low / step + EQUAL);
    const double last = fmax(first + 1, ceil(high / step - EQUAL));
    const int count = (int)(last - first) + 1;
    for (int i = 0; i < count; i++) {
        add_tick(scale, (first + i) * step);
    }
}

// floor(log(value) / log(base)), exact at powers of the base.
static int exponent_of(double base, double value)
{
    int exponent = (int)floor(log(value) / log(base));
    while (pow(base, exponent + 1) <= value) {
        exponent++;
    }
    while (pow(base, exponent) > value) {
        exponent--;
    }
    return exponent;
}

// Powers of the base, every one or every so many.
static void make_powers(double base, double low, double high, ps_plot_scale *scale)
{
    const int first = exponent_of(base, low);
    int last = exponent_of(base, high);
    last += pow(base, last) < high * (1 - EQUAL) || last == first ? 1 : 0;
    const int most = base == 2 ? LOG_STEPS + 4 : LOG_STEPS;
    const int stride = (last - first + most - 1) / most;
    for (int i = first; i < last + stride; i += stride) {
        add_tick(scale, pow(base, i));
    }
}

// Few decades: 1, 2 and 5 of them, from below `low` to above `high`.
static void make_decades(double low, double high, ps_plot_scale *scale)
{
    static const double OF_TEN[] = {1, 2, 5};
    const int first = exponent_of(10, low);
    for (int i = 0; i < 3 * 5; i++) {
        const double tick = OF_TEN[i % 3] * pow(10, first + i / 3);
        const double next = OF_TEN[(i + 1) % 3] * pow(10, first + (i + 1) / 3);
        if (next > low * (1 + EQUAL)) {
            add_tick(scale, tick);
        }
        if (tick >= high * (1 - EQUAL) && scale->tick_count > 1) {
            return;
        }
    }
}

static void make_log(const ps_plot_range *range, double low, double high, ps_plot_scale *scale)
{
    int exponent;
    const bool is_binary = frexp(scale->unit_size, &exponent) == 0.5;
    if (!range->has_other_power && is_binary) {
        make_powers(2, low, high, scale);
    } else if (high / low < 1000) {
        make_decades(low, high, scale);
    } else {
        make_powers(10, low, high, scale);
    }
}

ps_plot_scale ps_plot_scale_make(const ps_plot_axis *axis, const ps_plot_range *range)
{
    ps_plot_scale scale = {.axis = axis, .unit_size = 1, .high = axis->place_count};
    if (axis->places != NULL) {
        scale.high = fmax(scale.high, 1);
        return scale;
    }
    // Without values it is an axis from 1 to 2, or 0 to 1, of which nothing is shown.
    const double low = range->count == 0 ? axis->is_log : range->low;
    const double high = range->count == 0 ? axis->is_log + 1.0 : range->high;
    const unit shown = unit_of(axis->unit, fmax(fabs(low), fabs(high)));
    scale.unit_size = shown.size;
    (void)snprintf(scale.unit, sizeof scale.unit, "%s", shown.name);
    if (axis->is_log) {
        make_log(range, low / shown.size, high / shown.size, &scale);
    } else {
        make_linear(low / shown.size, high / shown.size, &scale);
    }
    scale.low = scale.ticks[0];
    scale.high = scale.ticks[scale.tick_count - 1];
    return scale;
}

double ps_plot_scale_at(const ps_plot_scale *scale, double value)
{
    const bool is_log = scale->axis->places == NULL && scale->axis->is_log;
    const double at = scale->axis->places != NULL ? value + 0.5 : value;
    const double share = is_log ? log(at / scale->low) / log(scale->high / scale->low)
                                : (at - scale->low) / (scale->high - scale->low);
    return scale->pixel_low + fmin(fmax(share, 0), 1) * (scale->pixel_high - scale->pixel_low);
}

void ps_plot_tick_text(const ps_plot_scale *scale, double value, char out[PS_PLOT_VALUE_BYTES])
{
    const double shown = value / scale->unit_size;
    print_number(shown, 9, out);
    if (scale->tick_count < 2 || scale->axis->is_log || fabs(shown) >= 1e7) {
        return;
    }
    // As many decimals as the step has, for all alike: 1.0, 1.5, 2.0.
    const double step = (scale->ticks[1] - scale->ticks[0]) / scale->unit_size;
    for (int decimals = 0; decimals <= 6; decimals++) {
        const double scaled = step * pow(10, decimals);
        if (fabs(scaled - rint(scaled)) < 1e-3) {
            (void)snprintf(out, PS_PLOT_VALUE_BYTES, "%.*f", decimals, shown == 0 ? 0 : shown);
            return;
        }
    }
}
