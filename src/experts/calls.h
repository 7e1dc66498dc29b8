// experts/calls.h - where MoE layer calls come from: a route log or the generator.
#ifndef PS_EXPERTS_CALLS_H
#define PS_EXPERTS_CALLS_H

#include "experts/routes_file.h"

// Calls in order, from the start as often as is asked for. Layers of a step rise.
typedef struct ps_expert_calls {
    void *context;
    ps_routes_shape shape;
    // As ps_routes_reader_next and ps_routes_reader_rewind.
    ps_status (*next)(void *context, ps_routes_call *out, bool *out_is_end);
    ps_status (*rewind)(void *context);
} ps_expert_calls;

// Those of a log; the reader is borrowed.
ps_expert_calls ps_routes_reader_calls(ps_routes_reader *reader);

#endif
