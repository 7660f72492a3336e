/* napier.h: the engine for C. napier_engine(3), napier_device(3), napier_socket(3), napier_epoll(3), napier_raw(3).
 *
 * A call gives -1 where it fails, errno says why, and napier_last_error() says it as a sentence. A handle is a number that is none of a
 * descriptor; one that was closed is EBADF. ENOTRECOVERABLE on any call: the library has met a mistake of its own, and the handle can only
 * be closed. A struct of options begins with its size, and all zero stands for defaults.
 *
 * Made from the sources by tests/header. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef NAPIER_H
#define NAPIER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct epoll_event;
struct mmsghdr;
struct timespec;

/* ---- Engines, modes, handles: napier_engine(3) ---- */

/* How an engine is made. Zero is the default of each member but the first. */
struct napier_engine_options {
	/* sizeof(struct napier_engine_options). */
	size_t size;
	/* The processors that run softirqs, each by a thread that is pinned there; NULL: one thread for each that the process may use, not
	 * pinned. */
	const int *softirq_cpus;
	/* How many these are. */
	size_t softirq_cpus_len;
	/* Threads of the pool of the mode workqueue; 0: 2. */
	uint32_t workers;
	/* Not 0: softirq threads do not ask for SCHED_FIFO. */
	uint32_t no_fifo;
	/* net.core.busy_poll, in us. */
	uint32_t busy_poll_us;
	/* net.core.busy_read, in us. */
	uint32_t busy_read_us;
};

/* The version of the library, such as "0.2.0".
 *
 * Threads: any. */
const char *napier_version(void);

/* Why the last call of the calling thread that failed did so, and what can be done about it, as a sentence. It stays as it is until the
 * thread's next call that fails. Never NULL.
 *
 * Threads: any; each has its own. */
const char *napier_last_error(void);

/* Starts an engine: threads that deliver packets, and a first name space. options: NULL for all defaults.
 *
 * Threads: any. Not to be called between fork(2) and exec(3), nor is an engine there in a child of fork(2).
 *
 * Gives its handle; -1 and EINVAL (a processor that cannot be), EMFILE, EAGAIN. */
int napier_engine_start(const struct napier_engine_options *options);

/* Stops an engine, whose handle is none any more. Its connections end without a word to their peers: close them first if these should
 * know. Calls that wait end with ESHUTDOWN, and so does every later one that would have to; handles of its sockets, contexts, ports and
 * devices stay until they are closed. It returns when the engine's threads have ended, or when the last call that is on the engine does.
 *
 * Threads: any, but for the function that napier_tx_build calls.
 *
 * Gives 0; -1 and EBADF, EINVAL (the handle of something else). */
int napier_engine_stop(int engine);

/* Closes a handle of any kind, poisoned or not. A socket is closed, and leaves the contexts that it is in; a raw port hands its queue
 * back, with the frames that are held of it; a stream with SO_LINGER and a time waits for its peer as close(2) does; a device stays in its engine until it is removed (napier_remove_device) or that is stopped; an engine is stopped.
 * Calls that are in progress on the handle end as if it were open, and what it stands for goes with the last of them.
 *
 * Threads: any. The number is given to something else late, so that a call on it finds EBADF.
 *
 * Gives 0; -1 and EBADF. */
int napier_close(int handle);

/* Makes one more name space in an engine: devices, addresses and sockets that do not see those of others.
 *
 * Threads: any.
 *
 * Gives its handle; -1 and EBADF, EINVAL, EMFILE. */
int napier_netns(int engine);

/* Sets how packets are delivered, by the name of a mode: base, deferX, napibusy, fullbusy, suspend0, suspendX (X in us, such as
 * suspend20), threaded, workqueue, threaded-busy-poll, busy-read. Of an engine: all its devices and contexts, and those that are made
 * later; of a device, and of a context, that one. busy-read acts on sockets that are made after it.
 * In fullbusy give each wait a timeout of 1 ms, and wait again: one of 0 never polls, and a longer one sleeps after 1 ms without a packet, so
 * that the next packet waits for a timer of 5 ms.
 *
 * Threads: any, also while packets come.
 *
 * Gives 0; -1 and EBADF, EINVAL (no such mode, or the handle of something else), ESHUTDOWN. */
int napier_set_mode(int handle, const char *mode);

