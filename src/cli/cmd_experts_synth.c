// cli/cmd_experts_synth.c - `prestage experts synth`: a route log of made routes.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/routes_source.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <inttypes.h>

typedef struct written {
    uint64_t calls, rows;
} written;

static ps_status copy_calls(const ps_expert_calls *calls, ps_routes_writer *writer, written *out)
{
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    for (;;) {
        ps_routes_call call = {0};
        bool is_end = false;
        PS_TRY(calls->next(calls->context, &call, &is_end));
        if (is_end) {
            return PS_OK;
        }
        if (*ps_cli_interrupt_flag()) {
            return ps_fail(PS_CANCELLED, "cancelled");
        }
        ps_routes_writer_add(writer, &call);
        out->calls++;
        out->rows += call.layer == 0 ? call.rows : 0;
    }
}

static ps_status write_log(const char *path, const ps_expert_calls *calls, written *out)
{
    ps_routes_writer *writer = NULL;
    PS_TRY(ps_routes_writer_create(path, &calls->shape, &writer));
    const ps_status status = copy_calls(calls, writer, out);
    if (status != PS_OK) {
        ps_routes_writer_abandon(writer);
        return status;
    }
    return ps_routes_writer_finish(writer);
}

static ps_status print_written(const ps_cli_options *options, const ps_routes_shape *shape,
                               const written *w)
{
    if (!options->json) {
        (void)printf("%s: %" PRIu64 " tokens through %u layers, %u of %u experts each\n",
                     options->output, w->rows, shape->layers, shape->top_k, shape->experts);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "file", options->output);
    ps_json_text(&json, "setting", options->model);
    ps_json_integer(&json, "tokens", (int64_t)w->rows);
    ps_json_integer(&json, "calls", (int64_t)w->calls);
    ps_json_integer(&json, "layers", shape->layers);
    ps_json_integer(&json, "experts", shape->experts);
    ps_json_integer(&json, "top_k", shape->top_k);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_experts_synth(const ps_cli_options *options)
{
    ps_cli_routes_source source;
    written w = {0};
    if (options->model == NULL) {
        return ps_fail(PS_INVALID, "no setting given; qwen30, flashnext, uniform or drift would be "
                                   "right");
    }
    if (options->output == NULL) {
        return ps_fail(PS_INVALID, "no file to write; -o FILE names it");
    }
    const ps_status is_free = ps_new_file_check(options->output, options->force);
    if (is_free != PS_OK) {
        return ps_file_name_error(options->output, is_free);
    }
    PS_TRY(ps_cli_routes_make(options->model, &options->routes, &source));
    const ps_status status = write_log(options->output, &source.calls, &w);
    const ps_routes_shape shape = source.calls.shape;
    ps_cli_routes_close(&source);
    return status == PS_OK ? print_written(options, &shape, &w) : status;
}
