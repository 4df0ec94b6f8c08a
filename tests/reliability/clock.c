/*
 * A clock that can be stepped from outside, for LD_PRELOAD: the wall clock is the machine's plus the nanoseconds that
 * stand, as one 64-bit number, in the file that STEPPED_CLOCK names. The file is mapped, so a step is seen at once and
 * by all threads. Monotonic clocks are left alone: a step of the wall clock does not move them.
 *
 * libfaketime reads its file anew and keeps what it reads in variables that all threads share: a JVM ends in the midst
 * of that sooner or later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t BILLION = 1000000000;
static volatile int64_t none;
static volatile int64_t *offset_ns = &none;
static int (*machine)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STEPPED_CLOCK");
    machine = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_ns = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!machine)
        machine = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = machine(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * BILLION + now->tv_nsec + *offset_ns;
        now->tv_sec = ns / BILLION;
        now->tv_nsec = ns % BILLION;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
