// kernels/ref/lanes_ref.h - sums over 64 virtual lanes (kernels/kernels.h).
#ifndef PS_KERNELS_LANES_REF_H
#define PS_KERNELS_LANES_REF_H

#include <stdint.h>

#define PS_SUM_LANES 64
#define PS_SUM_CHAIN 8

static inline float ps_fold_lanes_ref(const float *lanes)
{
    float s[PS_SUM_CHAIN];
    for (uint32_t l = 0; l < PS_SUM_CHAIN; l++) {
        s[l] = lanes[l];
        for (uint32_t c = 1; c < PS_SUM_LANES / PS_SUM_CHAIN; c++) {
            s[l] += lanes[c * PS_SUM_CHAIN + l];
        }
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

#endif
