/* Holds memory or disk where it may not be looked for, then says "ready" and waits to be ended.
 *
 *     hide HOW BYTES [DIRECTORY]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t bytes;
static const char *directory;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int file(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/deleted", directory);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0) fail(path);
    unlink(path);
    return fd;
}

static int memory_file(void) {
    int fd = memfd_create("hidden", 0);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0) fail("memfd");
    return fd;
}

static void *map(int fd, int flags) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

static void *stay(void *nothing) {
    ready();
    for (;;) pause();
    return nothing;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *how = words[1];
    bytes = strtoul(words[2], NULL, 10);
    directory = count > 3 ? words[3] : ".";
    if (!strcmp(how, "private")) memset(map(-1, MAP_PRIVATE | MAP_ANONYMOUS), 1, bytes);
    else if (!strcmp(how, "shared")) {
        memset(map(-1, MAP_SHARED | MAP_ANONYMOUS), 1, bytes);
        /* Counts once. */
        if (fork() == 0) for (;;) pause();
    } else if (!strcmp(how, "memfd")) memory_file();
    else if (!strcmp(how, "memfd-mapped")) memset(map(memory_file(), MAP_SHARED), 1, bytes);
    else if (!strcmp(how, "memfd-closed")) {
        int fd = memory_file();
        memset(map(fd, MAP_SHARED), 1, bytes);
        close(fd);
    } else if (!strcmp(how, "memfd-inherited")) {
        memory_file();
        if (fork() == 0) for (;;) pause();
    } else if (!strcmp(how, "deleted")) file();
    else if (!strcmp(how, "deleted-mapped")) {
        int fd = file();
        map(fd, MAP_SHARED);
        close(fd);
    } else if (!strcmp(how, "headless")) {
        /* The first thread ends: the process looks dead. */
        memset(map(-1, MAP_PRIVATE | MAP_ANONYMOUS), 1, bytes);
        pthread_t thread;
        if (pthread_create(&thread, NULL, stay, NULL)) fail("thread");
        syscall(SYS_exit, 0);
    } else return 2;
    ready();
    for (;;) pause();
}
