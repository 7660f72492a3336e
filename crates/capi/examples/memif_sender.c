/* Sends numbered frames to a memif server (Napier, DPDK, VPP), built where they are sent from.
 *   cc -o memif_sender memif_sender.c $(pkg-config --cflags --libs napier)
 *   ./memif_sender @sink 1000000 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <napier.h>

enum { BURST = 64, BYTES = 64 };

static int check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "memif_sender: %s: %s\n", what, napier_last_error());
		exit(1);
	}
	return result;
}

/* An Ethernet frame to all stations, of the type for local experiments (IEEE 802), with a number. */
static size_t build(void *context, void *frame, size_t room)
{
	static const uint8_t head[14] = { 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };
	uint64_t *number = context;
	memset(frame, 0, room);
	memcpy(frame, head, sizeof head);
	memcpy((uint8_t *)frame + sizeof head, number, sizeof *number);
	++*number;
	return room;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: memif_sender SOCKET COUNT\n");
		return 2;
	}
	int engine = check(napier_engine_start(NULL), "engine");
	struct napier_device_options options = { .size = sizeof options, .name = "tx0" };
	struct napier_memif_options memif = { .size = sizeof memif, .socket = argv[1], .role = NAPIER_MEMIF_CLIENT };
	int device = check(napier_add_memif(engine, &memif, &options), argv[1]);
	if (check(napier_wait_link(device, 10000), "link") == 0) {
		fprintf(stderr, "memif_sender: no server on %s\n", argv[1]);
		return 1;
	}
	int port = check(napier_raw_open(device, 0), "port");
	uint64_t sent = 0;
	for (uint64_t wanted = strtoull(argv[2], NULL, 10); sent < wanted;) {
		uint64_t left = wanted - sent;
		if (check(napier_tx_build(port, left < BURST ? left : BURST, BYTES, build, &sent), "tx_build") == 0)
			nanosleep(&(struct timespec){ 0, 20000 }, NULL); /* The peer has to take some first. */
	}
	printf("%llu frames\n", (unsigned long long)sent);
	check(napier_close(port), "close");
	return check(napier_engine_stop(engine), "stop");
}
