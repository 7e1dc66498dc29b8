// hw/topology.c - the one file that includes hwloc.h.
#include "hw/topology.h"

#include <hwloc.h>

static uint64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
    return cache == NULL || cache->attr == NULL ? 0 : cache->attr->cache.size;
}

ps_status ps_topology_cache_bytes(uint64_t *out_l2, uint64_t *out_llc)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return ps_fail(PS_NO_MEMORY, "hwloc: no memory for the topology");
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return ps_fail(PS_IO, "hwloc cannot read this machine's topology");
    }
    const uint64_t l2 = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
    const uint64_t l3 = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
    hwloc_topology_destroy(topology);
    *out_l2 = l2 > 0 ? l2 : (uint64_t)1 << 20;
    *out_llc = l3 > 0 ? l3 : *out_l2;
    return PS_OK;
}
