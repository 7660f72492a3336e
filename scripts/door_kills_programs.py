#!/usr/bin/env python3
"""What door-kills starts and kills, as programs of their own:

    program DOOR FILE   threads on an engine's sockets, each with one thing that it does for ever; turns, turns without an error and errors are in the file
    free DOOR           whether all addresses of it can be bound; those that cannot are said
    peer                what it talks to across the wire
"""

import errno
import os
import random
import select
import socket
import struct
import sys
import threading
import time

ENGINE, PEER = "10.79.0.9", "10.79.0.2"
STREAM, DGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
# Of the file: turns, then turns without an error, a number of 8 bytes for each thread, then the errors as words.
GOOD, ERRORS, SIZE = 256, 1024, 4096
# Sockets that threads go on with until a call fails.
kept = {}


def bound(kind, *address):
    s = socket.socket(socket.AF_INET, kind)
    try:
        if kind == STREAM:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(address)
        if kind == STREAM:
            s.listen(64)
    except OSError:
        s.close()
        raise
    return s


def own(name):
    """The socket of a thread, at its address."""
    if name not in kept:
        kept[name] = bound(*FIXED[name])
    return kept[name]


def echo(c):
    try:
        while data := c.recv(65536):
            c.sendall(data)
    except OSError:
        pass
    c.close()


def serve():
    c, _ = own("serve").accept()
    threading.Thread(target=echo, args=(c,), daemon=True).start()


def ask():
    with socket.create_connection((PEER, 7002), 2) as c:
        c.sendall(b"x" * random.choice((1, 1000, 200000)))
        c.shutdown(socket.SHUT_WR)
        while c.recv(65536):
            pass


def churn():
    many = [socket.socket() for _ in range(5)]
    try:
        for s in many[1:]:
            s.bind((ENGINE, 0))
            s.listen()
        many[0].setblocking(False)
        many[0].connect_ex(("10.79.0.77", 9))
        if random.random() < 0.1:
            os.close(os.dup(many[1].fileno()))
        for s in many:
            s.getsockname()
    finally:
        for s in many:
            s.close()


def loopback():
    with bound(STREAM, "127.0.0.1", 0) as s, socket.create_connection(s.getsockname(), 2) as c:
        with s.accept()[0] as a:
            c.sendall(b"x")
            a.recv(1)
    time.sleep(0.005)


def wildcard():
    """Over loopback, which is the kernel's half of it."""
    s = own("wildcard")
    s.settimeout(2)
    with socket.create_connection(("127.0.0.1", 7003), 2) as c:
        with s.accept()[0] as a:
            c.sendall(b"x")
            a.settimeout(2)
            a.recv(1)
    time.sleep(0.005)


def udp_serve():
    s = own("udp_serve")
    data, sender = s.recvfrom(65536)
    s.sendto(data, sender)


def udp_ask():
    with socket.socket(socket.AF_INET, DGRAM) as s:
        s.settimeout(1)
        if has_peer := random.random() < 0.5:
            s.connect((PEER, 7012))
        for size in (1, 1000, 8000):
            sent = os.urandom(size)
            s.send(sent) if has_peer else s.sendto(sent, (PEER, 7012))
            while s.recv(9000) != sent:
                pass


def udp_churn():
    many = [socket.socket(socket.AF_INET, DGRAM) for _ in range(6)]
    try:
        many[0].bind((ENGINE, 0))
        many[1].connect((PEER, 7012))
        many[1].send(b"x")
        many[2].sendto(b"x", (PEER, 7012))
        many[3].bind(("127.0.0.1", 0))
        many[4].bind(("", 0))
        if random.random() < 0.1:
            os.close(os.dup(many[0].fileno()))
        if random.random() < 0.05:
            child = os.fork()
            if child == 0:
                try:
                    many[1].send(b"x")
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
    finally:
        for s in many:
            s.close()


