// session/session.c - sequences and their blocks.
//
// 1. A sequence of length n owns, in each group, one reference to every block that holds a position
//    that its next row can see: from first_block (0 without a window) to the block of position
//    n - 1.
// 2. Only a block with one reference is written. A row that would write a shared one gets a copy
//    first.
// 3. A step is checked whole, blocks counted, before anything is acquired; so a refused step
//    changes nothing.
#include "session/session.h"

#include "session/profiler.h"

#include <stdlib.h>
#include <string.h>

#define PS_DECODE_ROWS_MAX 8u // of a program that is for decoding
#define ARENA_BYTES ((size_t)4 << 30)

typedef struct sequence {
    bool is_open;
    bool is_forked; // the executor does not know its blocks yet,
    bool is_copied; //   and they will be its own
    uint32_t length;
    uint32_t first_block[PS_KV_GROUPS_LIMIT];
    uint32_t *blocks[PS_KV_GROUPS_LIMIT]; // [blocks of a context]
} sequence;

struct ps_session {
    ps_arena arena;
    ps_session_config config;
    sequence *sequences;
    ps_blocks groups[PS_KV_GROUPS_LIMIT];
    ps_step *step; // room for batch_rows rows, as many block changes in each group, and the tables
                   // of as many sequences as can be in a step
    ps_row *rows;  // [batch_rows] of a prefill
    uint64_t step_number;
    const ps_program *last; // that the last step ran; NULL: none
    uint32_t last_logits;
    uint32_t *row_of; // [sequences] 1 + rows that the step being checked gives the sequence so far
    ps_profiler *profiler; // NULL: never asked for
    bool is_profiling;
};

uint32_t ps_session_group_blocks(uint32_t window, uint32_t context_tokens, uint64_t kv_tokens,
                                 uint32_t sequences, uint32_t batch_rows)
{
    // One block more per sequence: the last one of each is partly empty; and one for a copy before
    // writing.
    const uint64_t all = ps_divide_up(kv_tokens, PS_KV_BLOCK_TOKENS) + 2 * (uint64_t)sequences;
    if (window == 0) {
        return (uint32_t)all;
    }
    const uint64_t seen = (uint64_t)window + batch_rows;
    const uint64_t each = ps_divide_up(seen < context_tokens ? seen : context_tokens,
                                       PS_KV_BLOCK_TOKENS) +
                          3;
    return (uint32_t)(each * sequences < all ? each * sequences : all);
}

static ps_status create_sequences(ps_session *session)
{
    const ps_session_config *config = &session->config;
    const uint32_t blocks = (uint32_t)ps_divide_up(config->context_tokens, PS_KV_BLOCK_TOKENS);
    session->sequences = PS_ARENA_NEW(&session->arena, sequence, config->sequences);
    session->row_of = PS_ARENA_NEW(&session->arena, uint32_t, config->sequences);
    if (session->sequences == NULL || session->row_of == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < config->sequences; i++) {
        for (uint32_t g = 0; g < config->group_count; g++) {
            session->sequences[i].blocks[g] = PS_ARENA_NEW(&session->arena, uint32_t, blocks);
            if (session->sequences[i].blocks[g] == NULL) {
                return PS_NO_MEMORY;
            }
        }
    }
    return PS_OK;
}

uint64_t ps_session_step_bytes(const ps_session_config *config)
{
    const uint64_t told = config->sequences < config->batch_rows ? config->sequences
                                                                 : config->batch_rows;
    const uint64_t table_blocks = told * ps_divide_up(config->context_tokens, PS_KV_BLOCK_TOKENS);
    const uint64_t changes = (config->batch_rows + table_blocks) * config->group_count;
    return sizeof(ps_step) + config->batch_rows * sizeof(ps_step_row) +
           changes * sizeof(ps_step_block);
}

