/* Counts the packets of a memif peer by libmemif, and sleeps while there are none: what crates/memif/examples/receiver.rs does,
 * with rings and frames of the same sizes.
 *     counter SOCKET COUNT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libmemif.h>

enum { BURST = 64 };

static uint64_t packets, bytes;
static int connected, over;

static void check(int error, const char *what) {
	if (error != MEMIF_ERR_SUCCESS) {
		fprintf(stderr, "%s: %s\n", what, memif_strerror(error));
		exit(1);
	}
}

static int on_connect(memif_conn_handle_t peer, void *context) {
	(void)context;
	connected = 1;
	return memif_refill_queue(peer, 0, -1, 0);
}

static int on_disconnect(memif_conn_handle_t peer, void *context) {
	(void)peer, (void)context;
	over = 1;
	return 0;
}

static int on_interrupt(memif_conn_handle_t peer, void *context, uint16_t queue) {
	memif_buffer_t burst[BURST];
	uint16_t taken;

	(void)context;
	do {
		taken = 0;
		memif_rx_burst(peer, queue, burst, BURST, &taken);
		for (uint16_t i = 0; i < taken; i++)
			bytes += burst[i].len;
		packets += taken;
		memif_refill_queue(peer, queue, taken, 0);
	} while (taken > 0);
	return 0;
}

int main(int argc, char **argv) {
	memif_socket_args_t where = { .app_name = "counter" };
	memif_conn_args_t interface = { .is_master = 1, .log2_ring_size = 10, .buffer_size = 2048, .interface_name = "counter" };
	memif_conn_handle_t peer = NULL;
	uint64_t count;

	if (argc != 3 || strlen(argv[1]) >= sizeof where.path) {
		fprintf(stderr, "usage: counter SOCKET COUNT\n");
		return 2;
	}
	count = strtoull(argv[2], NULL, 10);
	strcpy(where.path, argv[1]);
	check(memif_create_socket(&interface.socket, &where, NULL), "memif_create_socket");
	check(memif_create(&peer, &interface, on_connect, on_disconnect, on_interrupt, NULL), "memif_create");
	while (packets < count && !over) {
		uint64_t before = packets;
		check(memif_poll_event(interface.socket, 10), "memif_poll_event");
		/* A burst that finds nothing drains the eventfd after its look at the ring, and may take the interrupt of what has come between. */
		if (connected && !over && packets == before)
			on_interrupt(peer, NULL, 0);
	}
	printf("%llu packets, %llu bytes\n", (unsigned long long)packets, (unsigned long long)bytes);
	return packets < count;
}
