#include "common.h"
#include <event2/event.h>
#include <sys/eventfd.h>
static struct event_base *base; static struct event *timer, *wake, *pass; static int bell; static pthread_t thread;
static void after(struct event *e, int ms) { struct timeval t = {0, ms * 1000}; event_add(e, &t); }
static void *other(void *none) { for (int i = 0; i < WAKES; i++) { eventfd_write(bell, 1); sem_wait(&asked); } return none; }
static void on_timer(evutil_socket_t fd, short what, void *none) {
  (void)fd; (void)what; (void)none;
  if (timers == 4) { if (echoed >= 3) event_base_loopbreak(base); else after(timer, 10); return; }
  judge_timer();
  if (timers < 4) { after(timer, spans[timers]); return; }
  begun = now();
  pthread_create(&thread, 0, other, 0);
}
static void on_wake(evutil_socket_t fd, short what, void *none) { (void)what; (void)none; eventfd_t n; eventfd_read(fd, &n); sem_post(&asked); if (++wakes == WAKES) { wakes_us = now() - begun; pthread_join(thread, 0); after(timer, 0); } }
static void on_pass(evutil_socket_t fd, short what, void *none) { (void)fd; (void)what; (void)none; if (++passes < PASSES) { event_active(pass, EV_TIMEOUT, 0); return; } passes_us = now() - begun; begun = now(); after(timer, spans[0]); }
static void on_peer(evutil_socket_t fd, short what, void *none) { (void)fd; (void)what; (void)none; echo(); }
int main(void) {
  struct event_config *config = event_config_new(); event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME | EVENT_BASE_FLAG_PRECISE_TIMER); base = event_base_new_with_config(config); bell = eventfd(0, EFD_NONBLOCK);
  timer = event_new(base, -1, 0, on_timer, 0); pass = event_new(base, -1, 0, on_pass, 0); wake = event_new(base, bell, EV_READ | EV_PERSIST, on_wake, 0);
  struct event *peer = event_new(base, 40, EV_READ | EV_PERSIST, on_peer, 0);
  event_add(wake, 0); event_add(peer, 0);
  ready(); event_active(pass, EV_TIMEOUT, 0); event_base_dispatch(base); done(); return getchar() == EOF ? 0 : 1;
}