static ps_status create(ps_session *session)
{
    const ps_session_config *config = &session->config;
    const ps_program **programs = PS_ARENA_NEW(&session->arena, const ps_program *,
                                               config->program_count);
    if (programs == NULL) {
        return PS_NO_MEMORY;
    }
    memcpy(programs, config->programs, config->program_count * sizeof *programs);
    session->config.programs = programs;
    for (uint32_t g = 0; g < config->group_count; g++) {
        PS_TRY(ps_blocks_init(&session->groups[g], config->group_blocks[g], &session->arena));
    }
    PS_TRY(create_sequences(session));
    session->step = ps_arena_alloc(&session->arena, 1, ps_session_step_bytes(config));
    session->rows = PS_ARENA_NEW(&session->arena, ps_row, config->batch_rows);
    return session->step == NULL || session->rows == NULL ? PS_NO_MEMORY : PS_OK;
}

ps_status ps_session_create_from(const ps_session_config *config, ps_session **out)
{
    ps_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        if (config->tell_end != NULL) {
            config->tell_end(config->context);
        }
        ps_exec_destroy(config->exec);
        return ps_fail(PS_NO_MEMORY, "no memory for a session");
    }
    session->config = *config;
    ps_arena_init(&session->arena, ARENA_BYTES);
    const ps_status status = create(session);
    if (status != PS_OK) {
        ps_session_destroy(session);
        return status;
    }
    *out = session;
    return PS_OK;
}

void ps_session_destroy(ps_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->config.tell_end != NULL) {
        session->config.tell_end(session->config.context);
    }
    ps_exec_destroy(session->config.exec);
    ps_profiler_destroy(session->profiler);
    ps_arena_deinit(&session->arena);
    free(session);
}

bool ps_session_experts_get(const ps_session *session, ps_expert_report *out)
{
    const ps_expert_store *store = ps_exec_experts(session->config.exec);
    ps_expert_store_info info;
    if (store == NULL) {
        return false;
    }
    ps_expert_store_get_info(store, &info);
    const ps_expert_times times = ps_exec_expert_times(session->config.exec);
    *out = (ps_expert_report){.budget_bytes = info.budget_bytes,
                              .slot_bytes = info.slot_bytes,
                              .slots = info.slots,
                              .experts = info.experts,
                              .calls = info.calls,
                              .waves = info.waves,
                              .routed = info.routed,
                              .wanted = info.wanted,
                              .hot = info.hot,
                              .pinned = info.pinned,
                              .cached = info.cached,
                              .loading = info.loading,
                              .read = info.read,
                              .read_bytes = info.read_bytes,
                              .read_ns = info.read_ns,
                              .guessed = info.expected,
                              .guessed_right = info.expected_right,
                              .guessed_of = info.expected_of,
                              .guesses_read = info.guessed,
                              .guesses_used = info.guessed_right,
                              .guess_saved_ns = info.guess_saved_ns,
                              .is_guessing = info.is_guessing,
                              .tier = info.tier,
                              .way = info.way,
                              .move_ns = times.move_ns,
                              .dispatch_ns = times.dispatch_ns,
                              .compute_ns = times.compute_ns};
    return true;
}

void ps_session_get_info(const ps_session *session, ps_session_info *out)
{
    const ps_session_config *config = &session->config;
    const ps_plan *decode = ps_program_plan(config->programs[0]);
    uint32_t barriers = 0;
    uint32_t best_logits = 0;
    for (uint32_t i = 0; i < decode->step_count; i++) {
        const ps_plan_step *step = &decode->steps[i];
        barriers += step->barrier;
        best_logits = step->op == PS_OP_ALL_GATHER_BEST ? step->attributes.top_k : best_logits;
    }
    *out = (ps_session_info){.context_tokens = config->context_tokens,
                             .sequences = config->sequences,
                             .batch_rows = config->batch_rows,
                             .kv_bytes = ps_exec_kv_bytes(config->exec),
                             .workspace_bytes = ps_exec_workspace_bytes(config->exec),
                             .barriers_per_step = barriers,
                             .best_logits = best_logits};
}

