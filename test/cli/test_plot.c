// ctest-labels: prop
// Goal: pictures show what they are given: marks are inside their frame and where their numbers
// say, ticks are round and cover the values, names of any bytes are escaped. Method: random data,
// hostile numbers among them; the pictures' text is read back with sscanf, which knows nothing of
// scales.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "cli/plot_internal.h"
#include "cli/xml.h"
#include "gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 20
#define POINTS_MAX 100
#define NAME_BYTES 80

// ---- random data

typedef struct random_plot {
    ps_plot plot;
    ps_plot_series series[SERIES_MAX];
    double x[SERIES_MAX][POINTS_MAX], y[SERIES_MAX][POINTS_MAX];
    char names[SERIES_MAX + 3][NAME_BYTES];
    const char *places[POINTS_MAX];
    ps_plot_mark marks[4];
} random_plot;

static double random_number(ps_gen *gen)
{
    static const double HOSTILE[] = {NAN,   INFINITY, -INFINITY, 0, -0.0,
                                     1e300, -1e300,   1e-300,    1, 4e-320};
    switch (ps_gen_range(gen, 0, 3)) {
    case 0:
        return HOSTILE[ps_gen_range(gen, 0, sizeof HOSTILE / sizeof HOSTILE[0] - 1)];
    case 1:
        return ps_gen_float(gen) * pow(10, ps_gen_range(gen, -20, 20));
    default:
        return (double)ps_gen_range(gen, -10, 1000);
    }
}

// Any bytes but NUL, those that XML minds among them.
static void random_name(ps_gen *gen, char *out)
{
    static const char *const PIECES[] = {"<",
                                         ">",
                                         "&",
                                         "\"",
                                         "'",
                                         "]]>",
                                         "-->",
                                         "\xc3\xa9",
                                         "\xe2\x82",
                                         "\xff",
                                         "\xe2\x80\xae",
                                         "\xef\xbf\xbf",
                                         "\x01",
                                         "\n",
                                         "%s%n",
                                         "word"};
    const int64_t pieces = ps_gen_range(gen, 0, 15);
    out[0] = '\0';
    for (int64_t i = 0; i < pieces; i++) {
        strcat(out, PIECES[ps_gen_range(gen, 0, sizeof PIECES / sizeof PIECES[0] - 1)]);
    }
}

static void make_plot(ps_gen *gen, bool has_places, random_plot *out)
{
    static const char *const UNITS[] = {"", "ns", "bytes", "a \"unit\""};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < SERIES_MAX + 3; i++) {
        random_name(gen, out->names[i]);
    }
    out->plot = (ps_plot){.title = out->names[SERIES_MAX],
                          .x = {out->names[SERIES_MAX + 1], UNITS[ps_gen_range(gen, 0, 3)],
                                .is_log = ps_gen_range(gen, 0, 1) == 1},
                          .y = {out->names[SERIES_MAX + 2], UNITS[ps_gen_range(gen, 0, 3)],
                                .is_log = ps_gen_range(gen, 0, 1) == 1},
                          .series = out->series,
                          .series_count = (uint32_t)ps_gen_range(gen, 0, SERIES_MAX),
                          .marks = out->marks,
                          .mark_count = (uint32_t)ps_gen_range(gen, 0, 4)};
    if (has_places) {
        out->plot.x.places = out->places;
        out->plot.x.place_count = (uint32_t)ps_gen_range(gen, 0, POINTS_MAX);
    }
    for (uint32_t i = 0; i < out->plot.x.place_count; i++) {
        out->places[i] = out->names[ps_gen_range(gen, 0, SERIES_MAX)];
    }
    for (uint32_t s = 0; s < out->plot.series_count; s++) {
        out->series[s] = (ps_plot_series){.name = ps_gen_range(gen, 0, 4) == 0 ? NULL
                                                                               : out->names[s],
                                          .x = out->x[s],
                                          .y = out->y[s],
                                          .count = (uint32_t)ps_gen_range(gen, 0, POINTS_MAX)};
        for (uint32_t i = 0; i < out->series[s].count; i++) {
            out->x[s][i] = has_places ? (double)ps_gen_range(gen, 0, POINTS_MAX)
                                      : random_number(gen);
            out->y[s][i] = random_number(gen);
        }
    }
    for (uint32_t i = 0; i < out->plot.mark_count; i++) {
        out->marks[i] = (ps_plot_mark){.x = random_number(gen),
                                       .y = random_number(gen),
                                       .series = (uint32_t)ps_gen_range(gen, 0, SERIES_MAX),
                                       .label = out->names[i]};
    }
}

