/* Sends frames of 64 bytes by a packet socket until it is ended: sender INTERFACE. It bypasses the queueing discipline. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { BURST = 64, FRAME = 64 };

int main(int argc, char **argv) {
	static unsigned char frame[FRAME] = { 2, 0, 0, 0x56, 0, 2, 2, 0, 0, 0x56, 0, 1, 0x88, 0xb5 };
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
	struct iovec part = { frame, FRAME };
	struct mmsghdr messages[BURST];
	int one = 1, i, fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (argc != 2 || fd < 0 || !(to.sll_ifindex = if_nametoindex(argv[1]))) {
		fprintf(stderr, "usage: sender INTERFACE\n");
		return 2;
	}
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
	memset(messages, 0, sizeof messages);
	for (i = 0; i < BURST; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1 };
	for (;;)
		sendmmsg(fd, messages, BURST, 0);
}
