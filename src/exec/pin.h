// exec/pin.h - threads on CPUs of their own. For team.c and side.c.
#ifndef PS_EXEC_PIN_H
#define PS_EXEC_PIN_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

// The CPUs that the process may use when it is asked.
typedef struct ps_pins {
    cpu_set_t cpus;
    uint32_t count; // 0: not known
} ps_pins;

ps_pins ps_pins_get(void);

// Keeps the thread to the index-th of the CPUs; a hint: slower without, not wrong.
void ps_pins_apply(const ps_pins *pins, pthread_t thread, uint32_t index);

#endif
