// Goal: a report says what there is, of any texts, and nothing that its reader's machine would
// carry out; a plot that cannot be drawn is refused with the place and what would be right. Method:
// tables of known numbers, texts of hostile bytes; the file is read back as text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "cli/explore_report.h"
#include "cli/plot_spec.h"
#include "cli/xml.h"
#include "gen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MODEL, RANKS, BATCH, L2, SPEEDUP, STEP, COLUMNS };

static const ps_result_column COLUMN[COLUMNS] = {
    {"model", "", true},           {"workload.ranks", "", false},
    {"workload.batch", "", false}, {"machine.l2_bytes", "bytes", false},
    {"speedup", "", false},        {"step_ns", "ns", false},
};

#define ROWS 64
static ps_result_cell cells[ROWS * COLUMNS];
static ps_result_table table = {
    .columns = COLUMN, .column_count = COLUMNS, .row_count = ROWS, .cells = cells};

// Four models, four numbers of ranks, four batches; a speedup is its row's number + 1000.
static void fill_table(const char *const models[4])
{
    for (uint32_t r = 0; r < ROWS; r++) {
        ps_result_cell *row = cells + r * COLUMNS;
        row[MODEL].text = models[r / 16];
        row[RANKS].number = 1 << (r / 4 % 4);
        row[BATCH].number = 1 << (r % 4);
        row[L2].number = 201326592;
        row[SPEEDUP].number = 1000 + r;
        row[STEP].number = r % 7 == 0 ? NAN : 1e6 * (r + 1);
    }
}

static json_t *json_of(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

// The report of one section with these plots; checked to be well-formed.
static ps_buffer report_of(ps_report_section section, const char *plots)
{
    ps_buffer html = {0};
    json_t *json = json_of(plots);
    section.plots = json;
    section.title = section.title == NULL ? "a section" : section.title;
    section.table = &table;
    assert_int_equal(PS_OK, ps_plots_check(json, COLUMN, COLUMNS));
    assert_int_equal(PS_OK, ps_explore_report_write(&section, 1, "a report", &html));
    assert_true(xml_is_well_formed(html.data));
    json_decref(json);
    return html;
}

static uint32_t count_of(const char *text, const char *what)
{
    uint32_t count = 0;
    while ((text = strstr(text, what)) != NULL) {
        count++;
        text++;
    }
    return count;
}

static const char *const MODELS[4] = {"llama3-8b", "phi3-medium", "llama3-70b", "qwen2-7b"};

static void test_wrong_plots_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *plots, *message;
    } CASES[] = {
        {"{}", "plots: a list of plots would be right"},
        {"[1]", "plots[0]: an object would be right"},
        {"[{}]", "plots[0].kind is missing"},
        {"[{'kind':'line'}]",
         "plots[0].kind: 'line' is none of its values; the nearest is 'lines'"},
        {"[{'kind':'lines','x':'batc','y':'speedup'}]",
         "plots[0].x: 'batc' is no column; the nearest is 'workload.batch'"},
        {"[{'kind':'lines','x':'machine.batch','y':'speedup'}]",
         "plots[0].x: 'machine.batch' is no column; the nearest is 'machine.l2_bytes'"},
        {"[{'kind':'lines','y':'speedup'}]", "plots[0].x: the name of a column would be right"},
        {"[{'kind':'table','columns':['model']},{'kind':'bars','x':'model','y':['speedup','model']}"
         "]",
         "plots[1].y[1]: 'model' is no column of numbers; the nearest is 'workload.ranks'"},
        {"[{'kind':'lines','x':'model','y':[]}]",
         "plots[0].y: a list of 1 to 64 values would be right"},
        {"[{'kind':'lines','x':'model','y':'speedup','serie':1}]",
         "plots[0].serie: there is no such key; the nearest is 'series'"},
        {"[{'kind':'bars','x':'model','y':'speedup','x_scale':'log'}]",
         "plots[0].x_scale: there is no such key; the nearest is 'y_scale'"},
        {"[{'kind':'lines','x':'model','y':'speedup','x_scale':'log'}]",
         "plots[0].x: 'model' is no column of numbers; the nearest is 'workload.ranks'"},
        {"[{'kind':'lines','x':'model','y':'speedup','y_scale':2}]",
         "plots[0].y_scale: a text of 1 to 4096 bytes would be right"},
        {"[{'kind':'lines','x':'model','y':'speedup','where':{'rank':2}}]",
         "plots[0].where.rank: 'rank' is no column; the nearest is 'workload.ranks'"},
        {"[{'kind':'lines','x':'model','y':'speedup','where':{'model':['a',2]}}]",
         "plots[0].where.model: a text would be right"},
        {"[{'kind':'lines','x':'model','y':'speedup','where':[]}]",
         "plots[0].where: an object would be right"},
        {"[{'kind':'lines','x':'workload.batch','y':'speedup','marks':[{'x':'four'}]}]",
         "plots[0].marks[0].x: a number would be right"},
        {"[{'kind':'lines','x':'workload.batch','y':'speedup','marks':[{}]}]",
         "plots[0].marks[0]: x, y or both would be right"},
        {"[{'kind':'lines','x':'workload.batch','y':'speedup','marks':[{'x':4,'z':1}]}]",
         "plots[0].marks[0].z: there is no such key; the nearest is 'x'"},
        {"[{'kind':'lines','x':'workload.batch','y':'speedup','marks':[{'y':4,'series':[{}]}]}]",
         "plots[0].marks[0].series: a text, a number or a list of them would be right"},
        {"[{'kind':'heatmap','x':'workload.batch','y':'workload.ranks','value':'model'}]",
         "plots[0].value: 'model' is no column of numbers; the nearest is 'workload.ranks'"},
        {"[{'kind':'heatmap','x':'model','y':'model','value':'speedup','center':'1'}]",
         "plots[0].center: a number from -1e+100 to 1e+100 would be right"},
        {"[{'kind':'table','columns':'model','title':7}]",
         "plots[0].title: a text of 1 to 4096 bytes would be right"},
        {"[{'kind':'timeline','policies':[]}]",
         "plots[0].policies: a list of 1 to 64 values would be right"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char text[400];
        (void)snprintf(text, sizeof text, "%s", CASES[i].plots);
        for (char *at = text; *at != '\0'; at++) {
            *at = *at == '\'' ? '"' : *at;
        }
        json_t *plots = json_of(text);
        assert_int_equal(PS_INVALID, ps_plots_check(plots, COLUMN, COLUMNS));
        assert_string_equal(CASES[i].message, ps_error_message());
        json_decref(plots);
    }
    assert_int_equal(PS_OK, ps_plots_check(NULL, COLUMN, COLUMNS));
}

