// Echoes by io_uring, by system calls alone: ring_echo PORT KIND [FILE [USECS]]. A ring that is made disabled is enabled when FILE is there, or at
// once. With USECS it is registered for busy polling by the program itself.
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ENTRIES 64
#define FDS 64
enum { ACCEPT = 1, RECEIVE, SEND };
static const struct { const char *name; unsigned flags; } kinds[] = {
    {"plain", 0}, {"sqpoll", IORING_SETUP_SQPOLL}, {"coop", IORING_SETUP_COOP_TASKRUN}, {"disabled", IORING_SETUP_R_DISABLED},
    {"single", IORING_SETUP_SINGLE_ISSUER}, {"disabled-single", IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER}};
static int ring;
static unsigned flags, *sq_tail, *sq_mask, *sq_array, *sq_flags, *cq_head, *cq_tail, *cq_mask, added;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static char bytes[FDS][64];
static void fail(const char *what) { perror(what); exit(1); }
static void *map(size_t size, off_t at) {
    void *found = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, at);
    if (found == MAP_FAILED) fail("mmap");
    return found;
}
static void make(void) {
    struct io_uring_params p = {.flags = flags, .sq_thread_idle = 10000};
    ring = syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring < 0) fail("io_uring_setup");
    char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof *cqes, IORING_OFF_CQ_RING);
    sqes = map(p.sq_entries * sizeof *sqes, IORING_OFF_SQES);
    sq_tail = (void *)(sq + p.sq_off.tail), sq_mask = (void *)(sq + p.sq_off.ring_mask);
    sq_array = (void *)(sq + p.sq_off.array), sq_flags = (void *)(sq + p.sq_off.flags);
    cq_head = (void *)(cq + p.cq_off.head), cq_tail = (void *)(cq + p.cq_off.tail), cq_mask = (void *)(cq + p.cq_off.ring_mask);
    cqes = (void *)(cq + p.cq_off.cqes);
}
static void add(int op, int code, int fd, unsigned len) {
    unsigned tail = *sq_tail, at = tail & *sq_mask;
    struct io_uring_sqe *e = &sqes[at];
    memset(e, 0, sizeof *e);
    e->opcode = code, e->fd = fd, e->user_data = (unsigned long long)fd << 2 | op;
    if (op != ACCEPT) e->addr = (unsigned long)bytes[fd], e->len = len;
    sq_array[at] = at, added++;
    __atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
}
static void wait_for_one(void) {
    unsigned how = IORING_ENTER_GETEVENTS, submitted = added;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (flags & IORING_SETUP_SQPOLL && *(volatile unsigned *)sq_flags & IORING_SQ_NEED_WAKEUP) how |= IORING_ENTER_SQ_WAKEUP;
    if (syscall(SYS_io_uring_enter, ring, submitted, 1, how, 0, 8) < 0) fail("io_uring_enter");
    added = 0;
}
int main(int count, char **args) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(args[1])), .sin_addr.s_addr = INADDR_ANY};
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (!strcmp(args[2], kinds[kind].name)) flags = kinds[kind].flags;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 16)) fail("listen");
    make();
    struct { unsigned usecs; unsigned char prefer, rest[11]; } own = {count > 4 ? atoi(args[4]) : 0, 1};
    if (count > 4 && syscall(SYS_io_uring_register, ring, 27 /* IORING_REGISTER_NAPI */, &own, 1)) fail("register");
    printf("%d %d\n", getpid(), ring), fflush(stdout);
    while (count > 3 && access(args[3], F_OK)) usleep(10000);
    if (flags & IORING_SETUP_R_DISABLED && syscall(SYS_io_uring_register, ring, IORING_REGISTER_ENABLE_RINGS, 0, 0)) fail("enable");
    add(ACCEPT, IORING_OP_ACCEPT, listener, 0);
    for (;;) {
        wait_for_one();
        for (unsigned head = *cq_head; head != __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE); __atomic_store_n(cq_head, ++head, __ATOMIC_RELEASE)) {
            struct io_uring_cqe *done = &cqes[head & *cq_mask];
            int op = done->user_data & 3, fd = done->user_data >> 2, result = done->res;
            if (op == ACCEPT) {
                if (result < 0 || result >= FDS) return 2;
                setsockopt(result, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                add(RECEIVE, IORING_OP_RECV, result, sizeof *bytes), add(ACCEPT, IORING_OP_ACCEPT, listener, 0);
            } else if (op == SEND) add(RECEIVE, IORING_OP_RECV, fd, sizeof *bytes);
            else if (result >= 4 && !memcmp(bytes[fd], "quit", 4)) return 0;
            else if (result > 0) add(SEND, IORING_OP_SEND, fd, result);
            else close(fd);
        }
    }
}