uint64_t ps_session_kv_read_bytes(const ps_session *session, uint32_t position)
{
    return ps_exec_kv_read_bytes(session->config.exec, position);
}

// ---- profiling

ps_status ps_session_profile_start(ps_session *session)
{
    const ps_session_config *config = &session->config;
    if (session->profiler == NULL) {
        PS_TRY(ps_profiler_create(config->programs, config->program_count, &session->profiler));
    }
    session->is_profiling = true;
    return PS_OK;
}

void ps_session_profile_stop(ps_session *session)
{
    session->is_profiling = false;
}

void ps_session_profile_reset(ps_session *session)
{
    if (session->profiler != NULL) {
        ps_profiler_reset(session->profiler);
    }
}

void ps_session_profile_get(const ps_session *session, ps_profile *out)
{
    *out = session->profiler == NULL ? (ps_profile){0} : ps_profiler_get(session->profiler);
}

// ---- prefetching

static bool is_for_prompts(const ps_program *program)
{
    return ps_program_plan(program)->rows_max > PS_DECODE_ROWS_MAX;
}

// Of all programs of a kind; gains are those of the one that has run most.
static ps_prefetch_site site_report(const ps_session *session, ps_site site, ps_window window,
                                    bool is_prompt)
{
    const bool is_all = site == PS_SITE_COUNT;
    ps_prefetch_site sum = {.site = is_all ? "all" : ps_site_name(site),
                            .window = is_all ? "all" : ps_window_name(window),
                            .is_prompt = is_prompt};
    for (uint32_t i = 0; i < session->config.program_count; i++) {
        const ps_program *program = session->config.programs[i];
        if (is_for_prompts(program) != is_prompt) {
            continue;
        }
        ps_prefetch_report one;
        ps_exec_prefetch_report(session->config.exec, program, site, window, &one);
        sum.planned += one.planned;
        sum.fired += one.fired;
        sum.asked_bytes += one.asked_bytes;
        sum.moved_bytes += one.moved_bytes;
        sum.is_off |= one.is_off;
        sum.slack_ns += one.slack_ns;
        sum.slack_waits += one.slack_waits;
        if (one.controls > sum.controls) {
            sum.controls = one.controls;
            sum.gain = one.gain;
            sum.gain_lower = one.gain_lower;
            sum.gain_upper = one.gain_upper;
        }
    }
    return sum;
}

uint32_t ps_session_prefetch_get(const ps_session *session, ps_prefetch_site *out)
{
    uint32_t count = 0;
    for (uint32_t prompt = 0; prompt < 2; prompt++) {
        for (uint32_t site = PS_SITE_NONE + 1; site < PS_SITE_COUNT; site++) {
            for (uint32_t window = PS_WINDOW_NONE + 1; window < PS_WINDOW_COUNT; window++) {
                out[count] = site_report(session, (ps_site)site, (ps_window)window, prompt == 1);
                count += out[count].planned > 0;
            }
        }
        // All together stand last.
        out[count] = site_report(session, PS_SITE_COUNT, PS_WINDOW_NONE, prompt == 1);
        count += out[count].planned > 0;
    }
    return count;
}

// ---- steps

static ps_status tell(ps_session *session, const ps_program *program)
{
    const ps_session_config *config = &session->config;
    if (config->tell_step == NULL) {
        return PS_OK;
    }
    uint32_t index = 0;
    while (config->programs[index] != program) {
        index++;
    }
    const uint64_t bytes = sizeof(ps_step) + session->step->row_count * sizeof(ps_step_row) +
                           session->step->block_count * sizeof(ps_step_block);
    return config->tell_step(config->context, index, session->step, bytes);
}

