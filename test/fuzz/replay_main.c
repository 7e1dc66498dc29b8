// Replays a committed corpus without libFuzzer: replay_<name> FOLDER.
//
// Each input ends at a page that cannot be read, so that reading past it crashes in every build and
// not only under a sanitizer. A folder without files is an error: the replay would prove nothing.
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what, const char *path)
{
    (void)fprintf(stderr, "replay: cannot %s %s\n", what, path);
    return -1;
}

static size_t round_to_pages(size_t size_bytes)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static int replay_descriptor(int descriptor, size_t size_bytes, const char *path)
{
    const size_t readable_bytes = round_to_pages(size_bytes);
    const size_t total_bytes = readable_bytes + round_to_pages(1);
    uint8_t *pages = mmap(NULL, total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
    if (pages == MAP_FAILED) {
        return fail("map memory for", path);
    }
    uint8_t *input = pages + readable_bytes - size_bytes;
    int result = 0;
    if (read(descriptor, input, size_bytes) != (ssize_t)size_bytes ||
        mprotect(pages + readable_bytes, total_bytes - readable_bytes, PROT_NONE) != 0) {
        result = fail("read", path);
    } else {
        result = LLVMFuzzerTestOneInput(input, size_bytes);
    }
    (void)munmap(pages, total_bytes);
    return result;
}

// 1: replayed, 0: no regular file, -1: failed.
static int replay_file(int folder, const char *name)
{
    const int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    if (descriptor < 0 || fstat(descriptor, &stat) != 0) {
        return fail("open", name);
    }
    int result = 0;
    if (S_ISREG(stat.st_mode)) {
        (void)fprintf(stderr, "%s\n", name); // the last name printed is the one that crashed
        result = replay_descriptor(descriptor, (size_t)stat.st_size, name) == 0 ? 1 : -1;
    }
    (void)close(descriptor);
    return result;
}

int main(int argument_count, char **arguments)
{
    DIR *folder = argument_count == 2 ? opendir(arguments[1]) : NULL;
    if (folder == NULL) {
        (void)fail("open the folder",
                   argument_count == 2 ? arguments[1] : "(one argument is wanted)");
        return 1;
    }
    int count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const int result = replay_file(dirfd(folder), entry->d_name);
        if (result < 0) {
            return 1;
        }
        count += result;
    }
    (void)closedir(folder);
    (void)printf("replayed %d inputs\n", count);
    return count > 0 ? 0 : 1;
}
