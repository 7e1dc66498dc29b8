// engine/forced_routes.h - a route log as the experts that a model's tokens go to.
#ifndef PS_ENGINE_FORCED_ROUTES_H
#define PS_ENGINE_FORCED_ROUTES_H

#include "engine/model_internal.h"

// The log's sequences in their order, each with its tokens up to the last position; where a
// position was run more than once, its last experts. Memory comes from the arena.
//
// PS_NOT_FOUND, PS_IO, PS_NO_MEMORY
// PS_INVALID    no route log, or a damaged one; layers, experts or top_k are not the model's; it
//               has no token, or not all layers of one
// PS_EXHAUSTED  more tokens than have room in 256 MiB
PS_MUST_USE ps_status ps_forced_routes_read(const char *path, const ps_model_config *config,
                                            ps_arena *arena, const ps_forced_routes **out);

#endif