/* ---- Devices and figures: napier_device(3) ---- */

/* What every device has. Zero is the default of each member but the first two. */
struct napier_device_options {
	/* sizeof(struct napier_device_options). */
	size_t size;
	/* 1 to 15 bytes. */
	const char *name;
	/* Own addresses, each with the length of its prefix, with commas between them: "192.0.2.10/24,2001:db8::10/64". */
	const char *addresses;
	/* A name space of the engine (napier_netns); 0: the engine's first. */
	int netns;
	/* Queues each way; 0: one, of an interface all that it has. */
	uint32_t queues;
	/* Slots of each ring, a power of two; 0: 1024. */
	uint32_t ring_size;
	/* Bytes of a frame, of AF_XDP those of a chunk; 0: 2048, of AF_XDP 4096 if the MTU needs it. */
	uint32_t frame_bytes;
	/* Ethernet address; all zero: one is made up, of an interface its own. */
	uint8_t mac[6];
	/* Zero. */
	uint8_t reserved[2];
};

/* A memif device, whose peer is another process. */
struct napier_memif_options {
	/* sizeof(struct napier_memif_options). */
	size_t size;
	/* Path of the control socket, or @ and an abstract name. */
	const char *socket;
	/* NAPIER_MEMIF_SERVER listens, NAPIER_MEMIF_CLIENT connects and owns the memory. */
	uint32_t role;
	/* Number of the interface on the socket, the same on both sides. */
	uint32_t id;
	/* What a client must know and says, 1 to 24 bytes; NULL: nothing. */
	const char *secret;
	/* Of a server: who may connect, as permission bits of a file; 0: 0600, this user. */
	uint32_t access;
	/* Not 0: TCP connections stay when the peer goes. */
	uint32_t keep_connections;
};

/* A device on a network interface of the kernel. It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. */
struct napier_xdp_options {
	/* sizeof(struct napier_xdp_options). */
	size_t size;
	/* Name of the interface, in the network namespace of the calling thread. */
	const char *interface;
	/* First queue that is used. */
	uint32_t first_queue;
	/* NAPIER_XDP_AUTO, NAPIER_XDP_ZERO_COPY, NAPIER_XDP_NATIVE or NAPIER_XDP_GENERIC. */
	uint32_t mode;
	/* Not 0: the driver copies, although it may be able to do without. */
	uint32_t copy;
	/* Not 0: every packet of the queues is the device's, and the kernel hears nothing on them; 0: those to its own addresses. */
	uint32_t everything;
};

/* A memif that listens. */
#define NAPIER_MEMIF_SERVER 0

/* A memif that connects. */
#define NAPIER_MEMIF_CLIENT 1

/* Without a copy where the driver can, else whichever is faster. */
#define NAPIER_XDP_AUTO 0

/* Without a copy, or not at all. */
#define NAPIER_XDP_ZERO_COPY 1

/* In the driver. */
#define NAPIER_XDP_NATIVE 2

/* In the kernel's stack, with every driver. */
#define NAPIER_XDP_GENERIC 3

/* Adds a link: two devices in this process that are each other's peer, over shared memory. It has the queues, rings and frames of a.
 * Both are up. For tests, and for programs whose parts talk by packets; give them name spaces of their own.
 *
 * Threads: any.
 *
 * Gives 0 and two handles in devices; -1 and EBADF, EINVAL, EEXIST (the name is taken), ENOMEM, EMFILE.
 * After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL). */
int napier_add_link(int engine, const struct napier_device_options *a, const struct napier_device_options *b, int *devices);

/* Adds a memif device, whose peer is another process: Napier, DPDK, VPP. It has no carrier until the peer is there (napier_wait_link).
 *
 * Threads: any.
 *
 * Gives its handle; -1 and EBADF, EINVAL, EEXIST, EADDRINUSE (a program listens there), ENOMEM, EMFILE, and those of bind(2).
 * After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL). */
int napier_add_memif(int engine, const struct napier_memif_options *memif, const struct napier_device_options *device);

/* Adds a device on a network interface of the kernel, by AF_XDP. Packets that are not for its addresses go on to the kernel, which must not
 * have them itself. It is up if the interface is.
 *
 * Threads: any; the interface is one of the calling thread's network namespace.
 *
 * Gives its handle; -1 and EBADF, EINVAL, EEXIST, ENODEV, EPERM, EBUSY (a queue or the interface has such a program already), EOPNOTSUPP
 * (the driver cannot), ENOMEM.
 * After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL). */
