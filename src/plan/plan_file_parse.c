// plan/plan_file_parse.c - a set of plans from text.
//
// The head is five lines in a fixed order. Then each line that starts with the word "rank" starts
// the plans of one rank, and each that starts with "plan" a plan, which ends before the next of
// these: the text is walked once to find them, and those of the rank that is asked for are handed
// to the parser of plans with the number of their line.
#include "base/scan.h"
#include "base/value_text.h"
#include "plan/plan_file.h"
#include "plan/plan_internal.h"

#include <string.h>

// The next line, which has to start with `word`.
static ps_status next_line(ps_scan *scan, const char *word)
{
    if (!ps_scan_line(scan)) {
        return ps_scan_fail(scan, "the text ends where the line '%s ...' would be right", word);
    }
    return ps_scan_try_word(scan, word)
               ? PS_OK
               : ps_scan_fail(scan, "the line '%s ...' would be right here", word);
}

// "<key>=", where nothing else may stand.
static ps_status scan_key(ps_scan *scan, const char *key)
{
    uint32_t index = 0;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &key, 1, &index));
    return ps_scan_mark(scan, '=');
}

static ps_status parse_version(ps_scan *scan)
{
    uint32_t version = 0;
    PS_TRY(next_line(scan, "plan_file"));
    PS_TRY(ps_setting_scan(scan, "version", &version));
    if (version != PS_PLAN_FILE_VERSION) {
        return ps_fail(PS_UNSUPPORTED, "a plan file of version %u, this build reads %u", version,
                       PS_PLAN_FILE_VERSION);
    }
    return ps_scan_line_end(scan);
}

// Sixteen digits, so that there is one way to write it.
static ps_status parse_fingerprint(ps_scan *scan, uint64_t *out)
{
    static const char DIGITS[] = "0123456789abcdef";
    ps_str word;
    uint64_t number = 0;
    PS_TRY(scan_key(scan, "fingerprint"));
    PS_TRY(ps_scan_word(scan, "a fingerprint", &word));
    bool is_right = word.length == 16;
    for (size_t i = 0; i < 16 && is_right; i++) {
        const char *digit = memchr(DIGITS, word.data[i], 16);
        is_right = digit != NULL;
        number = number << 4 | (uint64_t)(is_right ? digit - DIGITS : 0);
    }
    if (!is_right) {
        return ps_scan_fail(scan, "a fingerprint of 16 digits 0-9 and a-f would be right");
    }
    *out = number;
    return PS_OK;
}

// "<key>=<number from lowest to highest>"
static ps_status parse_number(ps_scan *scan, const char *key, uint32_t lowest, uint32_t highest,
                              uint32_t *out)
{
    uint32_t number = 0;
    PS_TRY(ps_setting_scan(scan, key, &number));
    if (number < lowest || number > highest) {
        return ps_scan_fail(scan, "%s %u; %u to %u would be right", key, number, lowest, highest);
    }
    *out = number;
    return PS_OK;
}

static ps_status parse_word(ps_scan *scan, const char *key, char out[PS_PLAN_POLICY_BYTES_MAX + 1])
{
    ps_str word;
    PS_TRY(scan_key(scan, key));
    PS_TRY(ps_scan_word(scan, "a policy", &word));
    if (word.length > PS_PLAN_POLICY_BYTES_MAX) {
        return ps_scan_fail(scan, "a policy is a word of at most %u bytes",
                            PS_PLAN_POLICY_BYTES_MAX);
    }
    memcpy(out, word.data, word.length); // zeros are behind it
    return PS_OK;
}

static ps_status parse_policy(ps_scan *scan, ps_plan_key *key)
{
    PS_TRY(next_line(scan, "policy"));
    PS_TRY(parse_word(scan, "name", key->policy));
    PS_TRY(parse_word(scan, "schedule", key->schedule));
    return ps_scan_line_end(scan);
}

static ps_status parse_key(ps_scan *scan, ps_plan_key *key)
{
    PS_TRY(next_line(scan, "model"));
    PS_TRY(parse_fingerprint(scan, &key->fingerprint));
    PS_TRY(parse_number(scan, "layout", 0, UINT32_MAX, &key->layout));
    PS_TRY(ps_scan_line_end(scan));
    PS_TRY(next_line(scan, "machine"));
    PS_TRY(scan_key(scan, "name"));
    PS_TRY(ps_scan_string(scan, "a machine", key->machine, sizeof key->machine));
    PS_TRY(parse_number(scan, "threads", 1, UINT32_MAX, &key->threads));
    PS_TRY(ps_scan_line_end(scan));
    PS_TRY(next_line(scan, "ranks"));
    PS_TRY(parse_number(scan, "count", 1, PS_PLAN_FILE_RANKS_MAX, &key->ranks));
    PS_TRY(ps_scan_line_end(scan));
    return parse_policy(scan, key);
}

