// base/pages.c - mmap, aligned for transparent huge pages.
#include "base/pages.h"

#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)
#define SMALL_PAGE_BYTES ((uint64_t)4096)
// Below this, the first touch of one byte must not cost 2 MiB.
#define HUGE_BLOCK_BYTES_MIN ((uint64_t)32 << 20)

static uint64_t page_bytes(uint64_t size_bytes)
{
    return size_bytes < HUGE_BLOCK_BYTES_MIN ? SMALL_PAGE_BYTES : HUGE_PAGE_BYTES;
}

uint64_t ps_pages_bytes(uint64_t size_bytes)
{
    return ps_round_up(size_bytes, page_bytes(size_bytes));
}

uint64_t ps_pages_fit(uint64_t size_bytes)
{
    return size_bytes / page_bytes(size_bytes) * page_bytes(size_bytes);
}

ps_status ps_pages_map(uint64_t size_bytes, const char *what, void **out)
{
    const uint64_t size = ps_round_up(size_bytes, HUGE_PAGE_BYTES);
    // One huge page more, so that an aligned range of `size` lies inside; the rest goes back at
    // once.
    char *memory = mmap(NULL, size + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return ps_fail(PS_NO_MEMORY, "no memory for %s: %.1f MiB asked: %s", what,
                       (double)size_bytes / (1 << 20), strerror(errno));
    }
    const uint64_t head = (HUGE_PAGE_BYTES - (uintptr_t)memory % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (head > 0) {
        (void)munmap(memory, head);
    }
    if (head < HUGE_PAGE_BYTES) {
        (void)munmap(memory + head + size, HUGE_PAGE_BYTES - head);
    }
    if (size_bytes >= HUGE_BLOCK_BYTES_MIN) {
        (void)madvise(memory + head, size, MADV_HUGEPAGE); // a hint
    }
    *out = memory + head;
    return PS_OK;
}

void ps_pages_unmap(void *memory, uint64_t size_bytes)
{
    if (memory != NULL) {
        (void)munmap(memory, ps_round_up(size_bytes, HUGE_PAGE_BYTES));
    }
}