static ps_status run_program(ps_session *session, const ps_program *program)
{
    PS_TRY(tell(session, program));
    return session->is_profiling ? ps_profiler_run(session->profiler, session->config.exec, program,
                                                   session->step, is_for_prompts(program))
                                 : ps_exec_run(session->config.exec, program, session->step);
}

// ---- sequences

static ps_status find_open(const ps_session *session, ps_sequence id, sequence **out)
{
    if (id >= session->config.sequences || !session->sequences[id].is_open) {
        return ps_fail(PS_INVALID, "sequence %u is not open", id);
    }
    *out = &session->sequences[id];
    return PS_OK;
}

ps_status ps_sequence_open(ps_session *session, ps_sequence *out)
{
    for (uint32_t i = 0; i < session->config.sequences; i++) {
        sequence *slot = &session->sequences[i];
        if (!slot->is_open) {
            slot->is_open = true;
            slot->is_forked = false;
            slot->is_copied = false;
            slot->length = 0;
            memset(slot->first_block, 0, sizeof slot->first_block);
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_EXHAUSTED, "all %u sequences of the session are open",
                   session->config.sequences);
}

// Blocks of a sequence: those in [first_block, end) are its own references.
static uint32_t end_block(uint32_t length)
{
    return (uint32_t)ps_divide_up(length, PS_KV_BLOCK_TOKENS);
}

static void release_from(ps_session *session, sequence *slot, uint32_t length)
{
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        uint32_t b = end_block(length);
        for (b = b < slot->first_block[g] ? slot->first_block[g] : b; b < end_block(slot->length);
             b++) {
            ps_blocks_release(&session->groups[g], slot->blocks[g][b]);
        }
    }
    slot->length = length;
}

void ps_sequence_close(ps_session *session, ps_sequence id)
{
    if (id < session->config.sequences && session->sequences[id].is_open) {
        release_from(session, &session->sequences[id], 0);
        session->sequences[id].is_open = false;
    }
}

uint32_t ps_sequence_length(const ps_session *session, ps_sequence id)
{
    return id < session->config.sequences && session->sequences[id].is_open
               ? session->sequences[id].length
               : 0;
}

ps_status ps_sequence_fork(ps_session *session, ps_sequence id, ps_sequence *out)
{
    sequence *parent;
    PS_TRY(find_open(session, id, &parent));
    ps_sequence child_id;
    PS_TRY(ps_sequence_open(session, &child_id));
    sequence *child = &session->sequences[child_id];
    child->length = parent->length;
    child->is_forked = true;
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        child->first_block[g] = parent->first_block[g];
        for (uint32_t b = parent->first_block[g]; b < end_block(parent->length); b++) {
            child->blocks[g][b] = parent->blocks[g][b];
            ps_blocks_retain(&session->groups[g], child->blocks[g][b]);
        }
    }
    *out = child_id;
    return PS_OK;
}

ps_status ps_sequence_copy(ps_session *session, ps_sequence id, ps_sequence *out)
{
    PS_TRY(ps_sequence_fork(session, id, out));
    session->sequences[*out].is_copied = true;
    return PS_OK;
}

// The first block that a row at `position` sees.
static uint32_t first_block_seen(uint32_t window, uint32_t position)
{
    return window == 0 || position < window ? 0 : (position - window + 1) / PS_KV_BLOCK_TOKENS;
}

ps_status ps_sequence_truncate(ps_session *session, ps_sequence id, uint32_t length)
{
    sequence *slot;
    PS_TRY(find_open(session, id, &slot));
    if (length > slot->length) {
        return ps_fail(PS_INVALID, "cannot truncate sequence %u of %u tokens to %u", id,
                       slot->length, length);
    }
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        // An empty sequence starts anew and needs nothing of what was dropped.
        if (length > 0 &&
            first_block_seen(session->config.group_windows[g], length) < slot->first_block[g]) {
            return ps_fail(
                PS_UNSUPPORTED,
                "cannot truncate sequence %u to %u tokens: its sliding window has dropped "
                "what they would see",
                id, length);
        }
    }
    release_from(session, slot, length);
    if (length == 0) {
        memset(slot->first_block, 0, sizeof slot->first_block);
    }
    return PS_OK;
}

