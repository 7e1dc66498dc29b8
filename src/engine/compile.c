// engine/compile.c - writes what a model that is open for running has in memory.
#include "engine/compile.h"

#include "base/layout.h"
#include "engine/model_internal.h"

#include <stdlib.h>

static void list_weights(const ps_weights *weights, ps_pst_weight *list)
{
    for (uint32_t i = 0; i < ps_weights_count(weights); i++) {
        const ps_weight *weight = ps_weights_at(weights, i);
        list[i] = (ps_pst_weight){.name = weight->name,
                                  .dtype = weight->dtype,
                                  .outputs = weight->outputs,
                                  .inputs = weight->inputs,
                                  .experts = weight->experts,
                                  .is_vector = weight->is_vector,
                                  .data = weight->data,
                                  .size_bytes = ps_weight_bytes(weight)};
    }
}

ps_status ps_model_compile(const ps_model *model, const char *path,
                           const ps_compile_options *options, ps_compile_result *out)
{
    ps_assert(model->weights != NULL);
    if (model->source.pst != NULL) {
        return ps_fail(PS_INVALID, "%s: is compiled already", model->path);
    }
    const uint32_t count = ps_weights_count(model->weights);
    ps_pst_weight *list = calloc(count + (size_t)1, sizeof *list);
    if (list == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a list of weights");
    }
    list_weights(model->weights, list);
    const ps_pst_content content = {.gguf = model->file,
                                    .weights = list,
                                    .weight_count = count,
                                    .replace = options->replace,
                                    .progress = options->progress,
                                    .progress_context = options->progress_context,
                                    .cancel = options->cancel};
    uint64_t bytes = 0;
    const ps_status status = ps_pst_write(path, &content, &bytes);
    free(list);
    PS_TRY(status);
    *out = (ps_compile_result){.bytes = bytes,
                               .fingerprint = ps_gguf_fingerprint(model->file),
                               .layout = PS_LAYOUT_VERSION};
    return PS_OK;
}