static void test_where_takes_its_rows(void **state)
{
    (void)state;
    fill_table(MODELS);
    ps_buffer html = report_of(
        (ps_report_section){0},
        "[{\"kind\":\"table\",\"columns\":[\"speedup\",\"machine.l2_bytes\"],\"where\":"
        "{\"model\":[\"phi3-medium\",\"qwen2-7b\"],\"workload.ranks\":4,\"workload.batch\":[2,8],"
        "\"machine.l2_bytes\":\"192MiB\"}}"
        "]");
    char *end = strstr(html.data, "</table>");
    *end = '\0'; // the first table is the plot
    for (uint32_t r = 0; r < ROWS; r++) {
        char cell[40];
        (void)snprintf(cell, sizeof cell, "<td class=\"number\">%u</td>", 1000 + r);
        const bool is_taken = r / 16 % 2 == 1 && r / 4 % 4 == 2 && r % 2 == 1;
        assert_int_equal(is_taken, strstr(html.data, cell) != NULL);
    }
    assert_int_equal(4, count_of(html.data, "192 MiB"));
    *end = '<';
    assert_non_null(strstr(
        html.data, "With model phi3-medium or qwen2-7b, ranks 4, batch 2 or 8, l2 192 MiB."));
    ps_buffer_deinit(&html);
}

// Every row is a point, with its numbers to be read where it is pointed at.
static void test_lines_and_bars_show_every_row(void **state)
{
    (void)state;
    fill_table(MODELS);
    static const char *const KINDS[] = {"lines", "bars"};
    for (int k = 0; k < 2; k++) {
        char plots[300];
        (void)snprintf(
            plots, sizeof plots,
            "[{\"kind\":\"%s\",\"x\":\"workload.batch\",\"y\":\"speedup\",\"series\":[\"model\","
            "\"workload.ranks\"],"
            "\"marks\":[{\"x\":4,\"y\":1010,\"series\":\"phi3-medium\",\"label\":\"paper\"}]}]",
            KINDS[k]);
        ps_buffer html = report_of((ps_report_section){0}, plots);
        for (uint32_t r = 0; r < ROWS; r++) {
            char title[100];
            (void)snprintf(title, sizeof title, "<title>%s, ranks %u: %u, %u</title>",
                           MODELS[r / 16], 1 << (r / 4 % 4), 1 << (r % 4), 1000 + r);
            assert_int_equal(1, count_of(html.data, title));
        }
        assert_int_equal(1, count_of(html.data, "<title>paper: 4, 1010</title>"));
        assert_non_null(strstr(html.data, "<h3>speedup by batch</h3>"));
        assert_null(strstr(html.data, "class=\"note\""));
        ps_buffer_deinit(&html);
    }
}