typedef enum heading { HEADING_NONE, HEADING_RANK, HEADING_PLAN } heading;

// The lines from `begin` up to the next heading, behind whose word the scanner stands then, or to
// the end of the text.
static ps_str take_lines(ps_scan *scan, const char *begin, heading *out_next)
{
    const char *end = scan->rest.data + scan->rest.length;
    *out_next = HEADING_NONE;
    while (*out_next == HEADING_NONE && ps_scan_line(scan)) {
        const char *line = scan->line.data;
        *out_next = ps_scan_try_word(scan, "plan")   ? HEADING_PLAN
                    : ps_scan_try_word(scan, "rank") ? HEADING_RANK
                                                     : HEADING_NONE;
        end = *out_next == HEADING_NONE ? end : line;
    }
    return (ps_str){.data = begin, .length = (size_t)(end - begin)};
}

static ps_status add_plan(ps_plan_set *set, const ps_plan *plan)
{
    if (ps_plan_set_find(set, plan->rows_max, plan->logits_max, plan->context_max) != NULL) {
        return ps_fail(PS_INVALID, "a second plan for %u rows, %u logits and a context of %u",
                       plan->rows_max, plan->logits_max, plan->context_max);
    }
    if (set->plan_count == PS_PLAN_FILE_PLANS_MAX) {
        return ps_fail(PS_INVALID, "more than %u plans", PS_PLAN_FILE_PLANS_MAX);
    }
    set->plans[set->plan_count++] = plan;
    return PS_OK;
}

static ps_status check_rank(const ps_plan_set *set, const ps_plan *plan)
{
    const uint32_t ranks = plan->ranks == 0 ? 1 : plan->ranks;
    return ranks == set->key.ranks && plan->rank == set->rank
               ? PS_OK
               : ps_fail(PS_INVALID, "a plan for rank %u of %u among those for rank %u of %u",
                         plan->rank, ranks, set->rank, set->key.ranks);
}

static ps_status parse_plan(ps_str text, uint32_t line, ps_arena *arena, ps_plan_set *set)
{
    ps_plan *plan = NULL;
    PS_TRY(ps_plan_parse_at(text, line, arena, &plan));
    ps_status status = check_rank(set, plan);
    if (status == PS_OK) {
        status = add_plan(set, plan);
    }
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "line %u", line);
}

// Behind the word "rank" of rank `number`, up to the word of the next one or the end.
static ps_status parse_rank(ps_scan *scan, uint32_t number, ps_arena *arena, ps_plan_set *set,
                            heading *out_next)
{
    uint32_t told = 0;
    PS_TRY(parse_number(scan, "number", number, number, &told));
    PS_TRY(ps_scan_line_end(scan));
    PS_TRY(next_line(scan, "plan"));
    // Blanks before the word were skipped, and the word has four bytes.
    const char *begin = scan->line.data - strlen("plan");
    do {
        const uint32_t line = scan->line_number;
        const ps_str text = take_lines(scan, begin, out_next);
        begin = text.data + text.length;
        if (number == set->rank) {
            PS_TRY(parse_plan(text, line, arena, set));
        }
    } while (*out_next == HEADING_PLAN);
    return PS_OK;
}

static ps_status parse_ranks(ps_scan *scan, ps_arena *arena, ps_plan_set *set)
{
    heading next = HEADING_RANK;
    PS_TRY(next_line(scan, "rank"));
    for (uint32_t number = 0; number < set->key.ranks; number++) {
        if (next == HEADING_NONE) {
            return ps_scan_fail(
                scan, "the text ends where the line 'rank number=%u' would be right", number);
        }
        PS_TRY(parse_rank(scan, number, arena, set, &next));
    }
    return next == HEADING_NONE
               ? PS_OK
               : ps_scan_fail(scan, "more than %u ranks, which the head says", set->key.ranks);
}

ps_status ps_plan_set_parse(ps_str text, uint32_t rank, ps_arena *arena, ps_plan_set **out)
{
    if (text.length > PS_PLAN_FILE_BYTES_MAX) {
        return ps_fail(PS_INVALID, "%zu bytes; at most %llu would be right", text.length,
                       (unsigned long long)PS_PLAN_FILE_BYTES_MAX);
    }
    ps_scan scan = ps_scan_start(text);
    ps_plan_set *set = PS_ARENA_NEW(arena, ps_plan_set, 1);
    if (set == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(parse_version(&scan));
    PS_TRY(parse_key(&scan, &set->key));
    set->rank = rank;
    PS_TRY(parse_ranks(&scan, arena, set));
    *out = set;
    return PS_OK;
}