// ---- reading pictures

typedef struct inside {
    double left, top, bottom, right, height;
} inside;

static inside read_frame(const char *svg)
{
    inside frame = {0};
    double width = 0;
    const char *edge = strstr(svg, "<path class=\"edge\" d=\"M");
    assert_int_equal(
        2, sscanf(strstr(svg, "viewBox"), "viewBox=\"0 0 %lf %lf\"", &width, &frame.height));
    assert_non_null(edge);
    assert_int_equal(4, sscanf(edge, "<path class=\"edge\" d=\"M%lf %lfV%lfH%lf", &frame.left,
                               &frame.top, &frame.bottom, &frame.right));
    assert_true(frame.left > 0 && frame.left < frame.right && frame.right <= width);
    assert_true(frame.top < frame.bottom && frame.bottom < frame.height);
    return frame;
}

static void assert_inside(const inside *frame, double x, double y)
{
    assert_true(x >= frame->left - 0.06 && x <= frame->right + 0.06);
    assert_true(y >= frame->top - 0.06 && y <= frame->bottom + 0.06);
}

// No number that a picture cannot have, where no name can be mistaken for one.
static void assert_numbers(const char *svg)
{
    for (const char *d = strstr(svg, " d=\""); d != NULL; d = strstr(d + 1, " d=\"")) {
        const size_t length = strcspn(d + 4, "\"");
        assert_int_equal(length, strspn(d + 4, "MLHVhvmalz0123456789.- "));
    }
}

static void test_what_is_drawn_is_inside(void **state)
{
    (void)state;
    static random_plot random;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 300; round++) {
        const bool is_bars = ps_gen_range(&gen, 0, 1) == 1;
        make_plot(&gen, is_bars || ps_gen_range(&gen, 0, 1) == 1, &random);
        ps_buffer svg = {0};
        ps_buffer again = {0};
        assert_int_equal(PS_OK, is_bars ? ps_plot_bars(&random.plot, &svg)
                                        : ps_plot_lines(&random.plot, &svg));
        assert_int_equal(PS_OK, is_bars ? ps_plot_bars(&random.plot, &again)
                                        : ps_plot_lines(&random.plot, &again));
        assert_string_equal(svg.data, again.data);
        assert_true(xml_is_well_formed(svg.data));
        assert_numbers(svg.data);
        const inside frame = read_frame(svg.data);
        for (const char *at = svg.data; (at = strstr(at, "<path class=\"")) != NULL; at++) {
            double x, y, width, end;
            if (sscanf(at, "<path class=\"fill\" d=\"M%lf %lfh%lfV%lf", &x, &y, &width, &end) ==
                4) {
                assert_inside(&frame, x, y);
                assert_inside(&frame, x + width, end);
            } else if (sscanf(at, "<path class=\"fill\" d=\"M%lf %lf", &x, &y) == 2 &&
                       y < frame.bottom + 1) {
                assert_inside(&frame, x, y);
            }
            const char *line = strncmp(at, "<path class=\"line\"", 18) == 0
                                   ? strstr(at, " d=\"") + 4
                                   : "";
            int used = 0;
            while (sscanf(line, "%*1[ML]%lf %lf%n", &x, &y, &used) == 2 && y < frame.bottom + 1) {
                assert_inside(&frame, x, y);
                line += used;
            }
        }
        ps_buffer_deinit(&svg);
        ps_buffer_deinit(&again);
    }
}

// ---- ticks

