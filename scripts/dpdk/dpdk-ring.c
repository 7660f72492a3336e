/* The workload of `napier bench tx-list` over DPDK's rte_ring: many senders, one item at a time, one consumer.
 *
 *   dpdk-ring MODE SENDERS SECONDS [pin]  MODE: mp (default multi-producer), rts, hts; always single-consumer
 *                                         pin: sender n on CPU n modulo CPUs, the consumer on the last
 *
 * Prints: items per second, p50, p99, p99.9 and longest push in ns, CPU ns per item.
 * Everything but the ring is as in crates/lab/src/bench/tx_list: 256 items per sender that come back over a word of
 * their own, 32 looks and then sched_yield, batches of at most 64, a pause of 1 us after a smaller one, every 17th push
 * timed, times in sixteenths of powers of two.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>

enum { WINDOW = 256, TIMED_EVERY = 17, LOOKS_MAX = 32, BATCH_MAX = 64, PAUSE_NS = 1000, PARTS = 16, BUCKETS = 45 * PARTS };

struct returned { _Alignas(128) uint32_t count; };

struct sender {
    _Alignas(128) pthread_t thread;
    uint32_t me;
    uint64_t items, cpu_ns, max_ns;
    uint64_t parts[BUCKETS];
};

static struct rte_ring *ring;
static struct returned *returned;
static uint32_t senders;
static _Alignas(128) int stop;
static _Alignas(128) pthread_barrier_t start;
static double ns_per_tick;
static int pinned;

static uint64_t clock_ns(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void pin_to(long cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (pinned)
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static uint64_t ticks_after(void) {
    unsigned cpu;
    return __rdtscp(&cpu);
}

static unsigned part_of(uint64_t ns) {
    if (ns < PARTS)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 3) * PARTS + (unsigned)(ns >> (power - 4)) - PARTS;
}

static uint64_t last_of(unsigned part) {
    if (part < PARTS)
        return part;
    return ((uint64_t)(part % PARTS + PARTS + 1) << (part / PARTS - 1)) - 1;
}

static void push(uint32_t item) {
    if (rte_ring_enqueue_elem(ring, &item, sizeof item) != 0)
        abort(); /* there is room for every item */
}

static uint32_t wait_for_items(uint32_t *count, uint32_t sent) {
    for (int looks = 0;;) {
        uint32_t back = __atomic_load_n(count, __ATOMIC_ACQUIRE);
        if (sent - back < WINDOW || __atomic_load_n(&stop, __ATOMIC_RELAXED))
            return back;
        if (++looks > LOOKS_MAX)
            sched_yield();
        else
            _mm_pause();
    }
}

static void *send_all(void *argument) {
    struct sender *own = argument;
    uint32_t sent = 0, back = 0, until_timed = own->me % TIMED_EVERY;
    pin_to(own->me % sysconf(_SC_NPROCESSORS_ONLN));
    pthread_barrier_wait(&start);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (sent - back == WINDOW) {
            back = wait_for_items(&returned[own->me].count, sent);
            continue;
        }
        uint32_t item = own->me * WINDOW + sent % WINDOW;
        if (until_timed == 0) {
            until_timed = TIMED_EVERY;
            uint64_t before = __rdtsc();
            push(item);
            uint64_t ns = (uint64_t)((double)(ticks_after() - before) * ns_per_tick);
            own->parts[part_of(ns)]++;
            if (ns > own->max_ns)
                own->max_ns = ns;
        } else {
            push(item);
        }
        until_timed--;
        sent++;
        own->items++;
    }
    own->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void give_back(uint32_t sender, uint32_t count) {
    __atomic_store_n(&returned[sender].count, count, __ATOMIC_RELEASE);
}

