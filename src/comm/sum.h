// comm/sum.h - sums over ranks.
#ifndef PS_COMM_SUM_H
#define PS_COMM_SUM_H

#include <stdint.h>

// sum[i] = ((rows[0][i] + rows[1][i]) + rows[2][i]) + ... for i in [begin, end), in f32; with one
// row a copy. rows [count] of pointers, count > 0. `sum` may be one of the rows. Pure; parts of one
// sum may be given to several threads.
void ps_comm_sum(float *sum, const float *const *rows, uint32_t count, uint64_t begin,
                 uint64_t end);

#endif
