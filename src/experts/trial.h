// experts/trial.h - something that may pay or not is tried now and then, and judged by the clock.
//
// Of every PS_TRIAL_PERIOD steps the first PS_TRIAL_STEPS go with it and without it in turns, in
// blocks, whose first step does not count; the others go as the medians say. Pure: times come in.
#ifndef PS_EXPERTS_TRIAL_H
#define PS_EXPERTS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define PS_TRIAL_PERIOD 512u
#define PS_TRIAL_STEPS 48u
#define PS_TRIAL_BLOCK 4u

typedef struct ps_trial {
    bool is_on;      // in the next step
    double saved_ns; // by it, of a step's median; 0: not known yet
    uint32_t step;
    uint32_t counts[2];
    uint64_t times[2][PS_TRIAL_STEPS]; // without, with
} ps_trial;

void ps_trial_init(ps_trial *trial);
void ps_trial_step(ps_trial *trial, uint64_t ns); // that the last step took

#endif
