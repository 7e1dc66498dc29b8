// session/profiler.h - counts where the time of a session's steps goes: ps_profile of prestage.h.
//
// Steps of a plan are summed by (operator, site), over all plans of the session. For session.c
// only. Linears are summed by site, too: those that had a prefetch in their run, and the others.
#ifndef PS_SESSION_PROFILER_H
#define PS_SESSION_PROFILER_H

#include "exec/exec.h"

#include <prestage/prestage.h>

typedef struct ps_profiler ps_profiler;

// Has room for the times of the longest of the programs. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_profiler_create(const ps_program *const *programs, uint32_t count,
                                         ps_profiler **out);
void ps_profiler_destroy(ps_profiler *profiler); // NULL is allowed

// ps_exec_run, counted when it succeeds; `program` is one of those that it was created for.
// Allocates nothing.
PS_MUST_USE ps_status ps_profiler_run(ps_profiler *profiler, ps_exec *exec,
                                      const ps_program *program, const ps_step *step,
                                      bool is_prompt);

void ps_profiler_reset(ps_profiler *profiler);
ps_profile ps_profiler_get(const ps_profiler *profiler); // its ops live as long as the profiler

#endif
