// ctest-labels: fault
// ctest-links: -Wl,--wrap=io_uring_queue_init,--wrap=io_uring_submit
// ctest-links: -Wl,--wrap=io_uring_register_buffers
// ctest-links: -Wl,--wrap=io_uring_register_files_sparse,--wrap=io_uring_register_files_update
// ctest-links: -Wl,--wrap=fcntl,--wrap=pread,--wrap=eventfd,--wrap=pthread_create
// ctest-links: -Wl,--wrap=calloc,--wrap=strdup
// Goal: what the system refuses, a reader does without: io_uring, registered memory and files,
// O_DIRECT; and what it cannot do without ends it with a line and without a leak. Method: the
// linker sends those calls here; file systems that really refuse O_DIRECT are read too. Leaks show
// under the address sanitizer, lost descriptors as a higher number of the next one.
#include "io/reader_test.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

static int queue_error, submit_error, buffers_error, files_error, update_error, direct_error;
static bool refuses_direct_reads;
static atomic_int calls_left = -1; // of those that may fail, until one does; negative: none does

static bool fails(void)
{
    return atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0;
}

// The names are the linker's convention.
int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __real_io_uring_submit(struct io_uring *ring);
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers,
                                     unsigned count);
int __real_io_uring_register_files_sparse(struct io_uring *ring, unsigned count);
int __real_io_uring_register_files_update(struct io_uring *ring, unsigned offset, int *files,
                                          unsigned count);
int __real_fcntl(int descriptor, int command, ...);
ssize_t __real_pread(int descriptor, void *bytes, size_t size, off_t offset);
int __real_eventfd(unsigned count, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
void *__real_calloc(size_t count, size_t size);
char *__real_strdup(const char *text);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers,
                                     unsigned count);
int __wrap_io_uring_register_files_sparse(struct io_uring *ring, unsigned count);
int __wrap_io_uring_register_files_update(struct io_uring *ring, unsigned offset, int *files,
                                          unsigned count);
int __wrap_fcntl(int descriptor, int command, int argument);
ssize_t __wrap_pread(int descriptor, void *bytes, size_t size, off_t offset);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
void *__wrap_calloc(size_t count, size_t size);
char *__wrap_strdup(const char *text);

int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    return queue_error != 0 ? queue_error : __real_io_uring_queue_init(entries, ring, flags);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return submit_error != 0 ? submit_error : __real_io_uring_submit(ring);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers,
                                     unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(buffers[i].iov_len > 0 && buffers[i].iov_len <= (size_t)1 << 30);
    }
    return buffers_error != 0 ? buffers_error
                              : __real_io_uring_register_buffers(ring, buffers, count);
}

int __wrap_io_uring_register_files_sparse(struct io_uring *ring, unsigned count)
{
    return files_error != 0 ? files_error : __real_io_uring_register_files_sparse(ring, count);
}

int __wrap_io_uring_register_files_update(struct io_uring *ring, unsigned offset, int *files,
                                          unsigned count)
{
    return update_error != 0 ? update_error
                             : __real_io_uring_register_files_update(ring, offset, files, count);
}

int __wrap_fcntl(int descriptor, int command, int argument)
{
    if (command == F_SETFL && (argument & O_DIRECT) != 0 && direct_error != 0) {
        errno = direct_error;
        return -1;
    }
    return __real_fcntl(descriptor, command, argument);
}

ssize_t __wrap_pread(int descriptor, void *bytes, size_t size, off_t offset)
{
    if (refuses_direct_reads && (__real_fcntl(descriptor, F_GETFL) & O_DIRECT) != 0) {
        errno = EINVAL;
        return -1;
    }
    return __real_pread(descriptor, bytes, size, offset);
}