static bool is_round(double number, const char *const *mantissas)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.6e", fabs(number));
    for (; *mantissas != NULL; mantissas++) {
        if (strncmp(text, *mantissas, strlen(*mantissas)) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_power_of_two(double number)
{
    int exponent;
    return frexp(number, &exponent) == 0.5;
}

static void test_ticks_are_round_and_cover(void **state)
{
    (void)state;
    static const char *const STEPS[] = {"1.000000", "2.000000", "2.500000", "5.000000", NULL};
    static const char *const POWERS[] = {"1.000000", "2.000000", "5.000000", NULL};
    static const char *const UNITS[] = {"", "ns", "bytes"};
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 5000; round++) {
        const ps_plot_axis axis = {.unit = UNITS[ps_gen_range(&gen, 0, 2)],
                                   .is_log = ps_gen_range(&gen, 0, 1) == 1};
        ps_plot_range range = {0};
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = ps_gen_range(&gen, 1, 5); i > 0; i--) {
            double value = random_number(&gen);
            value = ps_gen_range(&gen, 0, 9) == 0 ? 7 : axis.is_log ? fabs(value) : value;
            if (fabs(value) < 1e140 && (fabs(value) > 1e-140 || (value == 0 && !axis.is_log))) {
                ps_plot_range_add(&range, &axis, value);
                low = fmin(low, value);
                high = fmax(high, value);
            }
        }
        const ps_plot_scale scale = ps_plot_scale_make(&axis, &range);
        assert_true(scale.tick_count >= 2 && scale.tick_count <= 15);
        const double *ticks = scale.ticks;
        const double step = (ticks[1] - ticks[0]) / scale.unit_size;
        const double slack = 1e-5 * (ticks[scale.tick_count - 1] - ticks[0]);
        assert_true(range.count == 0 || ticks[0] <= low + (axis.is_log ? low * 1e-5 : slack));
        assert_true(range.count == 0 ||
                    ticks[scale.tick_count - 1] >=
                        high * (high > 0 && axis.is_log ? 1 - 1e-5 : 1) - slack);
        for (uint32_t i = 0; i < scale.tick_count; i++) {
            const double tick = ticks[i] / scale.unit_size;
            assert_true(i == 0 || ticks[i] > ticks[i - 1]);
            if (axis.is_log) {
                assert_true(is_round(tick, POWERS) || is_power_of_two(tick));
            } else {
                assert_true(is_round(step, STEPS));
                assert_true(fabs(tick / step - rint(tick / step)) < 1e-6);
            }
        }
    }
}

static void test_ticks_read_well(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        const char *unit;
        bool is_log;
        const char *ticks;
    } CASES[] = {
        {1.09, 1.61, "", false, "1.0 1.2 1.4 1.6 1.8"},
        {2, 8, "", false, "0 2 4 6 8"},
        {8388608, 209715200, "bytes", false, "0 50 100 150 200"},
        {1, 256, "", true, "1 2 4 8 16 32 64 128 256"},
        {3, 700, "", true, "2 5 10 20 50 100 200 500 1000"},
        {2e6, 7e6, "ns", false, "0 2 4 6 8"},
        {5, 5, "", false, "0 1 2 3 4 5"},
        {-3, -3, "", false, "-3 -2 -1 0"},
        {0, 0, "", false, "0.0 0.2 0.4 0.6 0.8 1.0"},
        {1e-12, 1e12, "", true, "1e-12 1e-9 1e-6 0.001 1 1000 1000000 1e9 1e12"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const ps_plot_axis axis = {.unit = CASES[i].unit, .is_log = CASES[i].is_log};
        ps_plot_range range = {0};
        ps_plot_range_add(&range, &axis, CASES[i].low);
        ps_plot_range_add(&range, &axis, CASES[i].high);
        const ps_plot_scale scale = ps_plot_scale_make(&axis, &range);
        char all[400] = "";
        for (uint32_t t = 0; t < scale.tick_count; t++) {
            char text[PS_PLOT_VALUE_BYTES];
            ps_plot_tick_text(&scale, scale.ticks[t], text);
            strcat(all, t == 0 ? "" : " ");
            strcat(all, text);
        }
        assert_string_equal(CASES[i].ticks, all);
    }
}

static void test_values_read_well(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *unit, *text;
    } CASES[] = {{201326592, "bytes", "192 MiB"},
                 {2.5e6, "ns", "2.5 ms"},
                 {1.61, "", "1.61"},
                 {NAN, "ns", "none"},
                 {512, "bytes", "512 B"},
                 {-1500, "ns", "-1.5 \xc2\xb5s"},
                 {1e-7, "", "1e-7"},
                 {65536, "", "65536"},
                 {3, "tokens/s", "3 tokens/s"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char text[PS_PLOT_VALUE_BYTES];
        ps_plot_value_text(CASES[i].value, CASES[i].unit, text);
        assert_string_equal(CASES[i].text, text);
    }
}

// ---- each kind

