/* Moves the wall clock of one process: CLOCK_REALTIME is shifted by the milliseconds in a small file that the test changes while
 * the process runs. $HANNO_TEST_CLOCKS is a directory; the file is named after the daemon's configuration file (namenode-1) or,
 * for other commands, "client". Monotonic clocks stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static const volatile long long *shift_ms;

__attribute__((constructor)) static void open_clock(int argc, char **argv) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *directory = getenv("HANNO_TEST_CLOCKS");
    if (!directory) return;
    char name[64] = "client";
    if (argc > 3 && !strcmp(argv[2], "--config")) {
        const char *base = strrchr(argv[3], '/');
        snprintf(name, sizeof name, "%s", base ? base + 1 : argv[3]);
        char *dot = strrchr(name, '.');
        if (dot) *dot = 0;
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *map = mmap(0, sizeof *shift_ms, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) shift_ms = map;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_clock_gettime)
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && shift_ms) {
        long long ms = *shift_ms;
        time->tv_sec += ms / 1000;
        time->tv_nsec += ms % 1000 * 1000000;
        if (time->tv_nsec >= 1000000000) { time->tv_sec += 1; time->tv_nsec -= 1000000000; }
        if (time->tv_nsec < 0) { time->tv_sec -= 1; time->tv_nsec += 1000000000; }
    }
    return result;
}
