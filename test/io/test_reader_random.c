// ctest-labels: prop
// Goal: whatever is asked for in whatever order, each read is answered once, with the right bytes,
// or was withdrawn. Method: 10,000 random pieces a setting from a printed seed, with promotions and
// withdrawals, random short answers in half of the settings; the oracle is pread.
#include "io/reader_test.h"

#define PIECES 10000
#define SLOTS 48
#define PIECE_BYTES_MAX 40000
#define SLOT_BYTES ((uint64_t)49152) // PIECE_BYTES_MAX, widened
#define FILES 3

static int64_t cut_filter(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer)
{
    // From the offset, so that threads share nothing; one answer in four is cut.
    ps_gen gen = {.state = offset_bytes + file + *(const uint64_t *)context};
    if (answer < 2 * PS_READ_ALIGN_BYTES || ps_gen_range(&gen, 0, 3) != 0) {
        return answer;
    }
    return ps_gen_range(&gen, PS_READ_ALIGN_BYTES, answer);
}

typedef struct slot {
    piece piece;
    bool is_used;
} slot;

// Waits until a slot's read is done and judges it.
static void settle(ps_reader *reader, const made_file *files, slot *s)
{
    for (uint64_t count = ps_reader_done_count(reader); atomic_load(&s->piece.calls) == 0;
         count = ps_reader_done_count(reader)) {
        ps_reader_wait(reader, count);
    }
    assert_int_equal(1, s->piece.calls);
    assert_right(&files[s->piece.read.file], &s->piece.read);
    s->is_used = false;
}

static void random_pieces(ps_gen *gen, const ps_reader_options *options, made_file *files)
{
    ps_reader *reader = make_reader(options);
    for (uint32_t i = 0; i < FILES; i++) {
        assert_int_equal(i, open_file(reader, files[i].path));
    }
    static slot slots[SLOTS];
    memset(slots, 0, sizeof slots);
    uint64_t withdrawn = 0;
    for (int i = 0; i < PIECES; i++) {
        const int at = (int)ps_gen_range(gen, 0, SLOTS - 1);
        slot *s = &slots[at];
        if (s->is_used && s->piece.read.is_speculative && ps_gen_range(gen, 0, 1) == 0) {
            if (ps_gen_range(gen, 0, 1) == 0) {
                (void)ps_reader_promote(reader, &s->piece.read);
            } else if (ps_reader_withdraw(reader, &s->piece.read)) {
                assert_int_equal(0, s->piece.calls);
                s->is_used = false;
                withdrawn++;
            }
        }
        if (s->is_used) {
            settle(reader, files, s);
        }
        const uint32_t file = (uint32_t)ps_gen_range(gen, 0, FILES - 1);
        const int64_t longest = ps_gen_range(gen, 0, 3) == 0 ? PIECE_BYTES_MAX : 5000;
        const int64_t size = ps_gen_range(gen, 1, longest);
        s->piece = (piece){.read = {.file = file,
                                    .offset_bytes = (uint64_t)ps_gen_range(
                                        gen, 0, (int64_t)files[file].size_bytes - size),
                                    .size_bytes = (uint64_t)size,
                                    .memory = (char *)options->memory + (uint64_t)at * SLOT_BYTES,
                                    .is_speculative = ps_gen_range(gen, 0, 2) == 0,
                                    .done = piece_done,
                                    .context = &s->piece}};
        s->is_used = true;
        ps_reader_submit(reader, &s->piece.read);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].is_used) {
            settle(reader, files, &slots[i]);
        }
    }
    const ps_reader_info info = info_of(reader);
    assert_int_equal(PIECES, info.reads + withdrawn);
    assert_int_equal(0, info.failed_reads);
    assert_int_equal(options->filter != NULL, info.short_reads > 0);
    assert_true(info.under_way_max <= info.depth);
    assert_true(info.busy_ns > 0);
    ps_reader_destroy(reader);
}

static void test_random_pieces(void **state)
{
    const ps_read_way way = way_of(state);
    ps_gen gen = ps_gen_start();
    static const uint64_t SIZES[FILES] = {PIECE_BYTES_MAX, 2000000, 4096 * 100};
    made_file files[FILES];
    for (int i = 0; i < FILES; i++) {
        files[i] = make_file(NULL, SIZES[i]);
    }
    void *memory = aligned_alloc(PS_READ_ALIGN_BYTES, SLOTS * SLOT_BYTES);
    assert_non_null(memory);
    uint64_t seed = gen.state;
    for (int setting = 0; setting < 4; setting++) {
        const ps_reader_options options = {.way = way,
                                           .depth = (uint32_t)ps_gen_range(&gen, 1, 20),
                                           .is_buffered = setting % 2 != 0,
                                           .memory = memory,
                                           .memory_bytes = SLOTS / 2 * SLOT_BYTES,
                                           .filter = setting >= 2 ? cut_filter : NULL,
                                           .filter_context = &seed};
        random_pieces(&gen, &options, files);
    }
    free(memory);
    for (int i = 0; i < FILES; i++) {
        remove_file(&files[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {BOTH_WAYS(test_random_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