def udp_near():
    """By the engine's own address."""
    with bound(DGRAM, ENGINE, 0) as one, bound(DGRAM, ENGINE, 0) as other:
        other.settimeout(1)
        name = other.getsockname()
        if not name:
            raise OSError(errno.ENETDOWN, "that of a pair: the engine has ended")
        for _ in range(10):
            one.sendto(b"x" * 1000, name)
            other.recv(2000)
    time.sleep(0.005)


def udp_wildcard():
    """Answers whoever asks, this thread itself over loopback too, which is the kernel's half of it."""
    s = own("udp_wildcard")
    s.settimeout(1)
    with socket.socket(socket.AF_INET, DGRAM) as c:
        c.sendto(b"x", ("127.0.0.1", 7013))
        sender = None
        while sender != ("127.0.0.1", c.getsockname()[1]):
            data, sender = s.recvfrom(65536)
            s.sendto(data, sender)
        c.settimeout(1)
        c.recv(10)
    time.sleep(0.005)


def udp_wait():
    """A turn to bind it, and one that ends with the engine: no datagram comes."""
    if "udp_wait" not in kept:
        own("udp_wait")
        return
    s = own("udp_wait")
    how = random.randrange(3)
    if how == 1:
        select.select([s], [], [])
    elif how == 2:
        with select.epoll() as waits:
            waits.register(s, select.EPOLLIN)
            waits.poll()
    s.recv(10)


def udp_flood():
    """To where nothing answers, more than the wire takes: it waits for room in the socket."""
    with socket.socket(socket.AF_INET, DGRAM) as s:
        for _ in range(200):
            s.sendto(b"x" * 1400, (PEER, 7019))
    time.sleep(0.02)


FIXED = {
    "serve": (STREAM, ENGINE, 7001), "wildcard": (STREAM, "", 7003), "udp_serve": (DGRAM, ENGINE, 7011), "udp_wildcard": (DGRAM, "", 7013), "udp_wait": (DGRAM, ENGINE, 7014),
}
# Datagrams are the kernel's by the slow door.
THREADS = {"slow": (serve, ask, churn, loopback, wildcard)}
THREADS["fast"] = (*THREADS["slow"], udp_serve, udp_ask, udp_churn, udp_near, udp_wildcard, udp_wait, udp_flood)
# What goes by the kernel's sockets once the engine has ended. The others bind an address that is not the kernel's: they go round by errors.
GO_ON = ("ask", "loopback", "wildcard", "udp_ask", "udp_wildcard", "udp_flood")


def forever(index, act, file, note):
    turns = good = 0
    while True:
        try:
            act()
            good += 1
        except OSError as error:
            note(f"{act.__name__}:{errno.errorcode.get(error.errno, 'late')}")
            if not isinstance(error, TimeoutError) and (s := kept.pop(act.__name__, None)):
                s.close()
            time.sleep(0.002)
        turns += 1
        os.pwrite(file, struct.pack("Q", turns), 8 * index)
        os.pwrite(file, struct.pack("Q", good), GOOD + 8 * index)


def program(door, path):
    file, seen, one_writes = os.open(path, os.O_RDWR), set(), threading.Lock()

    def note(word):
        with one_writes:
            if word not in seen:
                seen.add(word)
                os.pwrite(file, " ".join(seen).encode()[: SIZE - ERRORS], ERRORS)

    for index, act in enumerate(THREADS[door]):
        threading.Thread(target=forever, args=(index, act, file, note)).start()


def free(door):
    names = [act.__name__ for act in THREADS[door]]
    for name, address in FIXED.items():
        if name in names:
            try:
                own(name)
            except OSError as error:
                print(name, address[1:], errno.errorcode[error.errno])


def peer():
    s, d = bound(STREAM, PEER, 7002), bound(DGRAM, PEER, 7012)

    def datagrams():
        while True:
            d.sendto(*d.recvfrom(65536))

    threading.Thread(target=datagrams, daemon=True).start()
    print("ready", flush=True)
    while True:
        threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    {"program": program, "free": free, "peer": peer}[sys.argv[1]](*sys.argv[2:])
