// engine/hints.h - which prefetching suits this machine, by a trial on the weights themselves.
#ifndef PS_ENGINE_HINTS_H
#define PS_ENGINE_HINTS_H

#include "engine/weights.h"
#include "exec/team.h"
#include "hw/machine.h"
#include "kernels/kernels.h"

// Times linears of one and of eight tokens over weights that no cache holds, without hints and with
// each kind, and sets kernels->linear_hints to what was fastest. Results do not depend on it. The
// hints stay as they are when the weights are less than four times the last-level cache, for then
// most of a step's come from there, or when the matrices like the largest are less than twice.
// Four times that cache is read at most, again and again, which takes some tens of milliseconds. A
// trial that cannot be made, for want of memory say, changes nothing.
void ps_hints_choose(ps_team *team, const ps_weights *weights, const ps_machine *machine,
                     ps_kernels *kernels);

const char *ps_prefetch_name(ps_prefetch prefetch); // "none", "near", "far"

#endif