int __wrap_eventfd(unsigned count, int flags)
{
    if (fails()) {
        errno = EMFILE;
        return -1;
    }
    return __real_eventfd(count, flags);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

// Reads pieces of a file, half of them into memory that is registered, and one across its end, and
// gives what was in use.
static ps_reader_info read_some(ps_read_way way, const made_file *file)
{
    enum { COUNT = 24, SLOT_BYTES = 8192, REGISTERED_BYTES = COUNT / 2 * SLOT_BYTES - 4096 };
    static _Alignas(PS_READ_ALIGN_BYTES) char region[COUNT * SLOT_BYTES];
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = way, .depth = 4, .memory = region, .memory_bytes = REGISTERED_BYTES});
    const uint32_t number = open_file(reader, file->path);
    static piece pieces[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const uint64_t offset = (uint64_t)i * 777 % (file->size_bytes - 4000);
        pieces[i] = (piece){.read = {.file = number,
                                     .offset_bytes = offset,
                                     .size_bytes = 4000,
                                     .memory = region + (ptrdiff_t)i * SLOT_BYTES,
                                     .done = piece_done,
                                     .context = &pieces[i]}};
        ps_reader_submit(reader, &pieces[i].read);
    }
    wait_for(reader, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_right(file, &pieces[i].read);
    }
    const ps_reader_info info = info_of(reader);
    ps_reader_destroy(reader);
    return info;
}

static void expect_pool(int *where, int error)
{
    made_file file = make_file(NULL, 100000);
    *where = -error;
    assert_int_equal(PS_READ_POOL, read_some(PS_READ_AUTO, &file).way);
    ps_reader *reader = NULL;
    assert_int_equal(PS_UNSUPPORTED,
                     ps_reader_create(&(ps_reader_options){.way = PS_READ_URING}, &reader));
    assert_null(reader);
    assert_non_null(strstr(ps_error_message(), "io_uring"));
    assert_non_null(strstr(ps_error_message(), strerror(error)));
    *where = 0;
    remove_file(&file);
}

static void test_no_uring(void **state)
{
    (void)state;
    expect_pool(&queue_error, EPERM);
    expect_pool(&queue_error, ENOSYS);
}

static void test_uring_does_not_read(void **state)
{
    (void)way_of(state);
    expect_pool(&submit_error, EOPNOTSUPP);
}

static void test_nothing_registered(void **state)
{
    (void)way_of(state);
    made_file file = make_file(NULL, 100000);
    assert_true(read_some(PS_READ_URING, &file).is_memory_registered);
    buffers_error = -ENOMEM;
    assert_false(read_some(PS_READ_URING, &file).is_memory_registered);
    files_error = -EMFILE;
    assert_false(read_some(PS_READ_URING, &file).is_memory_registered);
    buffers_error = 0;
    assert_true(read_some(PS_READ_URING, &file).is_memory_registered);
    files_error = 0;
    update_error = -ENOMEM;
    assert_true(read_some(PS_READ_URING, &file).is_memory_registered);
    update_error = 0;
    assert_false(read_some(PS_READ_POOL, &file).is_memory_registered);
    remove_file(&file);
}

// The kernel takes 1 GiB a buffer. The region is one block of memory, seen again and again.
static void test_large_memory(void **state)
{
    (void)way_of(state);
    const uint64_t block_bytes = (uint64_t)2 << 20;
    const uint64_t gib = (uint64_t)1 << 30;
    made_file file = make_file(NULL, 100000);
    const int block = memfd_create("block", MFD_CLOEXEC);
    assert_true(block >= 0);
    assert_int_equal(0, ftruncate(block, (off_t)block_bytes));
    char *region = mmap(NULL, gib + block_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(region != MAP_FAILED);
    for (uint64_t at = 0; at < gib + block_bytes; at += block_bytes) {
        assert_true(mmap(region + at, block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                         block, 0) != MAP_FAILED);
    }
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = PS_READ_URING, .memory = region, .memory_bytes = gib + block_bytes});
    const uint32_t number = open_file(reader, file.path);
    // Before the end of the first buffer, across it, and behind it.
    static const int64_t FROM_GIB[] = {-65536, -8192, 16384};
    piece pieces[3] = {0};
    for (int i = 0; i < 3; i++) {
        pieces[i].read = (ps_read){.file = number,
                                   .offset_bytes = 30000 * (uint64_t)i + 5,
                                   .size_bytes = 16000,
                                   .memory = region + gib + FROM_GIB[i],
                                   .done = piece_done,
                                   .context = &pieces[i]};
        ps_reader_submit(reader, &pieces[i].read);
    }
    wait_for(reader, 3);
    for (int i = 0; i < 3; i++) {
        assert_right(&file, &pieces[i].read);
    }
    if (!info_of(reader).is_memory_registered) {
        print_message("skipped: this user may not register 1 GiB\n");
    }
    ps_reader_destroy(reader);
    assert_int_equal(0, munmap(region, gib + block_bytes));
    assert_int_equal(0, close(block));
    remove_file(&file);
}

