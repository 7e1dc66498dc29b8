// experts/tier_disk.c - files, by a reader.
#include "base/pages.h"
#include "experts/tier.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct disk {
    ps_tier tier;
    ps_expert_files files;
    ps_reader *reader; // NULL: not open
    char way[32];
} disk;

static void describe(disk *d)
{
    ps_reader_info info;
    ps_reader_get_info(d->reader, &info);
    const char *direct = info.direct_files == info.files ? "direct"
                         : info.direct_files == 0        ? "buffered"
                                                         : "some files direct";
    (void)snprintf(d->way, sizeof d->way, "%s, %s", ps_read_way_name(info.way), direct);
}

static ps_status disk_open(ps_tier *tier, uint64_t memory_bytes)
{
    disk *d = (disk *)tier;
    void *memory;
    PS_TRY(ps_pages_map(memory_bytes, "experts", &memory));
    tier->memory = memory;
    tier->memory_bytes = memory_bytes;
    d->files.reader.memory = memory;
    d->files.reader.memory_bytes = memory_bytes;
    PS_TRY(ps_reader_create(&d->files.reader, &d->reader));
    for (uint32_t i = 0; i < d->files.path_count; i++) {
        uint32_t file;
        PS_TRY(ps_reader_open(d->reader, d->files.paths[i], &file));
        ps_assert(file == i);
    }
    describe(d);
    return PS_OK;
}

static void disk_submit(ps_tier *tier, ps_read *read)
{
    ps_reader_submit(((disk *)tier)->reader, read);
}

static void disk_promote(ps_tier *tier, ps_read *read)
{
    (void)ps_reader_promote(((disk *)tier)->reader, read);
}

static uint64_t disk_done_count(const ps_tier *tier)
{
    return ps_reader_done_count(((const disk *)tier)->reader);
}

static void disk_wait(ps_tier *tier, uint64_t count)
{
    ps_reader_wait(((disk *)tier)->reader, count);
}

static ps_status disk_read_status(const ps_tier *tier, const ps_read *read)
{
    return ps_read_status(((const disk *)tier)->reader, read);
}

static void disk_get_info(ps_tier *tier, ps_tier_info *out)
{
    const disk *d = (const disk *)tier;
    ps_reader_info info;
    ps_reader_get_info(d->reader, &info);
    *out = (ps_tier_info){
        .name = "disk", .way = d->way, .bytes = info.bytes, .busy_ns = info.busy_ns};
}

static void disk_destroy(ps_tier *tier)
{
    ps_reader_destroy(((disk *)tier)->reader); // nothing is written to its memory any more
    ps_pages_unmap(tier->memory, tier->memory_bytes);
    free(tier);
}

static const ps_tier_functions DISK = {.open = disk_open,
                                       .submit = disk_submit,
                                       .promote = disk_promote,
                                       .done_count = disk_done_count,
                                       .wait = disk_wait,
                                       .read_status = disk_read_status,
                                       .get_info = disk_get_info,
                                       .destroy = disk_destroy};

ps_status ps_tier_disk_create(const ps_expert_files *files, ps_tier **out)
{
    disk *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a tier of experts");
    }
    d->tier.is = &DISK;
    d->files = *files;
    *out = &d->tier;
    return PS_OK;
}