int napier_add_xdp(int engine, const struct napier_xdp_options *xdp, const struct napier_device_options *device);

/* Removes a device from its engine, of a link both ends: connections over it end with ENETRESET, a memif peer is told, and an interface
 * is free for other programs. Its name can be given again; its memory is given back with the engine. The handle shows its last figures until
 * it is closed.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, EINVAL, ENODEV (it was removed before), ESHUTDOWN. */
int napier_remove_device(int device);

/* Waits until a device has a peer, timeout_ms at most; negative: for ever.
 *
 * Threads: any.
 *
 * Gives 1 if it has one, 0 if it has none in time or never will, because it or its interface was removed; -1 and EBADF, EINVAL, ESHUTDOWN. */
int napier_wait_link(int device, int timeout_ms);

/* Takes a device down (on is 0), or brings it up again.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, EINVAL, ENODEV (it was removed), ESHUTDOWN. */
int napier_set_up(int device, int on);

/* Queues of a device.
 *
 * Threads: any.
 *
 * Gives how many; -1 and EBADF, EINVAL. */
int napier_queues(int device);

/* The NAPI id of a queue, as SO_INCOMING_NAPI_ID names it.
 *
 * Threads: any.
 *
 * Gives it; -1 and EBADF, EINVAL (no such queue, or no device). */
int napier_napi_id(int device, uint32_t queue);

/* Sends what lies in no device's prefix to a gateway by this device; one for IPv4 and one for IPv6. gateway: an address as text.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, EINVAL (the address is not on the device's link). */
int napier_set_gateway(int device, const char *gateway);

/* Bytes of a figure's name, the NUL included. */
#define NAPIER_STAT_NAME_BYTES 56

/* A figure. */
struct napier_stat {
	/* Its name, which ends with a NUL. */
	char name[NAPIER_STAT_NAME_BYTES];
	/* How many since the object was made. */
	uint64_t value;
};

/* Figures of a device or a context, with the names of napier_runtime; or of a whole engine, by the names of docs/metrics.md, each summed
 * over all that have it. Whatever is lost is counted.
 *
 * Threads: any; those that poll and send do not wait for it.
 *
 * Gives how many figures there are, and the first count of them in stats; -1 and EBADF, EINVAL, EFAULT. */
int napier_stats(int handle, struct napier_stat *stats, uint32_t count);

/* ---- Sockets: napier_socket(3) ---- */

/* Makes a socket in an engine's first name space, or in another one (napier_netns). domain: AF_INET, AF_INET6; type: SOCK_DGRAM,
 * SOCK_STREAM, perhaps with SOCK_NONBLOCK; protocol: 0.
 *
 * Threads: any. A socket may be used by several threads at once.
 *
 * Gives its handle; -1 and EBADF, EINVAL, EAFNOSUPPORT, EPROTONOSUPPORT, EMFILE. */
int napier_socket(int where, int domain, int kind, int protocol);

/* As bind(2).
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL (it has an address), EAFNOSUPPORT, EADDRINUSE, EADDRNOTAVAIL, ESHUTDOWN. */
int napier_bind(int socket, const struct sockaddr *address, socklen_t len);

/* As listen(2), but once. accept has no time limit (SO_RCVTIMEO). Other options than SO_REUSEPORT and IPV6_V6ONLY that were set before go to each connection that is accepted.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EINVAL, EOPNOTSUPP (a socket of datagrams), EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ESHUTDOWN. */
int napier_listen(int socket, int backlog);

/* As accept(2): waits for a connection unless the listener does not block. address may be NULL.
 *
 * Threads: any; of several that wait one gets it.
 *
 * Gives the handle of a socket that blocks; -1 and EBADF, ENOTSOCK, EINVAL (it does not listen), EFAULT, EAGAIN, EMFILE, ESHUTDOWN. */
int napier_accept(int socket, struct sockaddr *address, socklen_t *len);

/* As accept4(2). flags: 0 or SOCK_NONBLOCK.
 *
 * Threads: as napier_accept.
 *
 * Gives the handle of a socket; -1 as napier_accept, and EINVAL for other flags. */
int napier_accept4(int socket, struct sockaddr *address, socklen_t *len, int flags);

