#include "common.h"
#include <uv.h>
static uv_loop_t loop; static uv_idle_t idle; static uv_timer_t timer; static uv_async_t async; static uv_poll_t peer; static pthread_t thread;
static void *other(void *none) { for (int i = 0; i < WAKES; i++) { uv_async_send(&async); sem_wait(&asked); } return none; }
static void on_last(uv_timer_t *t) { if (echoed >= 3) uv_stop(&loop); else uv_timer_start(t, on_last, 10, 0); }
static void on_wake(uv_async_t *a) { (void)a; sem_post(&asked); if (++wakes == WAKES) { wakes_us = now() - begun; pthread_join(thread, 0); uv_timer_start(&timer, on_last, 0, 0); } }
static void on_timer(uv_timer_t *t) {
  judge_timer();
  if (timers < 4) { uv_update_time(&loop); uv_timer_start(t, on_timer, spans[timers], 0); return; }
  begun = now();
  pthread_create(&thread, 0, other, 0);
}
static void on_idle(uv_idle_t *i) { if (++passes < PASSES) return; passes_us = now() - begun; uv_idle_stop(i); begun = now(); uv_update_time(&loop); uv_timer_start(&timer, on_timer, spans[0], 0); }
static void on_peer(uv_poll_t *p, int status, int events) { (void)p; (void)status; (void)events; echo(); }
int main(void) {
  uv_loop_init(&loop); uv_timer_init(&loop, &timer); uv_async_init(&loop, &async, on_wake); uv_idle_init(&loop, &idle);
  uv_poll_init(&loop, &peer, 40); uv_poll_start(&peer, UV_READABLE, on_peer); uv_run(&loop, UV_RUN_NOWAIT);
  ready(); uv_idle_start(&idle, on_idle); uv_run(&loop, UV_RUN_DEFAULT); done(); return getchar() == EOF ? 0 : 1;
}