// Gives back what the next row can no longer see.
static void drop_unseen(ps_session *session, sequence *slot)
{
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        const uint32_t seen = first_block_seen(session->config.group_windows[g], slot->length);
        for (; slot->first_block[g] < seen; slot->first_block[g]++) {
            ps_blocks_release(&session->groups[g], slot->blocks[g][slot->first_block[g]]);
        }
    }
}

// ---- steps

// True when a row at `position` writes a block that the sequence does not have to itself.
static bool wants_block(const ps_session *session, const sequence *slot, uint32_t group,
                        uint32_t position)
{
    if (position % PS_KV_BLOCK_TOKENS == 0) {
        return true;
    }
    // Within a step, the first row of the sequence settles the block for those behind it.
    return position == slot->length &&
           session->groups[group].references[slot->blocks[group][position / PS_KV_BLOCK_TOKENS]] >
               1;
}

// That the first step of a copy makes its own.
static uint32_t blocks_to_copy(const sequence *slot, uint32_t group)
{
    return slot->is_copied ? end_block(slot->length) - slot->first_block[group] : 0;
}

static ps_status check_token(const ps_session *session, uint32_t id, int32_t token)
{
    const uint32_t vocabulary = ps_program_plan(session->config.programs[0])->vocabulary;
    return token >= 0 && (uint32_t)token < vocabulary
               ? PS_OK
               : ps_fail(PS_INVALID, "token %d of sequence %u is outside the vocabulary of %u",
                         token, id, vocabulary);
}

static ps_status check_row(ps_session *session, const ps_row *rows, uint32_t i)
{
    sequence *slot;
    PS_TRY(find_open(session, rows[i].sequence, &slot));
    uint32_t *given = &session->row_of[rows[i].sequence];
    if (*given > 0 && rows[i - 1].sequence != rows[i].sequence) {
        return ps_fail(PS_INVALID, "rows of sequence %u do not stand together", rows[i].sequence);
    }
    if (slot->length + *given >= session->config.context_tokens) {
        return ps_fail(PS_EXHAUSTED, "sequence %u is full: its context is %u tokens",
                       rows[i].sequence, session->config.context_tokens);
    }
    ++*given;
    return check_token(session, rows[i].sequence, rows[i].token);
}

static ps_status check_rows(ps_session *session, const ps_row *rows, uint32_t count,
                            uint32_t *out_logits)
{
    if (count == 0 || count > session->config.batch_rows) {
        return ps_fail(PS_INVALID, "a step of %u rows: 1 to %u would be right", count,
                       session->config.batch_rows);
    }
    memset(session->row_of, 0, session->config.sequences * sizeof *session->row_of);
    uint32_t logits = 0;
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(check_row(session, rows, i));
        logits += rows[i].wants_logits;
    }
    const uint32_t program_last = session->config.program_count - 1; // of the most rows
    const uint32_t most = ps_program_plan(session->config.programs[program_last])->logits_max;
    if (logits > most) {
        return ps_fail(PS_INVALID, "%u rows want logits: at most %u of a step can", logits, most);
    }
    *out_logits = logits;
    return PS_OK;
}

// Writes the rows of the step and counts the blocks that they want in each group.
static void write_rows(ps_session *session, const ps_row *rows, uint32_t count,
                       uint32_t wanted[PS_KV_GROUPS_LIMIT], uint32_t *out_position_last)
{
    ps_step_row *out = (ps_step_row *)(void *)(session->step + 1);
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        const sequence *slot = &session->sequences[rows[i].sequence];
        const bool follows = i > 0 && rows[i - 1].sequence == rows[i].sequence;
        const uint32_t position = follows ? out[i - 1].position + 1 : slot->length;
        out[i] = (ps_step_row){.sequence = rows[i].sequence,
                               .position = position,
                               .token = rows[i].token,
                               .wants_logits = rows[i].wants_logits};
        for (uint32_t g = 0; g < session->config.group_count; g++) {
            wanted[g] += wants_block(session, slot, g, position) +
                         (follows ? 0 : blocks_to_copy(slot, g));
        }
        last = position > last ? position : last;
    }
    *out_position_last = last;
}

