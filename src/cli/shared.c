// cli/shared.c - opening a model with a progress bar, reading inputs.
#include "cli/commands.h"

#include "base/log.h"
#include "engine/model_experts.h"
#include "format/file_map.h"
#include "format/new_file.h"
#include "hw/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_BYTES_MAX ((size_t)64 << 20)
#define BAR_CELLS 40

ps_status ps_cli_model_check(const ps_cli_options *options)
{
    if (options->model == NULL) {
        return ps_fail(PS_INVALID, "no model given; the first argument or -m FILE would be right");
    }
    return PS_OK;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

ps_status ps_cli_output_check(const ps_cli_options *options)
{
    if (is_same_file(options->model, options->output)) {
        return ps_fail(PS_INVALID, "%s: is the model itself", options->output);
    }
    const ps_status status = ps_new_file_check(options->output, options->force);
    return status == PS_OK ? PS_OK : ps_file_name_error(options->output, status);
}

static bool is_result_bad;

void ps_cli_result_is_bad(void)
{
    is_result_bad = true;
}

bool ps_cli_result_was_bad(void)
{
    return is_result_bad;
}

bool ps_cli_progress_begin(ps_cli_progress *progress)
{
    progress->shown = -1;
    return isatty(STDERR_FILENO);
}

void ps_cli_progress_draw(void *context, double fraction)
{
    ps_cli_progress *progress = context;
    const int percent = (int)(fraction * 100);
    if (percent == progress->shown && strcmp(progress->note, progress->shown_note) == 0) {
        return;
    }
    progress->shown = percent;
    memcpy(progress->shown_note, progress->note, sizeof progress->note);
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = i < percent * BAR_CELLS / 100 ? '#' : '.';
    }
    bar[BAR_CELLS] = '\0';
    (void)fprintf(stderr, "\r%s %s %3d %%%s%s", progress->verb, bar, percent,
                  progress->note[0] == '\0' ? "" : " ", progress->note);
    if (progress->note[0] != '\0') {
        (void)fputs("\033[K", stderr); // the one before may have been longer
    }
}

void ps_cli_progress_end(ps_cli_progress *progress)
{
    if (progress->shown >= 0) {
        (void)fputs("\r\033[K", stderr);
    }
    progress->shown = -1;
}

// What is asked for and could not be written is refused before the work.
static ps_status start_recording(const ps_cli_options *options, ps_model *model)
{
    const char *asked = options->route_log != NULL ? "--route-log" : "--record-experts";
    if (options->route_log == NULL && options->record_experts == NULL) {
        return PS_OK;
    }
    if (options->ranks_sim > 1) {
        return ps_fail(PS_INVALID, "%s with --ranks-sim: what routers choose then means nothing",
                       asked);
    }
    if (options->record_experts != NULL) {
        PS_TRY(ps_model_record_check(model, options->record_experts));
    }
    if (options->route_log == NULL) {
        return PS_OK;
    }
    if (is_same_file(options->model, options->route_log)) {
        return ps_fail(PS_INVALID, "%s: is the model itself", options->route_log);
    }
    return ps_model_start_route_log(model, options->route_log);
}

ps_status ps_cli_write_made(const char *path, ps_status made, ps_buffer *text)
{
    if (made == PS_OK) {
        made = ps_new_file_write_all(path, text->data, text->length, true);
        made = made == PS_OK ? PS_OK : ps_file_name_error(path, made);
    }
    ps_buffer_deinit(text);
    return made;
}

ps_status ps_cli_memory_given(const ps_cli_options *options, uint64_t *out)
{
    *out = options->memory_bytes;
    if (options->memory_share == 0) {
        return PS_OK;
    }
    if (options->memory_bytes > 0) {
        return ps_fail(PS_INVALID, "--memory and --memory-utilization together; one of them would "
                                   "be right");
    }
    *out = (uint64_t)(options->memory_share * (double)ps_machine_available_bytes());
    return PS_OK;
}

