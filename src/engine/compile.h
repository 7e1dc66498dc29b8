// engine/compile.h - an open model to a compiled file (format/pst.h).
#ifndef PS_ENGINE_COMPILE_H
#define PS_ENGINE_COMPILE_H

#include <prestage/prestage.h>

typedef struct ps_compile_options {
    bool replace;          // a file of that name
    const char *plan_file; // to embed; NULL: none
    // Called with 0..1; NULL: not called.
    void (*progress)(void *context, double fraction);
    void *progress_context;
    const volatile bool *cancel; // NULL: never
} ps_compile_options;

typedef struct ps_compile_result {
    uint64_t bytes; // of the compiled file
    uint64_t fingerprint;
    uint32_t layout;
} ps_compile_result;

// Whether the plans of a plan file are of that model file, in this layout of weights; for which
// machine does not matter here. For saying so before the work.
//
// PS_INVALID  they are not, or are no plans
// others      as opening either file
PS_MUST_USE ps_status ps_compile_check_plans(const char *model_path, const char *plan_path);

// Writes the packed weights of a model that was opened for running to `path`, as ps_pst_write does.
//
// PS_INVALID  the model comes from a compiled file
// others      those of ps_pst_write and ps_compile_check_plans
PS_MUST_USE ps_status ps_model_compile(const ps_model *model, const char *path,
                                       const ps_compile_options *options, ps_compile_result *out);

#endif