/* As connect(2). A stream that does not block gives EINPROGRESS, and is writable when that has ended; SO_ERROR says how. One whose
 * connection failed is to be closed. A connect with AF_UNSPEC is refused. One that blocks ends after the time of SO_SNDTIMEO, with
 * ETIMEDOUT.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, EAFNOSUPPORT, EINPROGRESS, EALREADY, EISCONN, ECONNREFUSED, ECONNRESET, ETIMEDOUT,
 * EHOSTUNREACH, ENETUNREACH, EADDRINUSE, EADDRNOTAVAIL, EACCES, EAGAIN, ESHUTDOWN. */
int napier_connect(int socket, const struct sockaddr *address, socklen_t len);

/* As shutdown(2), for streams.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EINVAL, ENOTCONN, EOPNOTSUPP (a socket of datagrams). */
int napier_shutdown(int socket, int how);

/* As getsockname(2).
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT. */
int napier_getsockname(int socket, struct sockaddr *address, socklen_t *len);

/* As getpeername(2).
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, ENOTCONN. */
int napier_getpeername(int socket, struct sockaddr *address, socklen_t *len);

/* As setsockopt(2), by the numbers of the system's headers; napier_socket(3) lists what there is. What is set before the socket has an
 * address acts when it has one, and is refused then if it is to be refused.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, ENOPROTOOPT, EPERM, EDOM. */
int napier_setsockopt(int socket, int level, int name, const void *value, socklen_t len);

/* As getsockopt(2), for options that are an int.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, ENOPROTOOPT, ENOTCONN. */
int napier_getsockopt(int socket, int level, int name, void *value, socklen_t *len);

/* As fcntl(2), with F_GETFL and F_SETFL and the flag O_NONBLOCK.
 *
 * Threads: any; calls that wait already go on.
 *
 * Gives 0, or the flags; -1 and EBADF, ENOTSOCK, EINVAL. */
int napier_fcntl(int socket, int command, int flags);

/* As send(2). flags: MSG_NOSIGNAL, which is so in any case, and MSG_DONTWAIT.
 *
 * Threads: any. The bytes are not to be written meanwhile.
 *
 * Gives how many bytes were sent; -1 and EBADF, ENOTSOCK, EFAULT, EOPNOTSUPP (another flag), EAGAIN, EDESTADDRREQ, ENOTCONN, EPIPE, EMSGSIZE,
 * ENOBUFS, ENETDOWN, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ECONNRESET, ETIMEDOUT, ESHUTDOWN. */
ssize_t napier_send(int socket, const void *data, size_t len, int flags);

/* As sendto(2). address: NULL for the peer; of a stream it is not looked at.
 *
 * Threads: as napier_send.
 *
 * Gives as napier_send; -1 as there, and EAFNOSUPPORT, EINVAL, EACCES. */
ssize_t napier_sendto(int socket, const void *data, size_t len, int flags, const struct sockaddr *address, socklen_t address_len);

/* As recv(2). flags: MSG_PEEK, MSG_TRUNC of datagrams, and MSG_DONTWAIT.
 *
 * Threads: any; of several that wait each gets what the others do not.
 *
 * Gives how many bytes were received, 0 at the end of a stream; -1 and EBADF, ENOTSOCK, EFAULT, EOPNOTSUPP (another flag), EAGAIN, ENOTCONN,
 * ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETRESET, ESHUTDOWN. */
ssize_t napier_recv(int socket, void *data, size_t len, int flags);

/* As recvfrom(2). address may be NULL; of a stream nothing is written to it.
 *
 * Threads: as napier_recv.
 *
 * Gives as napier_recv. */
ssize_t napier_recvfrom(int socket, void *data, size_t len, int flags, struct sockaddr *address, socklen_t *address_len);

/* As sendmsg(2). flags as napier_send. With a datagram go the control messages that napier_socket(3) lists.
 *
 * Threads: as napier_send.
 *
 * Gives how many bytes were sent; -1 as napier_sendto, and EMSGSIZE (more than 1024 parts), EOPNOTSUPP (control messages to a stream), EINVAL
 * (one that cannot be). */
ssize_t napier_sendmsg(int socket, const struct msghdr *message, int flags);

/* As sendmmsg(2), for sockets of datagrams. Each message's msg_len is what was sent of it.
 *
 * Threads: as napier_send.
 *
 * Gives how many messages were sent, fewer where there was no room for more; -1 as napier_sendmsg, if it was none. */
