// passes/pipeline.c - the compiler is this list.
#include "passes/passes.h"

static const struct {
    const char *name;
    ps_status (*run)(ps_graph *graph, const ps_pass_options *options);
} PASSES[] = {
    // one a line
    {"kv_format", ps_pass_kv_format}, {"comm_chunks", ps_pass_comm_chunks},
    {"shard", ps_pass_shard},         {"expect", ps_pass_expect},
    {"fuse", ps_pass_fuse},           {"comm_schedule", ps_pass_comm_schedule},
    {"window", ps_pass_window},       {"prefetch", ps_pass_prefetch},
};

ps_status ps_passes_run(ps_graph *graph, const ps_pass_options *options, ps_plan **out)
{
    PS_TRY(ps_graph_verify(graph, "build"));
    for (size_t i = 0; i < sizeof PASSES / sizeof PASSES[0]; i++) {
        PS_TRY(PASSES[i].run(graph, options));
        PS_TRY(ps_graph_verify(graph, PASSES[i].name));
    }
    PS_TRY(ps_pass_schedule(graph, options, out));
    PS_TRY(ps_pass_ratio(*out, options, graph->arena));
    PS_TRY(ps_pass_barriers(*out, options, graph->arena));
    PS_TRY(ps_pass_side(*out, options, graph->arena));
    return ps_plan_verify(*out);
}