// The changes to block tables that a step carries, as they are written behind its rows.
typedef struct change_list {
    ps_step_block *list;
    uint32_t count;
} change_list;

// Gives the sequence block `index` for its own; what it shared, `old`, is copied.
static void take_block(ps_session *session, uint32_t id, uint32_t group, uint32_t index,
                       uint32_t old, change_list *changes)
{
    uint32_t *entry = &session->sequences[id].blocks[group][index];
    *entry = ps_blocks_acquire(&session->groups[group]);
    if (old != PS_NO_BLOCK) {
        ps_blocks_release(&session->groups[group], old);
    }
    changes->list[changes->count++] = (ps_step_block){
        .sequence = id, .group = group, .index = index, .block = *entry, .copy_from = old};
}

static void tell_all_blocks(ps_session *session, uint32_t id, change_list *changes)
{
    const sequence *slot = &session->sequences[id];
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        for (uint32_t b = slot->first_block[g]; b < end_block(slot->length); b++) {
            if (slot->is_copied) {
                take_block(session, id, g, b, slot->blocks[g][b], changes);
                continue;
            }
            changes->list[changes->count++] = (ps_step_block){.sequence = id,
                                                              .group = g,
                                                              .index = b,
                                                              .block = slot->blocks[g][b],
                                                              .copy_from = PS_NO_BLOCK};
        }
    }
}

// Acquires the blocks that the rows write and tells the executor of them.
static void write_blocks(ps_session *session, uint32_t count)
{
    ps_step_row *rows = (ps_step_row *)(void *)(session->step + 1);
    change_list changes = {.list = (ps_step_block *)(void *)(rows + count)};
    for (uint32_t i = 0; i < count; i++) {
        sequence *slot = &session->sequences[rows[i].sequence];
        if (slot->is_forked) {
            tell_all_blocks(session, rows[i].sequence, &changes);
            slot->is_forked = false;
            slot->is_copied = false;
        }
        for (uint32_t g = 0; g < session->config.group_count; g++) {
            const uint32_t index = rows[i].position / PS_KV_BLOCK_TOKENS;
            if (wants_block(session, slot, g, rows[i].position)) {
                const uint32_t old = rows[i].position % PS_KV_BLOCK_TOKENS != 0
                                         ? slot->blocks[g][index]
                                         : PS_NO_BLOCK;
                take_block(session, rows[i].sequence, g, index, old, &changes);
            }
        }
    }
    session->step->block_count = changes.count;
}

const ps_program *ps_session_program_for(const ps_session *session, uint32_t rows, uint32_t logits,
                                         uint32_t position_last)
{
    for (uint32_t i = 0; i < session->config.program_count; i++) {
        const ps_plan *plan = ps_program_plan(session->config.programs[i]);
        if (rows <= plan->rows_max && logits <= plan->logits_max &&
            position_last < plan->context_max) {
            return session->config.programs[i];
        }
    }
    return NULL;
}

// Of a step that failed: its rows were not appended.
static void take_back(ps_session *session, uint32_t count)
{
    const ps_step_row *rows = ps_step_rows(session->step);
    for (uint32_t i = count; i-- > 0;) {
        release_from(session, &session->sequences[rows[i].sequence], rows[i].position);
    }
}