int napier_sendmmsg(int socket, struct mmsghdr *messages, uint32_t count, int flags);

/* As recvmsg(2). MSG_TRUNC in msg_flags: the datagram was longer; MSG_CTRUNC: there was no room for a control message. Which there are is
 * asked for by options: napier_socket(3). With UDP_GRO it receives all of what was merged.
 *
 * Threads: as napier_recv.
 *
 * Gives how many bytes were received; -1 as napier_recv, and EMSGSIZE (more than 1024 parts). */
ssize_t napier_recvmsg(int socket, struct msghdr *message, int flags);

/* Receives datagrams as recvmmsg(2) does with MSG_WAITFORONE: waits for the first, unless the socket does not block, and takes as many as
 * are there, 32 at most, which costs less than as many calls. Control messages as napier_recvmsg, but what UDP_GRO has merged comes one by one.
 * Each message's msg_len is what was received of it.
 *
 * Threads: as napier_recv.
 *
 * Gives how many were received, 0 only for count 0; -1 as napier_recvmsg, and EOPNOTSUPP (a stream). */
int napier_recvmmsg(int socket, struct mmsghdr *messages, uint32_t count, int flags);

/* ---- Event contexts: napier_epoll(3) ---- */

/* A timeout of napier_epoll_wait: the wait does all that one without limit does up to the sleep, and gives 0 in place of it. The caller
 * sleeps then, on napier_epoll_fd. */
#define NAPIER_OUTSIDE (-2147483647 - 1)

/* As epoll_create1(2), in an engine and in its mode (napier_set_mode). flags: 0 or EPOLL_CLOEXEC. It has 4096 members at most.
 *
 * Threads: any.
 *
 * Gives the handle of a context; -1 and EBADF, EINVAL, EMFILE. */
int napier_epoll_create1(int engine, int flags);

/* As epoll_ctl(2), for sockets and user events of this library. operation: EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL; events: EPOLLIN,
 * EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP, EPOLLET, EPOLLONESHOT. A socket of datagrams without address gets one; a stream
 * has to listen, or its connect has to have been called.
 *
 * Threads: any, also while others wait.
 *
 * Gives 0; -1 and EBADF, EINVAL, EFAULT, EEXIST, ENOENT, ENOSPC. */
int napier_epoll_ctl(int context, int operation, int member, const struct epoll_event *event);

/* As epoll_wait(2): 64 events at most for each call. It busy polls before it sleeps, as the mode says; signals do not end it
 * (napier_user_event does). timeout_ms: negative for ever; NAPIER_OUTSIDE.
 *
 * Threads: any; an event wakes one of those that wait.
 *
 * Gives how many events there are, 0 at the end of the time; -1 and EBADF, EINVAL, EFAULT, ESHUTDOWN. */
int napier_epoll_wait(int context, struct epoll_event *events, int max, int timeout_ms);

/* As napier_epoll_wait, to the nanosecond. timeout: NULL for ever.
 *
 * Threads: as napier_epoll_wait.
 *
 * Gives as napier_epoll_wait. */
int napier_epoll_pwait2(int context, struct epoll_event *events, int max, const struct timespec *timeout);

/* A descriptor of the kernel by which a program waits for a context in its own epoll, poll or io_uring. It is readable unless a wait has found
 * nothing and nothing has happened since: call napier_epoll_wait with NAPIER_OUTSIDE until it gives 0, and sleep then. Neither read nor
 * close it: it goes with the context.
 *
 * Threads: any.
 *
 * Gives the descriptor; -1 and EBADF, EINVAL, EMFILE, ENFILE, ENOMEM. */
int napier_epoll_fd(int context);

/* Makes a flag that contexts can watch for EPOLLIN, as an eventfd(2): for a thread that is to end another one's wait.
 *
 * Threads: any.
 *
 * Gives its handle; -1 and EMFILE. */
int napier_user_event(void);

/* Raises a flag. What the calling thread wrote before is seen by the thread that sees the flag.
 *
 * Threads: any.
 *
 * Gives 0; -1 and EBADF, EINVAL. */
int napier_user_event_trigger(int event);

/* Lowers a flag.
 *
 * Threads: any.
 *
 * Gives 1 if it was raised, else 0; -1 and EBADF, EINVAL. */