static void *consume_all(void *cpu_ns) {
    uint32_t *back = calloc(senders, sizeof *back), batch[BATCH_MAX];
    uint64_t pause = (uint64_t)(PAUSE_NS / ns_per_tick);
    pin_to(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    pthread_barrier_wait(&start);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unsigned taken = rte_ring_dequeue_burst_elem(ring, batch, sizeof batch[0], BATCH_MAX, NULL);
        if (taken == 0) {
            sched_yield();
            continue;
        }
        uint32_t last = batch[0] / WINDOW;
        for (unsigned i = 0; i < taken; i++) {
            uint32_t sender = batch[i] / WINDOW;
            if (sender != last)
                give_back(last, back[last]);
            last = sender;
            back[sender]++;
        }
        give_back(last, back[last]);
        if (taken < BATCH_MAX)
            for (uint64_t paused = __rdtsc(); __rdtsc() - paused < pause;)
                _mm_pause();
    }
    free(back);
    *(uint64_t *)cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void calibrate(void) {
    uint64_t from = clock_ns(CLOCK_MONOTONIC), from_ticks = __rdtsc();
    while (clock_ns(CLOCK_MONOTONIC) - from < 50000000)
        _mm_pause();
    ns_per_tick = (double)(clock_ns(CLOCK_MONOTONIC) - from) / (double)(__rdtsc() - from_ticks);
}

static uint64_t percentile(const struct sender *all, uint64_t timed, double quantile) {
    uint64_t rank = (uint64_t)((double)timed * quantile + 0.999999), below = 0;
    for (unsigned part = 0; part < BUCKETS; part++) {
        below += all->parts[part];
        if (below >= rank && below > 0)
            return last_of(part) < all->max_ns ? last_of(part) : all->max_ns;
    }
    return 0;
}

int main(int argc, char **argv) {
    unsigned flags = RING_F_SC_DEQ;
    pinned = argc == 5 && strcmp(argv[4], "pin") == 0;
    argc -= pinned;
    senders = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
    if (argc == 4 && strcmp(argv[1], "rts") == 0)
        flags |= RING_F_MP_RTS_ENQ;
    else if (argc == 4 && strcmp(argv[1], "hts") == 0)
        flags |= RING_F_MP_HTS_ENQ;
    else if (argc != 4 || strcmp(argv[1], "mp") != 0)
        senders = 0;
    if (senders == 0 || atof(argv[3]) <= 0) {
        fprintf(stderr, "usage: %s mp|rts|hts SENDERS SECONDS [pin]\n", argv[0]);
        return 2;
    }
    unsigned slots = 1;
    while (slots <= senders * WINDOW)
        slots *= 2;
    ring = aligned_alloc(128, ((size_t)rte_ring_get_memsize_elem(sizeof(uint32_t), slots) + 127) / 128 * 128);
    returned = aligned_alloc(128, senders * sizeof *returned);
    struct sender *all = aligned_alloc(128, (senders + 1) * sizeof *all), *sum = &all[senders];
    if (ring == NULL || returned == NULL || all == NULL || rte_ring_init(ring, "tx-list", slots, flags) != 0) {
        fprintf(stderr, "%s: no memory, or DPDK refused the ring\n", argv[0]);
        return 1;
    }
    memset(returned, 0, senders * sizeof *returned);
    memset(all, 0, (senders + 1) * sizeof *all);
    calibrate();

    pthread_t consumer;
    uint64_t consumer_cpu_ns = 0, timed = 0;
    pthread_barrier_init(&start, NULL, senders + 2);
    for (uint32_t me = 0; me < senders; me++) {
        all[me].me = me;
        pthread_create(&all[me].thread, NULL, send_all, &all[me]);
    }
    pthread_create(&consumer, NULL, consume_all, &consumer_cpu_ns);
    pthread_barrier_wait(&start);
    uint64_t started = clock_ns(CLOCK_MONOTONIC);
    double seconds = atof(argv[3]);
    struct timespec length = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&length, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    double wall_ns = (double)(clock_ns(CLOCK_MONOTONIC) - started);
    for (uint32_t me = 0; me < senders; me++) {
        pthread_join(all[me].thread, NULL);
        sum->items += all[me].items;
        sum->cpu_ns += all[me].cpu_ns;
        if (all[me].max_ns > sum->max_ns)
            sum->max_ns = all[me].max_ns;
        for (unsigned part = 0; part < BUCKETS; part++) {
            sum->parts[part] += all[me].parts[part];
            timed += all[me].parts[part];
        }
    }
    pthread_join(consumer, NULL);
    printf("%.0f %lu %lu %lu %lu %.1f\n", (double)sum->items * 1e9 / wall_ns, percentile(sum, timed, 0.5),
           percentile(sum, timed, 0.99), percentile(sum, timed, 0.999), sum->max_ns,
           (double)(sum->cpu_ns + consumer_cpu_ns) / (double)sum->items);
    return 0;
}
