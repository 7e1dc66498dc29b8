// exec/pin.c - affinity masks.
#include "exec/pin.h"

ps_pins ps_pins_get(void)
{
    ps_pins pins = {.count = 0};
    CPU_ZERO(&pins.cpus);
    if (sched_getaffinity(0, sizeof pins.cpus, &pins.cpus) == 0) {
        pins.count = (uint32_t)CPU_COUNT(&pins.cpus);
    }
    return pins;
}

void ps_pins_apply(const ps_pins *pins, pthread_t thread, uint32_t index)
{
    uint32_t seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &pins->cpus) && seen++ == index) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)pthread_setaffinity_np(thread, sizeof one, &one);
            return;
        }
    }
}
