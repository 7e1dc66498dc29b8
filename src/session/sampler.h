// session/sampler.h - making a sampler without a model; the rest is in prestage/prestage.h.
#ifndef PS_SESSION_SAMPLER_H
#define PS_SESSION_SAMPLER_H

#include "kernels/kernels.h"

#include <prestage/prestage.h>

// As ps_sampler_create, for logits of `vocabulary` values.
PS_MUST_USE ps_status ps_sampler_create_for(const ps_kernels *kernels, uint32_t vocabulary,
                                            const ps_sampler_options *options, ps_sampler **out);

#endif
