// plan/plan_file_print.c - a set of plans as text, and looking into one.
#include "base/scan.h"
#include "plan/plan_file.h"

#include <inttypes.h>
#include <string.h>

static ps_status print_key(const ps_plan_key *key, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "plan_file version=%u\n", PS_PLAN_FILE_VERSION));
    PS_TRY(ps_buffer_printf(out, "model fingerprint=%016" PRIx64 " layout=%u\n", key->fingerprint,
                            key->layout));
    PS_TRY(ps_buffer_printf(out, "machine name="));
    PS_TRY(ps_buffer_string(out, ps_str_of(key->machine)));
    PS_TRY(ps_buffer_printf(out, " threads=%u\n", key->threads));
    return ps_buffer_printf(out, "ranks count=%u\npolicy name=%s schedule=%s\n", key->ranks,
                            key->policy, key->schedule);
}

ps_status ps_plan_set_print(const ps_plan_set *set, ps_buffer *out)
{
    if (set->rank == 0) {
        PS_TRY(print_key(&set->key, out));
    }
    PS_TRY(ps_buffer_printf(out, "\nrank number=%u\n", set->rank));
    for (uint32_t i = 0; i < set->plan_count; i++) {
        PS_TRY(ps_buffer_append(out, "\n", 1));
        PS_TRY(ps_plan_print(set->plans[i], out));
    }
    return PS_OK;
}

const ps_plan *ps_plan_set_find(const ps_plan_set *set, uint32_t rows_max, uint32_t logits_max,
                                uint32_t context_max)
{
    for (uint32_t i = 0; i < set->plan_count; i++) {
        const ps_plan *plan = set->plans[i];
        if (plan->rows_max == rows_max && plan->logits_max == logits_max &&
            plan->context_max == context_max) {
            return plan;
        }
    }
    return NULL;
}

static ps_status check_number(const char *what, uint32_t file, uint32_t here)
{
    return file == here ? PS_OK
                        : ps_fail(PS_INVALID, "its %s is %u, here it is %u", what, file, here);
}

static ps_status check_text(const char *what, const char *file, const char *here)
{
    return strcmp(file, here) == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "its %s is '%s', here it is '%s'", what, file, here);
}

ps_status ps_plan_key_check(const ps_plan_key *file, const ps_plan_key *here)
{
    if (file->fingerprint != here->fingerprint) {
        return ps_fail(PS_INVALID,
                       "it is of another model: fingerprint %016" PRIx64 ", here %016" PRIx64,
                       file->fingerprint, here->fingerprint);
    }
    PS_TRY(check_number("layout of weights", file->layout, here->layout));
    PS_TRY(check_text("machine", file->machine, here->machine));
    PS_TRY(check_number("number of threads", file->threads, here->threads));
    PS_TRY(check_number("number of ranks", file->ranks, here->ranks));
    PS_TRY(check_text("policy", file->policy, here->policy));
    return check_text("schedule", file->schedule, here->schedule);
}