// A line has a piece for each run of values, and a point that stands alone is marked.
static void test_gaps(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 6, 7};
    const double y[] = {NAN, 1, 2, NAN, 3, INFINITY, 4};
    const ps_plot_series series = {.x = x, .y = y, .count = 7};
    const ps_plot plot = {.series = &series, .series_count = 1};
    ps_buffer svg = {0};
    assert_int_equal(PS_OK, ps_plot_lines(&plot, &svg));
    const char *line = strstr(svg.data, "<path class=\"line\"");
    uint32_t pieces = 0;
    for (const char *at = strstr(line, " d=\"") + 4; *at != '"'; at++) {
        pieces += *at == 'M';
    }
    assert_int_equal(3, pieces);
    uint32_t points = 0;
    for (const char *at = svg.data; (at = strstr(at, "class=\"fill\"")) != NULL; at++) {
        points++;
    }
    assert_int_equal(4, points);
    ps_buffer_deinit(&svg);
}

static void test_bars_are_as_long_as_their_values(void **state)
{
    (void)state;
    static const char *const PLACES[] = {"a", "b", "c", "d"};
    const double x[] = {0, 1, 2, 3};
    const double y[] = {10, 20, -30, NAN};
    const ps_plot_series series = {.x = x, .y = y, .count = 4};
    const ps_plot plot = {
        .x = {.places = PLACES, .place_count = 4}, .series = &series, .series_count = 1};
    ps_buffer svg = {0};
    double height[4] = {0};
    uint32_t bars = 0;
    assert_int_equal(PS_OK, ps_plot_bars(&plot, &svg));
    for (const char *at = svg.data; (at = strstr(at, "<path class=\"fill\"")) != NULL; at++) {
        double base = 0, end = 0;
        assert_int_equal(2, sscanf(at, "<path class=\"fill\" d=\"M%*f %lfh%*fV%lf", &base, &end));
        height[bars++] = base - end;
    }
    assert_int_equal(3, bars);
    assert_float_equal(2 * height[0], height[1], 0.3);
    assert_float_equal(-3 * height[0], height[2], 0.3);
    ps_buffer_deinit(&svg);
}

static double brightness(const char *colour)
{
    unsigned r = 0, g = 0, b = 0;
    assert_int_equal(3, sscanf(colour, "#%2x%2x%2x", &r, &g, &b));
    return 0.3 * r + 0.59 * g + 0.11 * b;
}

// The more, the darker; what has no value is hatched; cells are there once.
static void test_heatmaps(void **state)
{
    (void)state;
    static double values[12 * 30];
    static const char *places[30];
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 50; round++) {
        const uint32_t columns = (uint32_t)ps_gen_range(&gen, 1, 30);
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 12);
        uint32_t nones = 0;
        for (uint32_t i = 0; i < 30; i++) {
            places[i] = i % 3 == 0 ? "a <name> of some length" : "4";
        }
        for (uint32_t i = 0; i < columns * rows; i++) {
            values[i] = ps_gen_range(&gen, 0, 9) == 0 ? NAN : (double)ps_gen_range(&gen, 1, 1000);
            nones += isnan(values[i]);
        }
        const ps_plot_panel panel = {.name = "a & b", .values = values};
        const ps_plot_heatmap map = {.x = {.name = "x", .places = places, .place_count = columns},
                                     .y = {.name = "y", .places = places, .place_count = rows},
                                     .center = NAN,
                                     .panels = &panel,
                                     .panel_count = 1};
        ps_buffer svg = {0};
        assert_int_equal(PS_OK, ps_plot_heatmaps(&map, &svg));
        assert_true(xml_is_well_formed(svg.data));
        assert_numbers(svg.data);
        double of_value[1001] = {0};
        uint32_t hatched = 0, cell = 0;
        for (const char *at = svg.data;
             (at = strstr(at, "<path ")) != NULL && cell < columns * rows; at++) {
            if (strncmp(at, "<path fill=\"", 12) == 0) {
                of_value[(uint32_t)values[cell++]] = brightness(at + 12);
            } else if (strncmp(at, "<path class=\"edge\"", 18) == 0) {
                assert_true(isnan(values[cell++]));
                hatched++;
            }
        }
        assert_int_equal(columns * rows, cell);
        assert_int_equal(nones, hatched);
        double before = 256;
        for (uint32_t i = 0; i <= 1000; i++) {
            assert_true(of_value[i] == 0 || of_value[i] <= before);
            before = of_value[i] == 0 ? before : of_value[i];
        }
        ps_buffer_deinit(&svg);
    }
}