// A mark has the colour of the series that it names: by one of its values, or by all of them. With
// two columns of y each group is two series.
static void test_marks_belong_to_their_series(void **state)
{
    (void)state;
    static const struct {
        const char *series;
        const char *colour; // NULL: there is no such series, and that is said
    } CASES[] = {{"\"phi3-medium\"", "c0"},
                 {"8", "c6"},
                 {"[\"phi3-medium\",8]", "c6"},
                 {"[4,\"phi3-medium\"]", "c4"},
                 {"[\"phi3-medium\",\"qwen2-7b\"]", NULL},
                 {"3", NULL}};
    fill_table(MODELS);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char plots[300];
        char mark[40];
        (void)snprintf(
            plots, sizeof plots,
            "[{\"kind\":\"lines\",\"x\":\"workload.batch\",\"y\":[\"speedup\",\"step_ns\"],"
            "\"series\":[\"model\",\"workload.ranks\"],\"where\":{\"model\":\"phi3-medium\"},"
            "\"marks\":[{\"x\":4,\"y\":1010,\"series\":%s}]}]",
            CASES[i].series);
        ps_buffer html = report_of((ps_report_section){0}, plots);
        const bool is_there = CASES[i].colour != NULL;
        (void)snprintf(mark, sizeof mark, "<g class=\"%s\">\n<path class=\"open none\"",
                       is_there ? CASES[i].colour : "");
        assert_int_equal(is_there, strstr(html.data, mark) != NULL);
        assert_int_equal(!is_there, strstr(html.data, "that no row has: 1.") != NULL);
        ps_buffer_deinit(&html);
    }
}

// A cell is a row, in its panel, and named by both places.
static void test_heatmaps_show_every_row(void **state)
{
    (void)state;
    fill_table(MODELS);
    ps_buffer html = report_of((ps_report_section){0},
                               "[{\"kind\":\"heatmap\",\"x\":\"workload.batch\",\"y\":\"workload."
                               "ranks\",\"value\":\"speedup\","
                               "\"panel\":\"model\",\"center\":1030}]");
    const char *panel = html.data;
    for (uint32_t r = 0; r < ROWS; r++) {
        char text[100];
        if (r % 16 == 0) {
            (void)snprintf(text, sizeof text, "class=\"strong\">%s</text>", MODELS[r / 16]);
            panel = strstr(panel, text);
            assert_non_null(panel);
        }
        (void)snprintf(text, sizeof text, "<title>%u, %u: %u</title>", 1 << (r % 4),
                       1 << (r / 4 % 4), 1000 + r);
        assert_non_null(strstr(panel, text));
        assert_int_equal(1, count_of(html.data, text));
    }
    ps_buffer_deinit(&html);
}

static void test_columns_read_well(void **state)
{
    (void)state;
    static const struct {
        ps_result_column column;
        const char *name;
    } CASES[] = {{{"workload.context_tokens", "", false}, "context tokens"},
                 {{"step_ns", "ns", false}, "step"},
                 {{"machine.cache_read_gbs", "GB/s", false}, "cache read"},
                 {{"machine.profile.area_nm", "nm", false}, "area"},
                 {{"baseline.step_ns", "ns", false}, "baseline step"},
                 {{"ns", "ns", false}, "ns"},
                 {{"tokens_per_s", "1/s", false}, "tokens per s"},
                 {{"", "", false}, ""}};
    ps_arena arena;
    ps_arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_string_equal(CASES[i].name, ps_plot_column_name(&CASES[i].column, &arena));
    }
    ps_arena_deinit(&arena);
}

