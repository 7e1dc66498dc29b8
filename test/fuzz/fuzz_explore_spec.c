// fuzz-links: ps_cli
//
// Goal: no text whatever makes the reader of specs read outside, fail without a message or give a
// point that is out of bounds; and expectations of what it accepts are judged without a fault.
#include "cli/explore_report.h"
#include "cli/explore_spec.h"
#include "engine/json_fields.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define ROWS 8u

// A few rows with made-up metrics.
static void judge(const ps_explore_spec *spec, ps_arena *arena)
{
    const uint32_t columns = spec->columns.count;
    const uint32_t rows = spec->row_count < ROWS ? spec->row_count : ROWS;
    ps_result_cell *cells = malloc((size_t)rows * columns * sizeof *cells);
    ps_assert(cells != NULL);
    for (uint32_t row = 0; row < rows; row++) {
        ps_result_cell *at = cells + (size_t)row * columns;
        ps_explore_row_fill(spec, row, at);
        for (uint32_t i = spec->search_first; i + 1 < columns; i++) {
            ps_assert(!spec->columns.all[i].is_text && isnan(at[i].number));
            at[i].number = (row * 7 + i) % 5;
        }
    }
    const ps_result_table table = {spec->columns.all, columns, rows, cells};
    for (uint32_t i = 0; i < spec->expectation_count; i++) {
        ps_report_expectation out;
        bool is_bad;
        if (ps_expectation_judge(&spec->expectations[i], &table, arena, &out, &is_bad) == PS_OK) {
            ps_assert(out.what != NULL && out.paper != NULL && out.ours != NULL);
        }
    }
    free(cells);
}

static void visit(const ps_explore_spec *spec, const ps_explore_fields *fields)
{
    ps_machine *machines = calloc(fields->machines.count, sizeof *machines);
    ps_assert(machines != NULL);
    const uint32_t rows[] = {0, spec->row_count / 2, spec->row_count - 1};
    for (int i = 0; i < 3; i++) {
        ps_explore_point point;
        ps_explore_point_make(spec, fields, machines, rows[i], NULL, i == 1, &point);
        ps_assert(point.machine_index < fields->machines.count);
        ps_assert(point.model_index < fields->models.count);
        ps_assert(point.workload.batch >= 1 && point.workload.ranks >= 1);
    }
    free(machines);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_explore_fields fields;
    ps_explore_spec spec;
    json_t *json = NULL;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_assert(ps_explore_fields_make(&arena, &fields) == PS_OK);
    ps_status status = ps_json_text_read((const char *)bytes, size_bytes, &json);
    if (status == PS_OK) {
        status = ps_explore_spec_read(json, &fields, &arena, &spec);
    }
    if (status == PS_OK) {
        visit(&spec, &fields);
        judge(&spec, &arena);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    json_decref(json);
    ps_arena_deinit(&arena);
    return 0;
}
