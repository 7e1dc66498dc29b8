// bench/bench_reader.c - bandwidth of io/reader.h, by way, size and number of reads under way.
//
// Random aligned pieces of a file, none twice in a cell, into 256 MiB of memory in turn, so that
// they do not come to lie in caches. Buffered reads find no
// byte of it in the page cache. A cell is read for MS milliseconds in each of ROUNDS rounds, in
// turns with all others, because disks of virtual machines change their speed within minutes; the
// figure is the median. The ceiling is the best cell with O_DIRECT.
//
// usage: bench_reader [--json] [--folder FOLDER] [--size MIB] [--file FILE] [--ms MS]
//                     [--rounds ROUNDS]
// The file is made in FOLDER (the current one), without a name, and has MIB (1024); or it is FILE,
// which is there: a disk is not equally fast everywhere. MS is 40, ROUNDS 3.
#include "base/clock.h"
#include "base/pages.h"
#include "base/rng.h"
#include "io/reader.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 99
#define DEPTH_MAX 32u
#define PIECE_BYTES_MAX ((uint64_t)8 << 20)
#define MEMORY_BYTES (DEPTH_MAX * PIECE_BYTES_MAX)
#define BLOCK_BYTES ((size_t)1 << 20) // of writing

static const uint64_t SIZES[] = {64 << 10, 256 << 10, 1 << 20, 2 << 20, PIECE_BYTES_MAX};
static const uint32_t DEPTHS[] = {1, 2, 4, 8, 16, DEPTH_MAX};
#define SIZE_COUNT (sizeof SIZES / sizeof SIZES[0])
#define DEPTH_COUNT (sizeof DEPTHS / sizeof DEPTHS[0])
#define KINDS 4 // way x buffered
#define CELLS (KINDS * SIZE_COUNT * DEPTH_COUNT)

typedef struct cell {
    ps_read_way way;
    bool is_buffered;
    uint64_t size_bytes;
    uint32_t depth;
    double rates[ROUNDS_MAX]; // GB/s; sorted at the end
} cell;

typedef struct settings {
    const char *folder;
    const char *file; // NULL: one is made
    uint64_t file_bytes, ms, rounds;
    bool is_json;
} settings;

static int file = -1;
static char path[64]; // of the descriptor: the file itself has no name, so that none can be left
static void *memory;
static cell cells[CELLS];

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_reader: %s\n", what);
    exit(1);
}

static void check(ps_status status)
{
    if (status != PS_OK) {
        fail(ps_error_message());
    }
}

// ---- the file ----

static void use_file(settings *s)
{
    file = open(s->file, O_RDONLY | O_CLOEXEC);
    const off_t end = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    if (end < (off_t)PIECE_BYTES_MAX) {
        fprintf(stderr, "bench_reader: %s: a file of %u MiB at least would be right\n", s->file,
                (unsigned)(PIECE_BYTES_MAX >> 20));
        exit(2);
    }
    s->file_bytes = (uint64_t)end;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static void make_file(const settings *s)
{
    char name[4096];
    (void)snprintf(name, sizeof name, "%s/bench_reader.XXXXXX", s->folder);
    file = mkstemp(name);
    if (file < 0 || unlink(name) != 0) {
        perror(name);
        exit(1);
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    static uint64_t words[BLOCK_BYTES / sizeof(uint64_t)];
    ps_rng rng = ps_rng_seed(1);
    for (uint64_t at = 0; at < s->file_bytes; at += sizeof words) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            words[i] = ps_rng_next(&rng);
        }
        if (write(file, words, sizeof words) != (ssize_t)sizeof words) {
            perror(s->folder);
            exit(1);
        }
    }
    if (fsync(file) != 0) { // only clean pages leave the cache
        perror(s->folder);
        exit(1);
    }
}

// ---- a cell ----

typedef struct job {
    ps_reader *reader;
    uint64_t *offsets; // [pieces]
    uint32_t pieces;
    uint64_t end_ns;
    atomic_uint next, lanes; // lanes: reads that still go on
    ps_read reads[DEPTH_MAX];
    char *ends[DEPTH_MAX]; // of the memory of each, lane_bytes
    uint64_t lane_bytes;
} job;

