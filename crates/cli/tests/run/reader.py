"""Reads what is in force, without any code of Napier: NAPI instances by netlink, descriptors of a process by pidfd_getfd.

reader.py napis IFINDEX | fds PID
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys

# include/uapi/linux: genetlink.h, netdev.h, eventpoll.h, asm-generic/socket.h, asm-generic/unistd.h
CTRL, GETFAMILY, FAMILY_NAME, FAMILY_ID = 16, 3, 2, 1
NAPI_GET, NAPI_IFINDEX = 11, 1
NAMES = {2: "id", 5: "defer-hard-irqs", 6: "gro-flush-timeout", 7: "irq-suspend-timeout", 8: "threaded"}
REQUEST, DUMP, ERROR, DONE = 1, 0x300, 2, 3
EPIOCGPARAMS, SO_BUSY_POLL, SO_PREFER_BUSY_POLL = 0x80088A02, 46, 69
PIDFD_GETFD = 438


def attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def attributes(data):
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:size]
        data = data[(size + 3) & ~3:]


def ask(netlink, family, flags, command, payload):
    body = struct.pack("=BBH", command, 1, 0) + payload
    netlink.send(struct.pack("=IHHII", len(body) + 16, family, flags, 1, 0) + body)
    while True:
        data = netlink.recv(1 << 16)
        while data:
            size, kind, _, _, _ = struct.unpack_from("=IHHII", data)
            if kind == DONE:
                return
            if kind == ERROR:
                number = struct.unpack_from("=i", data, 16)[0]
                raise OSError(-number, os.strerror(-number))
            yield dict(attributes(data[20:size]))
            # A dump ends by itself; the kernel does not mark the parts of this family's.
            if not flags & DUMP:
                return
            data = data[(size + 3) & ~3:]


def napis(ifindex):
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    family = next(ask(netlink, CTRL, REQUEST, GETFAMILY, attribute(FAMILY_NAME, b"netdev\0")))[FAMILY_ID]
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    filtered = attribute(NAPI_IFINDEX, struct.pack("=I", ifindex))
    answers = ask(netlink, struct.unpack("=H", family)[0], REQUEST | DUMP, NAPI_GET, filtered)
    numbers = [{NAMES[k]: int.from_bytes(v, sys.byteorder) for k, v in a.items() if k in NAMES} for a in answers]
    return sorted(numbers, key=lambda napi: napi["id"])


def descriptors(pid):
    pidfd = os.pidfd_open(pid)
    try:
        return copied(pid, pidfd)
    finally:
        os.close(pidfd)


def copied(pid, pidfd):
    libc = ctypes.CDLL(None, use_errno=True)
    found = {"epoll": [], "sockets": []}
    for number in sorted(map(int, os.listdir(f"/proc/{pid}/fd"))):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{number}")
        except FileNotFoundError:
            continue
        if link != "anon_inode:[eventpoll]" and not link.startswith("socket:"):
            continue
        copy = libc.syscall(PIDFD_GETFD, pidfd, number, 0)
        if copy < 0:
            continue
        if link.startswith("socket:"):
            one = socket.socket(fileno=copy)
            if one.family in (socket.AF_INET, socket.AF_INET6):
                options = [one.getsockopt(socket.SOL_SOCKET, option) for option in (SO_BUSY_POLL, SO_PREFER_BUSY_POLL)]
                found["sockets"].append([number, *options])
            one.close()
        else:
            usecs, budget, prefer, _ = struct.unpack("=IHBB", fcntl.ioctl(copy, EPIOCGPARAMS, b"\0" * 8))
            found["epoll"].append([number, usecs, budget, prefer])
            os.close(copy)
    return found


if __name__ == "__main__":
    print(json.dumps((napis if sys.argv[1] == "napis" else descriptors)(int(sys.argv[2]))))
