// hw/check_memory.c - refuses in time what would end the process later.
#include "hw/machine.h"

ps_status ps_machine_check_memory(uint64_t bytes, const char *what)
{
    const uint64_t free_bytes = ps_machine_available_bytes();
    return bytes <= free_bytes
               ? PS_OK
               : ps_fail(PS_NO_MEMORY, "%s take %.1f MiB of memory, %.1f MiB are free", what,
                         (double)bytes / (1 << 20), (double)free_bytes / (1 << 20));
}