int napier_user_event_clear(int event);

/* ---- Raw ports: napier_raw(3) ---- */

/* A frame of a raw port: received, or to be sent. */
struct napier_frame {
	/* The bytes, from the Ethernet header on. */
	void *data;
	/* How many. Of a received frame that is sent on, at most as many as it had. */
	uint32_t len;
	/* Zero. */
	uint32_t reserved;
	/* Of a received frame, which; 0 for bytes of the program's own, which are copied when they are sent. */
	uint64_t token;
};

/* Frames that a program can hold of one port. */
#define NAPIER_FRAMES_HELD_MAX 1024

/* Writes a frame of at most room bytes to frame, which holds what was there before, and gives its length; 0 ends the burst. It must not call
 * this library, nor leave by longjmp(3). */
typedef size_t (*napier_build)(void *context, void *frame, size_t room);

/* Opens a raw port on a queue of a device: it takes all frames of the queue, and the sockets of the device's name space see none of them while
 * it is open.
 *
 * Threads: any. A port is for one thread at a time: a call on a port that another thread is in finds EBUSY.
 *
 * Gives its handle; -1 and EBADF, EINVAL (no such queue), EBUSY (another port has it), EMFILE. */
int napier_raw_open(int device, uint32_t queue);

/* Sets how napier_rx_burst and napier_raw_wait poll by themselves, as the socket options of an AF_XDP socket do. usecs: SO_BUSY_POLL, 0 for
 * never; budget: SO_BUSY_POLL_BUDGET, 0 for 8; prefer: SO_PREFER_BUSY_POLL.
 *
 * Threads: one at a time for each port.
 *
 * Gives 0; -1 and EBADF, EINVAL, EBUSY. */
int napier_raw_busy_poll(int port, uint32_t usecs, uint16_t budget, int prefer);

/* The NAPI id of a port's queue.
 *
 * Threads: one at a time for each port.
 *
 * Gives it; -1 and EBADF, EINVAL, EBUSY. */
int napier_raw_napi_id(int port);

/* Waits until there are frames, timeout_ms at most; negative: for ever. It polls first, as napier_raw_busy_poll has it.
 *
 * Threads: one at a time for each port. napier_close of another thread does not end it, napier_engine_stop does.
 *
 * Gives 1 if there are, 0 if there are none; -1 and EBADF, EINVAL, EBUSY, ENODEV (the device or its interface was removed), ESHUTDOWN. */
int napier_raw_wait(int port, int timeout_ms);

/* Takes at most count received frames, which stay in place until they are sent on or given back: 1024 of a port at most. It never waits.
 *
 * Threads: one at a time for each port.
 *
 * Gives how many; -1 and EBADF, EINVAL, EFAULT, EBUSY, ENOBUFS (1024 are held). */
int napier_rx_burst(int port, struct napier_frame *frames, uint32_t count);

/* Gives received frames back without sending them: their bytes are not to be touched any more.
 *
 * Threads: one at a time for each port.
 *
 * Gives how many, those before the first that is not held of this port; -1 and EBADF, EINVAL (the first is not), EFAULT, EBUSY. */
int napier_rx_free(int port, const struct napier_frame *frames, uint32_t count);

/* Sends frames by a port's device, and shows them to the peer. One that was received by this port goes as it is, without a copy where the
 * rings share its memory, and is held no longer; it may have been changed in place, and shortened. One with token 0 is copied from data.
 * It stops where the ring is full.
 *
 * Threads: one at a time for each port.
 *
 * Gives how many were sent, the first ones; -1 and EBADF, EINVAL (the first is none of this port's, or too long), EFAULT, EBUSY. */
int napier_tx_burst(int port, const struct napier_frame *frames, uint32_t count);

/* Builds at most count frames of at most len bytes each where they are sent from, and shows them to the peer: the cheapest way to send. build
 * is called for each, with context, until there is no room or it gives 0.
 *
 * Threads: one at a time for each port. build is called by the calling thread.
 *
 * Gives how many were sent; -1 and EBADF, EINVAL, EFAULT (build is NULL), EMSGSIZE (no frame can have len bytes), EBUSY. */
int napier_tx_build(int port, uint32_t count, size_t len, napier_build build, void *context);

#ifdef __cplusplus
}
#endif

#endif