static void submit_next(ps_read *read)
{
    job *j = read->context;
    const uint32_t next = atomic_fetch_add(&j->next, 1);
    if (next >= j->pieces || (next > 0 && ps_clock_ns() > j->end_ns)) {
        atomic_fetch_sub(&j->lanes, 1);
        return;
    }
    read->offset_bytes = j->offsets[next];
    read->memory += read->size_bytes; // caches do not hold what is read
    if (read->memory + read->size_bytes > j->ends[read - j->reads]) {
        read->memory = j->ends[read - j->reads] - j->lane_bytes;
    }
    ps_reader_submit(j->reader, read);
}

static void piece_done(ps_read *read)
{
    const job *j = read->context;
    check(ps_read_status(j->reader, read));
    submit_next(read);
}

static void shuffle_pieces(job *j, const settings *s, const cell *c, uint64_t seed)
{
    j->pieces = (uint32_t)(s->file_bytes / c->size_bytes);
    ps_assert(j->pieces > 0);
    j->offsets = calloc(j->pieces, sizeof *j->offsets);
    if (j->offsets == NULL) {
        fail("no memory");
    }
    ps_rng rng = ps_rng_seed(seed);
    for (uint32_t i = 0; i < j->pieces; i++) {
        const uint64_t other = ps_rng_next(&rng) % (i + 1);
        j->offsets[i] = j->offsets[other];
        j->offsets[other] = i * c->size_bytes;
    }
}

static double measure(const settings *s, const cell *c, uint64_t seed)
{
    static job j;
    j = (job){.lanes = c->depth};
    check(ps_reader_create(&(ps_reader_options){.way = c->way,
                                                .depth = c->depth,
                                                .is_buffered = c->is_buffered,
                                                .memory = memory,
                                                .memory_bytes = MEMORY_BYTES},
                           &j.reader));
    uint32_t number;
    check(ps_reader_open(j.reader, path, &number));
    ps_reader_info info;
    ps_reader_get_info(j.reader, &info);
    if (!c->is_buffered && info.direct_files == 0) {
        fail("the folder's file system takes no O_DIRECT; --folder names another");
    }
    shuffle_pieces(&j, s, c, seed);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    const uint64_t start_ns = ps_clock_ns();
    j.end_ns = start_ns + s->ms * 1000000;
    j.lane_bytes = MEMORY_BYTES / c->depth;
    for (uint32_t i = 0; i < c->depth; i++) {
        j.ends[i] = (char *)memory + (i + 1) * j.lane_bytes;
        j.reads[i] = (ps_read){.file = number,
                               .size_bytes = c->size_bytes,
                               .memory = (char *)memory + i * (MEMORY_BYTES / c->depth),
                               .done = piece_done,
                               .context = &j};
        submit_next(&j.reads[i]);
    }
    for (uint64_t count = ps_reader_done_count(j.reader); atomic_load(&j.lanes) > 0;
         count = ps_reader_done_count(j.reader)) {
        ps_reader_wait(j.reader, count);
    }
    const uint64_t ns = ps_clock_ns() - start_ns;
    ps_reader_get_info(j.reader, &info);
    ps_reader_destroy(j.reader);
    free(j.offsets);
    return (double)info.bytes / (double)ns;
}

// ---- all cells ----

