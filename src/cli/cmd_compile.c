// cli/cmd_compile.c - `prestage compile`: a model file whose weights are packed already.
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "engine/compile.h"
#include "format/pst.h"

#include <inttypes.h>

static ps_status check_options(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    if (options->verify) {
        if (options->output != NULL || options->plan_file != NULL) {
            return ps_fail(PS_INVALID, "--verify and %s together; one of them would be right",
                           options->output != NULL ? "-o" : "--plan");
        }
        return PS_OK;
    }
    if (options->output == NULL) {
        return ps_fail(PS_INVALID, "no file to write; -o FILE.pst would be right");
    }
    PS_TRY(ps_cli_output_check(options));
    return options->plan_file == NULL ? PS_OK
                                      : ps_compile_check_plans(options->model, options->plan_file);
}

static ps_status print_result(const ps_cli_options *options, const ps_compile_result *result)
{
    char fingerprint[20];
    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, result->fingerprint);
    if (!options->json) {
        (void)printf("%s: %.1f MB, fingerprint %s, layout %u\n", options->output,
                     (double)result->bytes / 1e6, fingerprint, result->layout);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "gguf", options->model);
    ps_json_text(&json, "file", options->output);
    ps_json_integer(&json, "bytes", (int64_t)result->bytes);
    ps_json_text(&json, "fingerprint", fingerprint);
    ps_json_integer(&json, "layout", result->layout);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status compile(const ps_cli_options *options)
{
    ps_model *model = NULL;
    PS_TRY(ps_cli_model_open(options, options->threads, NULL, &model));
    ps_cli_progress progress = {.verb = "writing"};
    ps_compile_options compile_options = {.replace = options->force,
                                          .plan_file = options->plan_file,
                                          .cancel = ps_cli_interrupt_flag()};
    if (ps_cli_progress_begin(&progress)) {
        compile_options.progress = ps_cli_progress_draw;
        compile_options.progress_context = &progress;
    }
    // From here on there is a temporary file to remove.
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_KEEPS);
    ps_cli_interrupt_add_terminate();
    ps_compile_result result;
    const ps_status status = ps_model_compile(model, options->output, &compile_options, &result);
    ps_cli_progress_end(&progress);
    ps_model_close(model);
    PS_TRY(status);
    return print_result(options, &result);
}

// ---- --verify

typedef struct damage {
    ps_json_writer *json; // NULL: text
    const char *path;
    ps_cli_progress progress;
} damage;

static void draw(void *context, double fraction)
{
    damage *found = context;
    ps_cli_progress_draw(&found->progress, fraction);
}

static void report(void *context, const char *what, const char *name)
{
    damage *found = context;
    if (found->json == NULL) {
        ps_cli_progress_end(&found->progress); // drawn again with the next weight
        (void)printf("%s: %s%s%s is damaged\n", found->path, what, *name == '\0' ? "" : " ", name);
        return;
    }
    ps_json_begin_inline(found->json, NULL, '{');
    ps_json_text(found->json, "part", what);
    ps_json_text(found->json, "name", name);
    ps_json_end(found->json, '}');
}

static ps_status verify(const ps_cli_options *options)
{
    ps_pst *file = NULL;
    PS_TRY(ps_pst_open(options->model, &file));
    ps_json_writer json = {0};
    damage found = {.path = options->model,
                    .json = options->json ? &json : NULL,
                    .progress = {.verb = "reading"}};
    const bool is_drawn = ps_cli_progress_begin(&found.progress);
    if (options->json) {
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "file", options->model);
        ps_json_integer(&json, "weights", ps_pst_weight_count(file));
        ps_json_begin(&json, "damaged", '[');
    }
    const uint32_t damaged = ps_pst_verify(
        file, &(ps_pst_listener){report, is_drawn ? draw : NULL, &found});
    ps_cli_progress_end(&found.progress);
    if (damaged > 0) {
        ps_cli_result_is_bad();
    }
    if (!options->json && damaged == 0) {
        (void)printf("%s: %u weights are as they were written\n", options->model,
                     ps_pst_weight_count(file));
    }
    ps_pst_close(file);
    if (!options->json) {
        return PS_OK;
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_compile(const ps_cli_options *options)
{
    PS_TRY(check_options(options));
    return options->verify ? verify(options) : compile(options);
}
