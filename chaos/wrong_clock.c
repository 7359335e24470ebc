/* A wrong clock, loaded into a program by LD_PRELOAD: the time of day is off by as many seconds as the file says that
   CHAOS_CLOCK names. Clocks that only measure how long something takes stay right, as on a host whose time is set. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile int64_t *wrong_by;
static int (*true_time)(clockid_t, struct timespec *);

__attribute__((constructor)) static void load(void)
{
    int file = open(getenv("CHAOS_CLOCK"), O_RDONLY);
    wrong_by = mmap(NULL, sizeof *wrong_by, PROT_READ, MAP_SHARED, file, 0);
    true_time = dlsym(RTLD_NEXT, "clock_gettime");
    if (wrong_by == MAP_FAILED || true_time == NULL)
        abort();
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (true_time == NULL)
        load();
    int failed = true_time(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *wrong_by;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    if (now != NULL)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
