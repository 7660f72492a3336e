/* A ring of io_uring polls the descriptor of a context: nothing is told while a wait has found nothing, a datagram is told once, and again after the next wait that found nothing.
 * Without io_uring it ends with 77. */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <napier.h>

static int ring;
static unsigned *sq_tail, *sq_array, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_sqe *entries;
static struct io_uring_cqe *results;

static int check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, napier_last_error());
		exit(1);
	}
	return result;
}

static void require(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "not so: %s\n", what);
		exit(1);
	}
}

static char *map(size_t bytes, off_t at)
{
	char *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, at);
	require(found != MAP_FAILED, "a ring can be mapped");
	return found;
}

/* A ring of one entry. */
static void make_ring(void)
{
	struct io_uring_params params = { 0 };
	ring = syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0)
		exit(77);
	char *sq = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	char *cq = map(params.cq_off.cqes + params.cq_entries * sizeof *results, IORING_OFF_CQ_RING);
	entries = (struct io_uring_sqe *)map(params.sq_entries * sizeof *entries, IORING_OFF_SQES);
	sq_tail = (unsigned *)(sq + params.sq_off.tail), sq_array = (unsigned *)(sq + params.sq_off.array);
	cq_head = (unsigned *)(cq + params.cq_off.head), cq_tail = (unsigned *)(cq + params.cq_off.tail);
	cq_mask = (unsigned *)(cq + params.cq_off.ring_mask);
	results = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
}

static void ask(int descriptor)
{
	memset(entries, 0, sizeof *entries);
	entries->opcode = IORING_OP_POLL_ADD, entries->fd = descriptor, entries->poll32_events = POLLIN;
	sq_array[0] = 0;
	__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	require(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1, "a poll is taken");
}

/* What a poll has given; -1: nothing yet. */
static int told(int wait)
{
	if (wait)
		require(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0, "a ring can be waited for");
	if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) == *cq_head)
		return -1;
	int result = results[*cq_head & *cq_mask].res;
	__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
	return result;
}

int main(void)
{
	make_ring();
	int engine = check(napier_engine_start(NULL), "engine"), there = check(napier_netns(engine), "netns"), devices[2];
	struct napier_device_options a = { .size = sizeof a, .name = "a0", .addresses = "10.0.0.1/24" };
	struct napier_device_options b = { .size = sizeof b, .name = "b0", .addresses = "10.0.0.2/24", .netns = there };
	check(napier_add_link(engine, &a, &b, devices), "link");
	int server = check(napier_socket(engine, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "server");
	int client = check(napier_socket(there, AF_INET, SOCK_DGRAM, 0), "client");
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7), .sin_addr.s_addr = htonl(0x0a000001) };
	check(napier_bind(server, (struct sockaddr *)&at, sizeof at), "bind");
	check(napier_connect(client, (struct sockaddr *)&at, sizeof at), "connect");
	int context = check(napier_epoll_create1(engine, 0), "context");
	struct epoll_event event = { .events = EPOLLIN };
	check(napier_epoll_ctl(context, EPOLL_CTL_ADD, server, &event), "epoll_ctl");
	int descriptor = check(napier_epoll_fd(context), "epoll_fd");
	for (int round = 0; round < 3; round++) {
		/* A thread that was stopped while it told of the last datagram tells once more, in vain. */
		int tries = 0;
		do {
			usleep(tries ? 1000 : 0);
			require(napier_epoll_wait(context, &event, 1, NAPIER_OUTSIDE) == 0, "there is nothing");
			ask(descriptor);
		} while (told(0) != -1 && ++tries < 20000);
		require(tries < 20000, "nothing is told while there is nothing");
		check(napier_send(client, "x", 1, 0), "send");
		int found;
		do {
			require(told(1) == POLLIN, "a datagram is told");
			found = check(napier_epoll_wait(context, &event, 1, NAPIER_OUTSIDE), "wait");
			if (found == 0)
				ask(descriptor);
		} while (found == 0);
		char byte;
		require(napier_recv(server, &byte, 1, 0) == 1, "it is there");
	}
	return check(napier_engine_stop(engine), "stop");
}