// What would change nothing is refused.
static ps_status check_expert_options(const ps_cli_options *options)
{
    const ps_expert_policy_kind policy = (ps_expert_policy_kind)options->expert_policy;
    const char *name = ps_expert_policy_name(policy);
    if (options->memory_bytes == 0 && options->memory_share == 0 && options->expert_bytes == 0 &&
        policy != PS_EXPERTS_AUTO) {
        return ps_fail(PS_INVALID,
                       "--expert-policy %s without a limit of memory, where all experts are kept; "
                       "--memory SIZE beside it would be right",
                       name);
    }
    if (options->hot_set == NULL && (options->hot_experts > 0 || options->hot_cut)) {
        return ps_fail(PS_INVALID, "%s without a set; --hot-set FILE beside it would be right",
                       options->hot_cut ? "--hot-cut" : "--hot-experts");
    }
    if (options->hot_set == NULL && policy == PS_EXPERTS_HOTSET) {
        return ps_fail(PS_INVALID, "--expert-policy hotset without a set; --hot-set FILE beside it "
                                   "would be right");
    }
    return options->hot_set != NULL && (policy == PS_EXPERTS_LRU || policy == PS_EXPERTS_LFU)
               ? ps_fail(PS_INVALID,
                         "--hot-set with --expert-policy %s, which takes no set; auto, "
                         "heat or hotset would be right",
                         name)
               : PS_OK;
}

ps_status ps_cli_model_open(const ps_cli_options *options, uint32_t threads,
                            const ps_session_options *session, ps_model **out)
{
    uint64_t memory_bytes;
    PS_TRY(ps_cli_model_check(options));
    PS_TRY(ps_cli_memory_given(options, &memory_bytes));
    PS_TRY(check_expert_options(options));
    const uint32_t cpus = ps_machine_default_threads(1);
    if (options->started == NULL && threads > cpus) { // ranks look at all of them together
        ps_log(PS_LOG_WARNING,
               "%u threads where this process may use %u CPU%s: -t %u would be right", threads,
               cpus, cpus == 1 ? "" : "s", cpus);
    }
    ps_cli_progress progress = {.verb = "loading"};
    ps_model_options model_options = {
        .threads = threads,
        .ranks = options->started,
        .trace_file = options->trace,
        .machine_file = options->machine,
        .memory_bytes = memory_bytes,
        .session = session,
        .expert_bytes = options->expert_bytes,
        .hot_set = options->hot_set,
        .hot_experts = options->hot_experts,
        .hot_cut = options->hot_cut,
        .tier_sim = options->tier_sim,
        .expert_policy = (ps_expert_policy_kind)options->expert_policy};
    if (ps_cli_progress_begin(&progress)) {
        model_options.progress = ps_cli_progress_draw;
        model_options.progress_context = &progress;
    }
    ps_model *model = NULL;
    ps_status status = ps_model_open(options->model, &model_options, &model);
    ps_cli_progress_end(&progress);
    if (status == PS_OK) {
        status = start_recording(options, model);
    }
    if (status != PS_OK) {
        ps_model_close(model);
        return status;
    }
    *out = model;
    return PS_OK;
}

ps_status ps_cli_model_close(const ps_cli_options *options, ps_model *model, ps_status status)
{
    const bool is_done = model != NULL && (status == PS_OK || status == PS_CANCELLED);
    ps_status written = PS_OK;
    if (is_done && options->record_experts != NULL) {
        written = ps_model_record_experts(model, options->record_experts);
    }
    if (is_done && written == PS_OK && options->route_log != NULL) {
        written = ps_model_end_route_log(model);
    }
    ps_model_close(model);
    return written == PS_OK ? status : written;
}

