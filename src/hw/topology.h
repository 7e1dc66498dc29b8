// hw/topology.h - caches and cores, read through hwloc.
#ifndef PS_HW_TOPOLOGY_H
#define PS_HW_TOPOLOGY_H

#include "base/status.h"

#include <stdint.h>

// Sizes of one L2 and of the last-level cache; where hwloc sees none, 1 MiB and the size of L2.
PS_MUST_USE ps_status ps_topology_cache_bytes(uint64_t *out_l2, uint64_t *out_llc);

#endif
