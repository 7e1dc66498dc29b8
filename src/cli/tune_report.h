// cli/tune_report.h - what `prestage tune MODEL` says of ratios.
#ifndef PS_CLI_TUNE_REPORT_H
#define PS_CLI_TUNE_REPORT_H

#include "cli/json_writer.h"
#include "engine/tune_ratios.h"

typedef struct ps_tune_report {
    const ps_tuned_ratios *tuned;
    ps_tune_objective objective;
    uint32_t limit_s;
    bool is_simulated;
    bool is_alone;         // one worker, who waits for nobody: nothing was looked for
    const char *plan_file; // written; NULL: none
} ps_tune_report;

// A table by batch, and what follows from it.
void ps_tune_report_print(const ps_tune_report *report);

// "ratios" of an object.
void ps_tune_report_json(const ps_tune_report *report, ps_json_writer *json);

// The same as vLLM-Ascend takes it: options to paste, and lines of "#" that say what they are for,
// what is predicted, and what was assumed. ranks_note: behind the number of ranks; "" or a remark.
void ps_tune_report_vllm_ascend(const ps_tune_report *report, const char *model,
                                const char *machine, uint32_t ranks, const char *ranks_note);

// The weight_prefetch_config, on one line of stdout, as --additional-config takes it.
PS_MUST_USE ps_status ps_tune_report_config(const ps_tune_report *report);

#endif
