// Waits of all kinds: without time, with little, with much, ended by other threads, by signals, by cancellation.
#include "common.h"
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
static int loop, bell, quiet; static pthread_t mine; static pid_t mine_tid; static volatile int signals, turn;
static int wait_ms(int ms) { struct epoll_event e[4]; int n = epoll_wait(loop, e, 4, ms), woken = 0; for (int i = 0; i < n; i++) { if (e[i].data.fd == 40) echo(); else { eventfd_t v; eventfd_read(bell, &v); woken = 1; } } return woken; }
static void *other(void *none) { for (int i = 0; i < WAKES; i++) { eventfd_write(bell, 1); sem_wait(&asked); } return none; }
static void on_signal(int n) { (void)n; signals++; }
// Whether a thread is surely in its wait: it sleeps in one, or has used so much CPU time since it began that it can be nowhere else.
static int is_in_wait(pthread_t thread, pid_t tid, double from_us, double use_us) {
  clockid_t clock; struct timespec t; char path[64], line[64] = ""; long number = -1;
  pthread_getcpuclockid(thread, &clock); clock_gettime(clock, &t);
  if (t.tv_sec * 1e6 + t.tv_nsec / 1e3 - from_us > use_us) return 1;
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid); FILE *f = fopen(path, "r"); if (f) { if (fgets(line, sizeof line, f)) sscanf(line, "%ld", &number); fclose(f); }
#ifdef SYS_epoll_wait
  if (number == SYS_epoll_wait) return 1;
#endif
  return number == SYS_epoll_pwait || number == 441;
}
static double cpu_us(pthread_t thread) { clockid_t clock; struct timespec t; pthread_getcpuclockid(thread, &clock); clock_gettime(clock, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static double from;
static void *killer(void *none) {
  for (int i = 1; i <= WAKES; i++) {
    while (turn != i) usleep(50);
    while (!is_in_wait(mine, mine_tid, from, 500 + 37 * (i % 70))) usleep(20);
    pthread_kill(mine, SIGUSR1);
  }
  return none;
}
static pid_t waiter_tid;
static void *waiter(void *none) { struct epoll_event e; waiter_tid = syscall(SYS_gettid); epoll_wait(quiet, &e, 1, -1); return none; }
int main(void) {
  loop = epoll_create1(0); quiet = epoll_create1(0); bell = eventfd(0, EFD_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = 40}; epoll_ctl(loop, EPOLL_CTL_ADD, 40, &e); e.data.fd = bell; epoll_ctl(loop, EPOLL_CTL_ADD, bell, &e);
  e.events = EPOLLPRI; e.data.fd = 40; epoll_ctl(quiet, EPOLL_CTL_ADD, 40, &e);
  ready();
  for (int i = 0; i < PASSES; i++) wait_ms(0);
  passes_us = now() - begun;
  for (timers = 0; timers < 4;) { begun = now(); double left; while ((left = spans[timers] * 1e3 - (now() - begun)) > 0) wait_ms(left / 1e3 + 1); early += now() - begun < spans[timers] * 1e3; timers++; }
  for (int i = 0; i < 20; i++) { struct timespec t = {0, 300000}; struct epoll_event none; begun = now(); int n = epoll_pwait2(quiet, &none, 1, &t, 0); early += n == 0 && now() - begun < 300; }
  // Errors are Linux's.
  struct timespec wrong = {0, 2000000000}; struct epoll_event none;
  if (epoll_pwait2(loop, &none, 1, &wrong, 0) != -1 || errno != EINVAL || epoll_wait(bell, &none, 1, 10) != -1 || errno != EINVAL || epoll_wait(-1, &none, 1, -1) != -1 || errno != EBADF || epoll_wait(loop, &none, 0, 0) != -1 || errno != EINVAL) early += 1000;
  pthread_t thread; begun = now(); pthread_create(&thread, 0, other, 0);
  while (wakes < WAKES) if (wait_ms(-1)) { wakes++; sem_post(&asked); }
  wakes_us = now() - begun; pthread_join(thread, 0);
  // Each signal ends the wait that it meets, whichever part of it, and none is left blocked.
  struct sigaction act = {.sa_handler = on_signal}; sigaction(SIGUSR1, &act, 0); mine = pthread_self(); mine_tid = syscall(SYS_gettid); pthread_create(&thread, 0, killer, 0);
  int lost = 0;
  for (int i = 1; i <= WAKES; i++) { from = cpu_us(mine); turn = i; int n = epoll_wait(quiet, &none, 1, 20000); lost += n != -1 || errno != EINTR || signals != i; }
  pthread_join(thread, 0);
  // The same where the program gives a mask: what it has blocked comes in the wait alone.
  sigset_t blocked, open; sigemptyset(&blocked); sigaddset(&blocked, SIGUSR1); pthread_sigmask(SIG_BLOCK, &blocked, &open);
  for (int i = 0; i < 20; i++) { pthread_kill(mine, SIGUSR1); int n = epoll_pwait(quiet, &none, 1, 20000, &open); lost += n != -1 || errno != EINTR; }
  pthread_sigmask(SIG_SETMASK, 0, &blocked); lost += sigismember(&blocked, SIGUSR1) != 1 || sigismember(&blocked, SIGUSR2) != 0;
  for (int i = 0; i < 3; i++) {
    void *how = 0; waiter_tid = 0; pthread_create(&thread, 0, waiter, 0); while (!waiter_tid) usleep(100);
    double began = cpu_us(thread); while (!is_in_wait(thread, waiter_tid, began, 2500)) usleep(100);
    pthread_cancel(thread); pthread_join(thread, &how); lost += how != PTHREAD_CANCELED;
  }
  while (echoed < 3) wait_ms(10);
  early += lost * 100000; done(); return getchar() == EOF ? 0 : 1;
}