static double label_at(const char *svg, const char *name, bool is_y)
{
    char text[40];
    double x = 0;
    double y = 0;
    (void)snprintf(text, sizeof text, ">%s</text>", name);
    const char *at = strstr(svg, text);
    assert_non_null(at);
    while (strncmp(at, "<text", 5) != 0) {
        at--;
    }
    assert_int_equal(2, sscanf(at, "<text x=\"%lf\" y=\"%lf\"", &x, &y));
    return is_y ? y : x;
}

// Cells stand beside the names of their places; the first row is the lowest.
static void test_cells_stand_at_their_names(void **state)
{
    (void)state;
    static const char *const X[] = {"left", "right"};
    static const char *const Y[] = {"low", "middle", "high"};
    const double values[] = {1, 2, 3, 4, 5, 6};
    const ps_plot_panel panel = {.values = values};
    const ps_plot_heatmap map = {.x = {.places = X, .place_count = 2},
                                 .y = {.places = Y, .place_count = 3},
                                 .center = NAN,
                                 .panels = &panel,
                                 .panel_count = 1};
    ps_buffer svg = {0};
    assert_int_equal(PS_OK, ps_plot_heatmaps(&map, &svg));
    const char *at = svg.data;
    for (int i = 0; i < 6; i++) {
        double x, y, width, height;
        at = strstr(at, "<path fill");
        assert_non_null(at);
        assert_int_equal(
            4, sscanf(strstr(at, " d="), " d=\"M%lf %lfh%lfv%lf", &x, &y, &width, &height));
        assert_float_equal(label_at(svg.data, X[i % 2], false), x + width / 2, 0.1);
        assert_float_equal(label_at(svg.data, Y[i / 2], true), y + height / 2 + 4, 0.1);
        at++;
    }
    assert_true(label_at(svg.data, "low", true) > label_at(svg.data, "high", true));
    ps_buffer_deinit(&svg);
}

// As many spans as there are; of those that four rows of a lane can hold, no two share a place.
static void test_timelines(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 50; round++) {
        ps_timeline_span spans[30];
        const uint32_t count = (uint32_t)ps_gen_range(&gen, 0, 30);
        double begin = 0;
        for (uint32_t i = 0; i < count; i++) {
            begin += (double)ps_gen_range(&gen, 5000, 10000);
            spans[i] = (ps_timeline_span){.lane = (ps_timeline_lane)ps_gen_range(&gen, 0, 2),
                                          .begin_ns = begin,
                                          .end_ns = begin + (double)ps_gen_range(&gen, 1000, 14000),
                                          .label = i % 2 == 0 ? "all_reduce <&>" : NULL};
        }
        const ps_timeline_policy policies[] = {{"serial \"1\"", spans, count, 200000},
                                               {"none", NULL, 0, 0}};
        const ps_timeline timeline = {.policies = policies, .policy_count = 2};
        ps_buffer svg = {0};
        assert_int_equal(PS_OK, ps_plot_timeline(&timeline, &svg));
        assert_true(xml_is_well_formed(svg.data));
        double box[30][3];
        uint32_t boxes = 0;
        for (const char *at = svg.data; (at = strstr(at, "<path class=\"span")) != NULL; at++) {
            assert_true(boxes < 30);
            assert_int_equal(3, sscanf(strstr(at, " d="), " d=\"M%lf %lfh%lf", &box[boxes][0],
                                       &box[boxes][1], &box[boxes][2]));
            for (uint32_t i = 0; i < boxes; i++) {
                assert_true(box[i][1] != box[boxes][1] ||
                            box[i][0] + box[i][2] <= box[boxes][0] + 0.03);
            }
            boxes++;
        }
        assert_int_equal(count, boxes);
        ps_buffer_deinit(&svg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_drawn_is_inside),
        cmocka_unit_test(test_ticks_are_round_and_cover),
        cmocka_unit_test(test_ticks_read_well),
        cmocka_unit_test(test_values_read_well),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_bars_are_as_long_as_their_values),
        cmocka_unit_test(test_heatmaps),
        cmocka_unit_test(test_cells_stand_at_their_names),
        cmocka_unit_test(test_timelines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
