#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define PASSES 2000
#define WAKES 200
static const int spans[4] = {1, 3, 7, 20};
static int echoed, early, passes, timers, wakes;
static double begun, passes_us, wakes_us;
static sem_t asked;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static void echo(void) { char bytes[64]; ssize_t n = read(40, bytes, sizeof bytes); if (n > 0 && write(40, bytes, n) == n) echoed += n; }
static void ready(void) { char line[8]; fcntl(40, F_SETFL, O_NONBLOCK); printf("ready\n"); fflush(stdout); if (!fgets(line, sizeof line, stdin)) exit(1); sem_init(&asked, 0, 0); alarm(100); begun = now(); }
static void done(void) { printf("done %d %.0f %.0f\n", early, passes_us, wakes_us); fflush(stdout); }
static void judge_timer(void) { early += now() - begun < spans[timers] * 1e3 - 1100; timers++; begun = now(); }
