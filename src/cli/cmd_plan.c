// cli/cmd_plan.c - `prestage plan`: the plan of one step, as text, JSON or a graph.
#include "cli/commands.h"

#include <string.h>

ps_status ps_cli_plan(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    if (options->dot && options->json) {
        return ps_fail(PS_INVALID, "--dot and --json together; one of them would be right");
    }
    const ps_plan_options plan_options = {.rows = options->rows,
                                          .context_tokens = options->context,
                                          .threads = options->threads,
                                          .measure = !options->no_measure};
    const ps_plan_format format = options->json  ? PS_PLAN_JSON
                                  : options->dot ? PS_PLAN_DOT
                                                 : PS_PLAN_TEXT;
    char *text = NULL;
    size_t length = 0;
    PS_TRY(ps_plan_file(options->model, &plan_options, format, &text, &length));
    (void)fwrite(text, 1, length, stdout);
    if (length > 0 && text[length - 1] != '\n') {
        (void)putchar('\n');
    }
    ps_free(text);
    return PS_OK;
}