// What is not in a picture is said beneath it.
static void test_what_is_not_drawn_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *plot, *said;
    } CASES[] = {
        {"\"kind\":\"lines\",\"x\":\"workload.batch\",\"y\":\"speedup\",\"series\":\"model\"",
         "tell them apart): 48."},
        {"\"kind\":\"heatmap\",\"x\":\"workload.batch\",\"y\":\"model\",\"value\":\"speedup\"",
         "tell them apart): 48."},
        {"\"kind\":\"lines\",\"x\":\"workload.batch\",\"y\":\"speedup\",\"marks\":[{\"x\":1,\"y\":"
         "1,\"series\":\"nobody\"}],"
         "\"where\":{\"model\":\"qwen2-7b\",\"workload.ranks\":1}",
         "Marks of a place or a series that no row has: 1."},
    };
    fill_table(MODELS);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char plots[400];
        (void)snprintf(plots, sizeof plots, "[{%s}]", CASES[i].plot);
        ps_buffer html = report_of((ps_report_section){0}, plots);
        assert_non_null(strstr(html.data, CASES[i].said));
        ps_buffer_deinit(&html);
    }
    cells[STEP].number = -1;
    ps_buffer html = report_of((ps_report_section){0},
                               "[{\"kind\":\"lines\",\"x\":\"workload.batch\",\"y\":\"step_ns\","
                               "\"series\":[\"model\",\"workload.ranks\"],\"y_scale\":\"log\"}]");
    assert_non_null(strstr(html.data, "no place on a logarithmic axis: 1."));
    ps_buffer_deinit(&html);
}

static void test_expectations_and_parameters(void **state)
{
    (void)state;
    fill_table(MODELS);
    const ps_report_expectation expectations[] = {
        {"four devices", "1.61", "1.60", "8 %", "Table 1", NULL, PS_REPORT_CONFIRMED},
        {"medium", "1.43", "1.52", "5 %", "Table 1", "heads do not divide",
         PS_REPORT_NOT_REPRODUCED},
        {"optimum", "104 MiB", "88 MiB", NULL, NULL, NULL, PS_REPORT_NOT_REPRODUCED},
        {"one device", NULL, NULL, NULL, NULL, "cannot be read", PS_REPORT_UNKNOWN}};
    const ps_report_parameter parameters[] = {
        {"machine.read_gbs", "1600", "GB/s", "the paper", false},
        {"machine.vector_ns", "2000", "ns", NULL, true}};
    const ps_report_section section = {.expectations = expectations,
                                       .expectation_count = 4,
                                       .parameters = parameters,
                                       .parameter_count = 2};
    ps_buffer html = report_of(section, "[]");
    assert_non_null(strstr(
        html.data, "1 confirmed, 1 not reproduced (with a reason), 1 not reproduced, 1 unknown"));
    assert_int_equal(1, count_of(html.data, "<td class=\"verdict confirmed\">"));
    assert_int_equal(1, count_of(html.data, "<td class=\"verdict missed\">"));
    assert_int_equal(1, count_of(html.data, "<td class=\"verdict surprise\">"));
    assert_int_equal(1, count_of(html.data, "<td class=\"verdict unknown\">"));
    assert_non_null(strstr(html.data, "heads do not divide"));
    assert_non_null(strstr(html.data, "<summary>Parameters: 2, 1 of them fitted</summary>"));
    assert_int_equal(1, count_of(html.data, "<td><span class=\"fitted\">fitted</span></td>"));
    assert_non_null(strstr(html.data, "<summary>Data: 64 rows</summary>"));
    assert_non_null(strstr(html.data, "The same in all rows: machine.l2_bytes 192 MiB.</p>"));
    ps_buffer_deinit(&html);
}

static void test_sections_have_contents(void **state)
{
    (void)state;
    const ps_report_expectation expectation = {
        "w", "1", "1", NULL, NULL, NULL, PS_REPORT_CONFIRMED};
    const ps_report_section sections[] = {
        {.title = "first & <foremost>"},
        {.title = "second", .expectations = &expectation, .expectation_count = 1}};
    ps_buffer html = {0};
    assert_int_equal(PS_OK, ps_explore_report_write(sections, 2, "both", &html));
    assert_true(xml_is_well_formed(html.data));
    assert_non_null(strstr(html.data, "<a href=\"#section-1\">first &amp; &lt;foremost&gt;</a>"));
    assert_non_null(strstr(html.data, "<a href=\"#section-2\">second</a>: 1 confirmed"));
    assert_non_null(strstr(html.data, "<section id=\"section-2\">"));
    ps_buffer_deinit(&html);
}

