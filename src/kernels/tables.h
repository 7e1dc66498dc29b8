// kernels/tables.h - what each ISA's folder offers to dispatch.c.
#ifndef PS_KERNELS_TABLES_H
#define PS_KERNELS_TABLES_H

#include "kernels/kernels.h"

// Each sets the slots that its ISA implements and leaves the others; ref sets all.
void ps_kernels_overlay_ref(ps_kernels *table);
void ps_kernels_overlay_avx2(ps_kernels *table);
void ps_kernels_overlay_avx512(ps_kernels *table);

// The kernels themselves, ps_<op>_<isa>. A newer ISA defines only those that it makes faster.
#define KERNEL(name, type)                                                                         \
    type ps_##name##_ref;                                                                          \
    type ps_##name##_avx2;                                                                         \
    type ps_##name##_avx512;
#include "kernels/kernels.def"
#undef KERNEL

#endif