ps_status ps_session_step(ps_session *session, const ps_row *rows, uint32_t count)
{
    uint32_t logits, position_last;
    uint32_t wanted[PS_KV_GROUPS_LIMIT] = {0};
    PS_TRY(check_rows(session, rows, count, &logits));
    write_rows(session, rows, count, wanted, &position_last);
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        if (wanted[g] > session->groups[g].free_count) {
            return ps_fail(PS_EXHAUSTED,
                           "the KV pool is full: %u of %u blocks of %d tokens are free, %u wanted",
                           session->groups[g].free_count, session->groups[g].count,
                           PS_KV_BLOCK_TOKENS, wanted[g]);
        }
    }
    const ps_program *program = ps_session_program_for(session, count, logits, position_last);
    ps_assert(program != NULL);
    session->step->number = session->step_number++;
    session->step->row_count = count;
    write_blocks(session, count);
    const ps_status status = run_program(session, program);
    for (uint32_t i = 0; i < count; i++) {
        session->sequences[rows[i].sequence].length++;
    }
    if (status != PS_OK) {
        take_back(session, count);
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        sequence *slot = &session->sequences[rows[i].sequence];
        if (i + 1 == count || rows[i + 1].sequence != rows[i].sequence) {
            drop_unseen(session, slot);
        }
    }
    session->last = program;
    session->last_logits = logits;
    return PS_OK;
}

float *ps_session_logits(ps_session *session, uint32_t index)
{
    ps_assert(session->last != NULL && index < session->last_logits);
    return ps_exec_logits(session->config.exec, session->last, index);
}

// Groups of all positions must have blocks for the whole prompt before its first step; a sliding
// window gives blocks back as it goes.
static ps_status check_room(const ps_session *session, const sequence *slot, size_t count)
{
    const uint64_t new_blocks = ps_divide_up(slot->length + count, PS_KV_BLOCK_TOKENS) -
                                end_block(slot->length);
    for (uint32_t g = 0; g < session->config.group_count; g++) {
        // A partly filled last block that is shared will be copied.
        const uint64_t wanted = new_blocks + blocks_to_copy(slot, g) +
                                (slot->length % PS_KV_BLOCK_TOKENS != 0 &&
                                 wants_block(session, slot, g, slot->length));
        if (session->config.group_windows[g] == 0 && wanted > session->groups[g].free_count) {
            return ps_fail(
                PS_EXHAUSTED,
                "the KV pool is full: %u of %u blocks of %d tokens are free, %llu wanted",
                session->groups[g].free_count, session->groups[g].count, PS_KV_BLOCK_TOKENS,
                (unsigned long long)wanted);
        }
    }
    return PS_OK;
}

ps_status ps_session_prefill(ps_session *session, ps_sequence id, const int32_t *tokens,
                             size_t count, const volatile bool *cancel)
{
    sequence *slot;
    PS_TRY(find_open(session, id, &slot));
    if (count == 0 || count > session->config.context_tokens - slot->length) {
        return ps_fail(PS_EXHAUSTED, "%zu tokens after %u of a context of %u: 1 to %u fit", count,
                       slot->length, session->config.context_tokens,
                       session->config.context_tokens - slot->length);
    }
    for (size_t i = 0; i < count; i++) {
        PS_TRY(check_token(session, id, tokens[i]));
    }
    PS_TRY(check_room(session, slot, count));
    ps_row *rows = session->rows;
    const uint32_t rows_max = session->config.batch_rows;
    for (size_t done = 0; done < count;) {
        const size_t left = count - done;
        const uint32_t now = left < rows_max ? (uint32_t)left : rows_max;
        for (uint32_t i = 0; i < now; i++) {
            rows[i] = (ps_row){
                .sequence = id, .token = tokens[done + i], .wants_logits = done + i + 1 == count};
        }
        PS_TRY(ps_session_step(session, rows, now));
        done += now;
        if (cancel != NULL && *cancel && done < count) {
            return ps_fail(PS_CANCELLED, "cancelled after %zu of %zu prompt tokens", done, count);
        }
    }
    return PS_OK;
}