static void test_timelines_are_those_of_the_caller(void **state)
{
    (void)state;
    const ps_timeline_span spans[] = {{PS_TIMELINE_COMPUTE, 0, 1000, "attention"},
                                      {PS_TIMELINE_COLLECTIVE, 1000, 4000, "sum"}};
    const ps_timeline_policy policies[] = {{"serial", spans, 2, 4000},
                                           {"preserve", spans, 1, 2000}};
    const ps_timeline timeline = {.policies = policies, .policy_count = 2};
    json_t *plots = json_of("[{\"kind\":\"timeline\",\"policies\":[\"serial\",\"preserve\"]}]");
    ps_report_section section = {
        .title = "t", .plots = plots, .timelines = &timeline, .timeline_count = 1};
    ps_buffer html = {0};
    assert_int_equal(PS_OK, ps_explore_report_write(&section, 1, "t", &html));
    assert_true(xml_is_well_formed(html.data));
    assert_int_equal(2, count_of(html.data, "attention: 1 \xc2\xb5s from 0 ns"));
    assert_non_null(strstr(html.data, "2 \xc2\xb5s (2.00\xc3\x97)"));
    ps_buffer_deinit(&html);
    section.timeline_count = 0;
    assert_int_equal(PS_INVALID, ps_explore_report_write(&section, 1, "t", &html));
    assert_string_equal("plots[0]: 0 timelines were played, and there are more plots of them",
                        ps_error_message());
    ps_buffer_deinit(&html);
    json_decref(plots);
}

// Texts of any bytes stay texts; the same input gives the same bytes.
static void test_hostile_texts(void **state)
{
    (void)state;
    static const char *const PIECES[] = {"<script>",
                                         "</td>",
                                         "&",
                                         "\"",
                                         "'",
                                         "\xff",
                                         "\xe2\x80\xae",
                                         "\x01",
                                         "%s%n",
                                         "]]>",
                                         "a name",
                                         "\n",
                                         "<img src=x onerror=y>"};
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 50; round++) {
        char names[8][400];
        for (int i = 0; i < 8; i++) {
            names[i][0] = '\0';
            for (int64_t pieces = ps_gen_range(&gen, 0, 18); pieces > 0; pieces--) {
                strcat(names[i],
                       PIECES[ps_gen_range(&gen, 0, sizeof PIECES / sizeof PIECES[0] - 1)]);
            }
        }
        const char *const models[4] = {names[0], names[1], NULL, names[3]};
        const ps_report_expectation expectation = {
            names[4], names[5], names[6], names[7], names[0], names[1], PS_REPORT_NOT_REPRODUCED};
        const ps_report_parameter parameter = {names[2], names[3], names[4], names[5], true};
        const ps_report_section section = {.title = names[6],
                                           .about = names[7],
                                           .expectations = &expectation,
                                           .parameters = &parameter,
                                           .expectation_count = 1,
                                           .parameter_count = 1};
        static const char *const PLOTS =
            "[{\"kind\":\"lines\",\"x\":\"workload.batch\",\"y\":[\"speedup\",\"step_ns\"],"
            "\"series\":\"model\","
            "\"title\":\"<b>&\",\"about\":\"</"
            "figcaption>\",\"marks\":[{\"y\":3,\"label\":\"<i>\"}]},"
            "{\"kind\":\"bars\",\"x\":\"model\",\"y\":\"step_ns\",\"series\":\"workload.ranks\"},"
            "{\"kind\":\"heatmap\",\"x\":\"model\",\"y\":\"workload.batch\",\"value\":\"step_ns\","
            "\"panel\":\"model\"},"
            "{\"kind\":\"table\",\"columns\":[\"model\",\"step_ns\"],\"where\":{\"model\":\"<"
            "script>\"}}]";
        fill_table(models);
        ps_buffer html = report_of(section, PLOTS);
        ps_buffer again = report_of(section, PLOTS);
        assert_string_equal(html.data, again.data);
        assert_null(strstr(html.data, "<script"));
        assert_null(strstr(html.data, "<img"));
        assert_null(strstr(html.data, "<b>"));
        ps_buffer_deinit(&html);
        ps_buffer_deinit(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_plots_are_refused),
        cmocka_unit_test(test_where_takes_its_rows),
        cmocka_unit_test(test_lines_and_bars_show_every_row),
        cmocka_unit_test(test_marks_belong_to_their_series),
        cmocka_unit_test(test_heatmaps_show_every_row),
        cmocka_unit_test(test_columns_read_well),
        cmocka_unit_test(test_what_is_not_drawn_is_said),
        cmocka_unit_test(test_expectations_and_parameters),
        cmocka_unit_test(test_sections_have_contents),
        cmocka_unit_test(test_timelines_are_those_of_the_caller),
        cmocka_unit_test(test_hostile_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
