// cli/experts_report.c - what became of experts that are not all kept.
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>

static double part(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : (double)a / (double)b;
}

static double gbs(const ps_expert_report *r)
{
    return part(r->read_bytes, r->read_ns);
}

static void print_hot_set(const ps_model *model, const ps_expert_report *r, FILE *file)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    if (info.hot_experts > 0) {
        char others[32] = "not known how much";
        if (!isnan(info.hot_held_out)) {
            (void)snprintf(others, sizeof others, "%.1f %%", info.hot_held_out * 100);
        }
        (void)fprintf(file,
                      "          %10u in the hot set: it has %.1f %% of the uses that it was made "
                      "of, %s of others, and had %.1f %% here\n",
                      info.hot_experts, info.hot_coverage * 100, others,
                      part(r->hot, r->wanted) * 100);
    }
}

void ps_cli_experts_print(const ps_model *model, const ps_session *session, FILE *file)
{
    ps_expert_report r;
    if (!ps_session_experts_get(session, &r) || r.calls == 0) {
        return;
    }
    const double block_ns = part(r.move_ns + r.dispatch_ns + r.compute_ns, r.calls);
    (void)fprintf(file,
                  "experts   %10llu kept of %llu, %.1f MiB (%.1f MiB given)\n"
                  "          %10llu wanted by %llu pairs: %.1f %% pinned, %.1f %% cached, %.1f %% "
                  "loading, %.1f %% read\n"
                  "          %10.1f MB read, %.2f GB/s while something was (%s: %s)\n"
                  "          %10.1f us a block (%llu calls): %.1f %% movement, %.1f %% dispatch, "
                  "%.1f %% compute\n",
                  (unsigned long long)r.slots, (unsigned long long)r.experts,
                  (double)r.slot_bytes / (1 << 20), (double)r.budget_bytes / (1 << 20),
                  (unsigned long long)r.wanted, (unsigned long long)r.routed,
                  part(r.pinned, r.wanted) * 100, part(r.cached, r.wanted) * 100,
                  part(r.loading, r.wanted) * 100, part(r.read, r.wanted) * 100,
                  (double)r.read_bytes / 1e6, gbs(&r), r.tier, r.way, block_ns / 1e3,
                  (unsigned long long)r.calls, part(r.move_ns, r.calls) / block_ns * 100,
                  part(r.dispatch_ns, r.calls) / block_ns * 100,
                  part(r.compute_ns, r.calls) / block_ns * 100);
    print_hot_set(model, &r, file);
    if (r.guessed > 0) {
        (void)fprintf(file,
                      "          %10llu guessed a layer early: %.1f %% of those wanted; %llu read "
                      "for it, %.1f %% of them used; %s %.2f ms a step\n",
                      (unsigned long long)r.guessed, part(r.guessed_right, r.guessed_of) * 100,
                      (unsigned long long)r.guesses_read,
                      part(r.guesses_used, r.guesses_read) * 100,
                      r.guess_saved_ns == 0 ? "not judged yet, saves"
                      : r.is_guessing       ? "on, saves"
                                            : "off, saved",
                      r.guess_saved_ns / 1e6);
    }
}

void ps_cli_experts_json(const ps_model *model, const ps_session *session, ps_json_writer *json)
{
    ps_expert_report r;
    if (!ps_session_experts_get(session, &r)) {
        return;
    }
    ps_json_begin(json, "experts", '{');
    ps_json_integer(json, "budget_bytes", (int64_t)r.budget_bytes);
    ps_json_integer(json, "slot_bytes", (int64_t)r.slot_bytes);
    ps_json_integer(json, "kept", (int64_t)r.slots);
    ps_json_integer(json, "all", (int64_t)r.experts);
    ps_json_integer(json, "calls", (int64_t)r.calls);
    ps_json_integer(json, "waves", (int64_t)r.waves);
    ps_json_integer(json, "routed", (int64_t)r.routed);
    ps_json_integer(json, "distinct", (int64_t)r.wanted);
    ps_json_begin(json, "from", '{');
    ps_json_integer(json, "pinned", (int64_t)r.pinned);
    ps_json_integer(json, "cached", (int64_t)r.cached);
    ps_json_integer(json, "loading", (int64_t)r.loading);
    ps_json_integer(json, r.tier, (int64_t)r.read);
    ps_json_end(json, '}');
    ps_model_info info;
    ps_model_get_info(model, &info);
    ps_json_begin(json, "hot_set", '{');
    ps_json_integer(json, "experts", info.hot_experts);
    ps_json_number(json, "theory", info.hot_experts > 0 ? info.hot_coverage : NAN);
    ps_json_number(json, "held_out", info.hot_experts > 0 ? info.hot_held_out : NAN);
    ps_json_number(json, "live", part(r.hot, r.wanted));
    ps_json_end(json, '}');
    ps_json_begin(json, "guesses", '{');
    ps_json_number(json, "recall", part(r.guessed_right, r.guessed_of));
    ps_json_integer(json, "read", (int64_t)r.guesses_read);
    ps_json_number(json, "useful", part(r.guesses_used, r.guesses_read));
    ps_json_number(json, "saved_ms", r.guess_saved_ns / 1e6);
    ps_json_bool(json, "on", r.is_guessing);
    ps_json_end(json, '}');
    ps_json_integer(json, "read_bytes", (int64_t)r.read_bytes);
    ps_json_number(json, "read_gbs", gbs(&r));
    ps_json_text(json, "tier", r.tier);
    ps_json_text(json, "way", r.way);
    ps_json_integer(json, "move_ns", (int64_t)r.move_ns);
    ps_json_integer(json, "dispatch_ns", (int64_t)r.dispatch_ns);
    ps_json_integer(json, "compute_ns", (int64_t)r.compute_ns);
    ps_json_end(json, '}');
}
