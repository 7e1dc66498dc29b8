// base/pages.h - large blocks of zeroed memory, in huge pages where the system has them.
#ifndef PS_BASE_PAGES_H
#define PS_BASE_PAGES_H

#include "base/status.h"

#include <stdint.h>

// size_bytes > 0 of zeroed memory at a 2 MiB boundary, in huge pages from 32 MiB on; pages are
// taken from the system when first touched. `what` names the purpose in the message of
// PS_NO_MEMORY.
PS_MUST_USE ps_status ps_pages_map(uint64_t size_bytes, const char *what, void **out);

// What so many bytes of ps_pages_map take at most, once they are touched; and the most bytes that
// take no more than that.
uint64_t ps_pages_bytes(uint64_t size_bytes);
uint64_t ps_pages_fit(uint64_t size_bytes);

// size_bytes as given to ps_pages_map; NULL is allowed.
void ps_pages_unmap(void *memory, uint64_t size_bytes);

#endif
