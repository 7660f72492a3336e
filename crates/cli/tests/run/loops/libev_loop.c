#include "common.h"
#include <ev.h>
static struct ev_loop *loop; static ev_timer timer; static ev_async async; static ev_idle idle; static ev_io peer; static pthread_t thread;
static void *other(void *none) { for (int i = 0; i < WAKES; i++) { ev_async_send(loop, &async); sem_wait(&asked); } return none; }
static void after(int ms) { ev_now_update(loop); ev_timer_stop(loop, &timer); ev_timer_set(&timer, ms / 1e3, 0); ev_timer_start(loop, &timer); }
static void on_timer(struct ev_loop *l, ev_timer *t, int what) {
  (void)l; (void)t; (void)what;
  if (timers == 4) { if (echoed >= 3) ev_break(loop, EVBREAK_ALL); else after(10); return; }
  judge_timer();
  if (timers < 4) { after(spans[timers]); return; }
  begun = now();
  pthread_create(&thread, 0, other, 0);
}
static void on_wake(struct ev_loop *l, ev_async *a, int what) { (void)l; (void)a; (void)what; sem_post(&asked); if (++wakes == WAKES) { wakes_us = now() - begun; pthread_join(thread, 0); after(0); } }
static void on_idle(struct ev_loop *l, ev_idle *i, int what) { (void)what; if (++passes < PASSES) return; passes_us = now() - begun; ev_idle_stop(l, i); begun = now(); after(spans[0]); }
static void on_peer(struct ev_loop *l, ev_io *w, int what) { (void)l; (void)w; (void)what; echo(); }
int main(void) {
  loop = ev_loop_new(EVBACKEND_EPOLL); ev_init(&timer, on_timer); ev_async_init(&async, on_wake); ev_async_start(loop, &async);
  ev_io_init(&peer, on_peer, 40, EV_READ); ev_io_start(loop, &peer); ev_run(loop, EVRUN_NOWAIT);
  ready(); ev_idle_init(&idle, on_idle); ev_idle_start(loop, &idle); ev_run(loop, 0); done(); return getchar() == EOF ? 0 : 1;
}
