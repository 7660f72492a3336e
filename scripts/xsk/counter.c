/* Counts the packets of an interface's first queue by libxdp, and sleeps while there are none: what crates/xsk/examples/counter.rs does,
 * with rings and frames of the same sizes.
 *     counter INTERFACE COUNT */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <xdp/xsk.h>

enum { FRAMES = 1024, FRAME_BYTES = 2048, RING = 1024, BURST = 64 };

static void failed(const char *what, int error) {
	fprintf(stderr, "%s: %d\n", what, error);
	exit(1);
}

int main(int argc, char **argv) {
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons done, rx;
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	uint64_t packets = 0, bytes = 0, count;
	uint32_t at = 0, i;
	int error;

	if (argc != 3) {
		fprintf(stderr, "usage: counter INTERFACE COUNT\n");
		return 2;
	}
	count = strtoull(argv[2], NULL, 10);
	void *memory = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		failed("mmap", 0);
	const struct xsk_umem_config shape = { .fill_size = FRAMES, .comp_size = RING, .frame_size = FRAME_BYTES };
	error = xsk_umem__create(&umem, memory, (uint64_t)FRAMES * FRAME_BYTES, &fill, &done, &shape);
	if (error)
		failed("xsk_umem__create", error);
	const struct xsk_socket_config config = { .rx_size = RING, .tx_size = RING, .bind_flags = XDP_USE_NEED_WAKEUP };
	error = xsk_socket__create(&socket, argv[1], 0, umem, &rx, &tx, &config);
	if (error)
		failed("xsk_socket__create", error);
	xsk_ring_prod__reserve(&fill, FRAMES, &at);
	for (i = 0; i < FRAMES; i++)
		*xsk_ring_prod__fill_addr(&fill, at + i) = (uint64_t)i * FRAME_BYTES;
	xsk_ring_prod__submit(&fill, FRAMES);
	/* Each line as it comes, also into a pipe. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");

	struct pollfd news = { .fd = xsk_socket__fd(socket), .events = POLLIN };
	while (packets < count) {
		uint32_t taken = xsk_ring_cons__peek(&rx, BURST, &at), back = 0;
		if (taken == 0) {
			poll(&news, 1, -1);
			continue;
		}
		/* As many as were taken from there fit in. */
		xsk_ring_prod__reserve(&fill, taken, &back);
		for (i = 0; i < taken; i++) {
			const struct xdp_desc *packet = xsk_ring_cons__rx_desc(&rx, at + i);
			bytes += packet->len;
			*xsk_ring_prod__fill_addr(&fill, back + i) = xsk_umem__extract_addr(packet->addr);
		}
		xsk_ring_cons__release(&rx, taken);
		xsk_ring_prod__submit(&fill, taken);
		packets += taken;
	}
	printf("%llu packets, %llu bytes\n", (unsigned long long)packets, (unsigned long long)bytes);
	xsk_socket__delete(socket);
	xsk_umem__delete(umem);
	return 0;
}