// Whether the model asks for BOS is what it puts before an empty text.
ps_status ps_cli_find_bos(const ps_model *model, int32_t *out)
{
    int32_t *ids = NULL;
    size_t count = 0;
    ps_model_info info;
    ps_model_get_info(model, &info);
    PS_TRY(ps_model_tokenize(model, "", 0, PS_TEXT_ADD_SPECIAL, &ids, &count));
    *out = count > 0 && info.bos >= 0 && ids[0] == info.bos ? ids[0] : -1;
    ps_free(ids);
    return PS_OK;
}

ps_status ps_cli_vocabulary_open(const ps_cli_options *options, ps_model **out)
{
    PS_TRY(ps_cli_model_check(options));
    const ps_model_options model_options = {.vocabulary_only = true};
    return ps_model_open(options->model, &model_options, out);
}

static ps_status read_all(FILE *file, const char *name, ps_buffer *out)
{
    char block[65536];
    size_t count;
    while ((count = fread(block, 1, sizeof block, file)) > 0) {
        if (out->length + count > INPUT_BYTES_MAX) {
            return ps_fail(PS_EXHAUSTED, "%s: more than %zu bytes, the limit of an input", name,
                           INPUT_BYTES_MAX);
        }
        PS_TRY(ps_buffer_append(out, block, count));
    }
    if (ferror(file)) {
        return ps_fail(PS_IO, "%s: %s", name, strerror(errno));
    }
    return ps_buffer_append(out, "", 0);
}

ps_status ps_cli_read_file(const char *path, ps_buffer *out)
{
    if (strcmp(path, "-") == 0) {
        return read_all(stdin, "stdin", out);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return ps_fail(errno == ENOENT ? PS_NOT_FOUND : PS_IO, "%s: %s", path, strerror(errno));
    }
    const ps_status status = read_all(file, path, out);
    (void)fclose(file);
    return status;
}

ps_status ps_cli_read_prompt(const ps_cli_options *options, ps_buffer *out)
{
    if (options->prompt != NULL && options->file != NULL) {
        return ps_fail(PS_INVALID, "-p and -f together; one of them would be right");
    }
    if (options->prompt != NULL) {
        return ps_buffer_append(out, options->prompt, strlen(options->prompt));
    }
    if (options->file == NULL && isatty(STDIN_FILENO)) {
        return ps_fail(PS_INVALID, "no input; -p TEXT, -f FILE or a pipe would be right");
    }
    return ps_cli_read_file(options->file == NULL ? "-" : options->file, out);
}

ps_session_options ps_cli_session_options(const ps_cli_options *options)
{
    return (ps_session_options){.context_tokens = options->context,
                                .batch_rows = options->batch,
                                .plan_file = options->plan_file,
                                .prefetch = (ps_prefetch_policy)options->prefetch,
                                .ratios = options->ratios,
                                .prefetch_threads = options->prefetch_threads,
                                .comm_schedule = (ps_comm_schedule)options->comm_schedule,
                                .sequence_parallel = options->sequence_parallel,
                                .force_routes = options->force_routes,
                                .check_grouped = options->check_grouped,
                                .k_type = (ps_kv_type)options->k_type,
                                .v_type = (ps_kv_type)options->v_type};
}

ps_plan_options ps_cli_plan_options(const ps_cli_options *options)
{
    return (ps_plan_options){.rows = options->rows,
                             .context_tokens = options->context,
                             .threads = options->threads,
                             .measure = !options->no_measure,
                             .ranks = options->ranks,
                             .context_shards = options->context_shards,
                             .weight_bits = options->weight_bits,
                             .kv_bits = options->kv_bits,
                             .link = options->comm_link,
                             .machine_file = options->machine,
                             .prefetch = (ps_prefetch_policy)options->prefetch,
                             .ratios = options->ratios,
                             .prefetch_threads = options->prefetch_threads,
                             .comm_schedule = (ps_comm_schedule)options->comm_schedule,
                             .sequence_parallel = options->sequence_parallel,
                             .best_logits = ps_sampler_best_logits(&options->sampler),
                             .k_type = (ps_kv_type)options->k_type,
                             .v_type = (ps_kv_type)options->v_type};
}