static void test_no_direct(void **state)
{
    const ps_read_way way = way_of(state);
    made_file file = make_file(NULL, 100000);
    direct_error = EINVAL;
    assert_int_equal(0, read_some(way, &file).direct_files);
    direct_error = 0;
    refuses_direct_reads = true;
    assert_int_equal(0, read_some(way, &file).direct_files);
    refuses_direct_reads = false;
    remove_file(&file);
}

// tmpfs has refused O_DIRECT until Linux 6.6, files of sysfs refuse it always.
static void test_file_systems(void **state)
{
    const ps_read_way way = way_of(state);
    if (access("/dev/shm", W_OK) == 0) {
        made_file file = make_file("/dev/shm", 50000);
        const int direct = open(file.path, O_RDONLY | O_DIRECT);
        assert_int_equal(direct >= 0, read_some(way, &file).direct_files);
        if (direct >= 0) {
            assert_int_equal(0, close(direct));
        }
        remove_file(&file);
    }
    made_file file = {.path = "/sys/kernel/btf/vmlinux", .size_bytes = 50000};
    file.descriptor = open(file.path, O_RDONLY);
    if (file.descriptor < 0) {
        print_message("skipped: no %s\n", file.path);
        return;
    }
    assert_int_equal(0, read_some(way, &file).direct_files);
    assert_int_equal(0, close(file.descriptor));
}

// The number that the next descriptor gets: higher than before when one was lost.
static int next_descriptor(void)
{
    const int descriptor = dup(0);
    assert_true(descriptor >= 0);
    assert_int_equal(0, close(descriptor));
    return descriptor;
}

static ps_status create_and_open(ps_read_way way, const char *path)
{
    static _Alignas(PS_READ_ALIGN_BYTES) char memory[PS_READ_ALIGN_BYTES];
    const ps_reader_options options = {
        .way = way, .depth = 3, .memory = memory, .memory_bytes = sizeof memory};
    ps_reader *reader = NULL;
    PS_TRY(ps_reader_create(&options, &reader));
    uint32_t number;
    const ps_status status = ps_reader_open(reader, path, &number);
    ps_reader_destroy(reader);
    return status;
}

static void test_failures(void **state)
{
    const ps_read_way way = way_of(state);
    made_file file = make_file(NULL, 5000);
    const int before = next_descriptor();
    int n = 0;
    ps_status status = PS_NO_MEMORY;
    for (; status != PS_OK; n++) {
        atomic_store(&calls_left, n);
        status = create_and_open(way, file.path);
        atomic_store(&calls_left, -1);
        assert_true(status == PS_OK || status == PS_NO_MEMORY || status == PS_IO);
        assert_int_equal(before, next_descriptor());
    }
    // The reader, its state, its threads, a file's name, and for io_uring an eventfd and a list.
    assert_int_equal(7, n);
    remove_file(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_uring),
        cmocka_unit_test_prestate(test_uring_does_not_read, &(ps_read_way){PS_READ_URING}),
        cmocka_unit_test_prestate(test_nothing_registered, &(ps_read_way){PS_READ_URING}),
        cmocka_unit_test_prestate(test_large_memory, &(ps_read_way){PS_READ_URING}),
        BOTH_WAYS(test_no_direct),
        BOTH_WAYS(test_file_systems),
        BOTH_WAYS(test_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
