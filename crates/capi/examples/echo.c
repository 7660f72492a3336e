/* Answers each datagram to port 7 with what was in it, with interrupts suspended while it is busy.
 *   cc -o echo echo.c $(pkg-config --cflags --libs napier)
 *   ./echo memif:@echo 10.0.0.1/24        another process, as memif's client
 *   sudo ./echo xdp:eth1 192.0.2.10/24    a network interface
 * With a number at the end it ends after so many. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <napier.h>

enum { BURST = 32, BYTES = 2048 };

static int check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "echo: %s: %s\n", what, napier_last_error());
		exit(1);
	}
	return result;
}

int main(int argc, char **argv)
{
	if (argc < 3 || (strncmp(argv[1], "memif:", 6) != 0 && strncmp(argv[1], "xdp:", 4) != 0))
		return fprintf(stderr, "usage: echo memif:SOCKET|xdp:INTERFACE ADDRESS/PREFIX [COUNT]\n"), 2;
	int engine = check(napier_engine_start(NULL), "engine");
	check(napier_set_mode(engine, "suspend20"), "mode");
	struct napier_device_options device = { .size = sizeof device, .name = "echo0", .addresses = argv[2] };
	struct napier_memif_options memif = { .size = sizeof memif, .socket = argv[1] + 6 };
	struct napier_xdp_options xdp = { .size = sizeof xdp, .interface = argv[1] + 4 };
	check(argv[1][0] == 'm' ? napier_add_memif(engine, &memif, &device) : napier_add_xdp(engine, &xdp, &device), argv[1]);

	int context = check(napier_epoll_create1(engine, 0), "context");
	int server = check(napier_socket(engine, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket");
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(7) };
	check(napier_bind(server, (struct sockaddr *)&own, sizeof own), "bind");
	struct epoll_event event = { .events = EPOLLIN };
	check(napier_epoll_ctl(context, EPOLL_CTL_ADD, server, &event), "epoll_ctl");

	static char bytes[BURST][BYTES];
	static struct sockaddr_in from[BURST];
	for (long left = argc > 3 ? atol(argv[3]) : -1; left != 0;) {
		struct mmsghdr messages[BURST] = { 0 };
		struct iovec parts[BURST];
		for (int i = 0; i < BURST; i++) {
			parts[i] = (struct iovec){ bytes[i], BYTES };
			messages[i].msg_hdr = (struct msghdr){ &from[i], sizeof from[i], &parts[i], 1, NULL, 0, 0 };
		}
		check(napier_epoll_wait(context, &event, 1, -1), "epoll_wait");
		int count = napier_recvmmsg(server, messages, left > 0 && left < BURST ? left : BURST, 0);
		for (int i = 0; i < count; i++)
			parts[i].iov_len = messages[i].msg_len;
		if (count > 0 && napier_sendmmsg(server, messages, count, 0) > 0 && left > 0)
			left -= count;
	}
	return check(napier_engine_stop(engine), "stop");
}