static void list_cells(void)
{
    for (size_t i = 0; i < CELLS; i++) {
        const size_t kind = i / (SIZE_COUNT * DEPTH_COUNT);
        cells[i].way = kind % 2 == 0 ? PS_READ_URING : PS_READ_POOL;
        cells[i].is_buffered = kind / 2 != 0;
        cells[i].size_bytes = SIZES[i / DEPTH_COUNT % SIZE_COUNT];
        cells[i].depth = DEPTHS[i % DEPTH_COUNT];
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_all(const settings *s)
{
    for (uint64_t round = 0; round < s->rounds; round++) {
        for (size_t i = 0; i < CELLS; i++) {
            cells[i].rates[round] = measure(s, &cells[i], round * CELLS + i);
        }
    }
    for (size_t i = 0; i < CELLS; i++) {
        qsort(cells[i].rates, s->rounds, sizeof cells[i].rates[0], by_value);
    }
}

static double median(const settings *s, const cell *c)
{
    return c->rates[s->rounds / 2];
}

static const cell *best_direct(const settings *s)
{
    const cell *best = &cells[0];
    for (size_t i = 0; i < CELLS; i++) {
        if (!cells[i].is_buffered && median(s, &cells[i]) > median(s, best)) {
            best = &cells[i];
        }
    }
    return best;
}

static void print_table(const settings *s, const cell *best)
{
    for (size_t i = 0; i < CELLS; i++) {
        const cell *c = &cells[i];
        if (i % (SIZE_COUNT * DEPTH_COUNT) == 0) {
            printf("%s, %s: GB/s (share of the ceiling) by size and depth\n         ",
                   ps_read_way_name(c->way), c->is_buffered ? "buffered" : "O_DIRECT");
            for (size_t k = 0; k < DEPTH_COUNT; k++) {
                printf("%14u", DEPTHS[k]);
            }
            printf("\n");
        }
        if (i % DEPTH_COUNT == 0) {
            printf("%5lu KiB", (unsigned long)(c->size_bytes >> 10));
        }
        printf("  %5.2f (%.2f)", median(s, c), median(s, c) / median(s, best));
        printf("%s", i % DEPTH_COUNT == DEPTH_COUNT - 1 ? "\n" : "");
    }
    printf("ceiling: %.2f GB/s (%.2f to %.2f), %s, %lu KiB, depth %u\n", median(s, best),
           best->rates[0], best->rates[s->rounds - 1], ps_read_way_name(best->way),
           (unsigned long)(best->size_bytes >> 10), best->depth);
}

static void print_json(const settings *s, const cell *best)
{
    printf("{\"file_bytes\": %lu, \"rounds\": %lu, \"ceiling_gbs\": %.4f, \"cells\": [",
           (unsigned long)s->file_bytes, (unsigned long)s->rounds, median(s, best));
    for (size_t i = 0; i < CELLS; i++) {
        const cell *c = &cells[i];
        printf("%s\n  {\"way\": \"%s\", \"is_direct\": %s, \"size_bytes\": %lu, \"depth\": %u, "
               "\"gbs\": %.4f, \"gbs_min\": %.4f, \"gbs_max\": %.4f, \"of_ceiling\": %.4f}",
               i > 0 ? "," : "", ps_read_way_name(c->way), c->is_buffered ? "false" : "true",
               (unsigned long)c->size_bytes, c->depth, median(s, c), c->rates[0],
               c->rates[s->rounds - 1], median(s, c) / median(s, best));
    }
    printf("\n]}\n");
}

static uint64_t number_of(const char *text, uint64_t lowest, uint64_t highest)
{
    char *end = NULL;
    const uint64_t number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < lowest || number > highest) {
        fprintf(stderr, "bench_reader: '%s': %lu to %lu would be right\n", text,
                (unsigned long)lowest, (unsigned long)highest);
        exit(2);
    }
    return number;
}

static settings parse(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"json", no_argument, NULL, 'j'},
                                            {"folder", required_argument, NULL, 'f'},
                                            {"size", required_argument, NULL, 's'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"file", required_argument, NULL, 'F'},
                                            {NULL, 0, NULL, 0}};
    settings s = {.folder = ".", .file_bytes = (uint64_t)1 << 30, .ms = 40, .rounds = 3};
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case 'j':
            s.is_json = true;
            break;
        case 'f':
            s.folder = optarg;
            break;
        case 'F':
            s.file = optarg;
            break;
        case 's':
            s.file_bytes = number_of(optarg, PIECE_BYTES_MAX >> 20, 1 << 20) << 20;
            break;
        case 'm':
            s.ms = number_of(optarg, 1, 60000);
            break;
        case 'r':
            s.rounds = number_of(optarg, 1, ROUNDS_MAX);
            break;
        default:
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bench_reader: '%s': it takes options only\n", argv[optind]);
        exit(2);
    }
    return s;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    check(ps_pages_map(MEMORY_BYTES, "reads", &memory));
    memset(memory, 1, MEMORY_BYTES); // pages come before the clock starts
    if (s.file != NULL) {
        use_file(&s);
    } else {
        make_file(&s);
    }
    list_cells();
    measure_all(&s);
    const cell *best = best_direct(&s);
    if (s.is_json) {
        print_json(&s, best);
    } else {
        print_table(&s, best);
    }
    ps_pages_unmap(memory, MEMORY_BYTES);
    return 0;
}
