/* Counts the frames that come to the first queue of a network interface, in place, by AF_XDP. The kernel hears none of them.
 *   cc -o xsk_receiver xsk_receiver.c $(pkg-config --cflags --libs napier)
 *   sudo ./xsk_receiver eth1 1000000 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <napier.h>

enum { BURST = 64 };

static int check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "xsk_receiver: %s: %s\n", what, napier_last_error());
		exit(1);
	}
	return result;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: xsk_receiver INTERFACE COUNT\n");
		return 2;
	}
	int engine = check(napier_engine_start(NULL), "engine");
	struct napier_device_options options = { .size = sizeof options, .name = "rx0", .queues = 1 };
	struct napier_xdp_options xdp = { .size = sizeof xdp, .interface = argv[1], .everything = 1 };
	int device = check(napier_add_xdp(engine, &xdp, &options), argv[1]);
	int port = check(napier_raw_open(device, 0), "port");
	check(napier_raw_busy_poll(port, 50, BURST, 1), "busy polling");
	puts("ready");
	fflush(stdout);

	uint64_t frames = 0, bytes = 0, ipv4 = 0;
	for (uint64_t wanted = strtoull(argv[2], NULL, 10); frames < wanted;) {
		struct napier_frame burst[BURST];
		int count = check(napier_rx_burst(port, burst, BURST), "rx_burst");
		for (int i = 0; i < count; i++) {
			const uint8_t *frame = burst[i].data;
			ipv4 += burst[i].len >= 14 && frame[12] == 0x08 && frame[13] == 0x00;
			bytes += burst[i].len;
		}
		frames += count;
		check(napier_rx_free(port, burst, count), "rx_free");
		if (count == 0)
			check(napier_raw_wait(port, -1), "wait");
	}
	printf("%llu frames, %llu bytes, %llu of IPv4\n", (unsigned long long)frames, (unsigned long long)bytes,
	       (unsigned long long)ipv4);
	check(napier_close(port), "close");
	return check(napier_engine_stop(engine), "stop");
}
