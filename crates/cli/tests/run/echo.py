"""Answers what it is sent, and waits for it as it is told: echo.py WAY PORT [ADDRESS]. Ends well when it is sent `quit`."""
import os
import select
import socket
import sys
import threading

way, port = sys.argv[1], int(sys.argv[2])
address = sys.argv[3] if len(sys.argv) > 3 else "10.79.0.1"
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, port))
listener.listen(64)
print(os.getpid(), flush=True)


def answer(connection):
    data = connection.recv(4096)
    if data == b"quit":
        os._exit(0)
    if data:
        connection.send(data)
    return bool(data)


def block(connection):
    while answer(connection):
        pass


connections = {listener.fileno(): listener}
inner, outer = select.epoll(), select.epoll()
polled = select.poll()
if way == "nested":
    outer.register(inner.fileno(), select.EPOLLIN)
if way == "poll-of-epoll":
    polled.register(inner.fileno(), select.POLLIN)
keeper = polled if way == "poll" else inner
if way != "block":
    keeper.register(listener.fileno(), select.POLLIN)
while True:
    if way == "block":
        threading.Thread(target=block, args=(listener.accept()[0],), daemon=True).start()
        continue
    if way == "nested":
        outer.poll()
    if way == "poll-of-epoll":
        polled.poll()
    if way == "poll":
        ready = polled.poll()
    else:
        ready = inner.poll(None if way == "epoll" else 0)
    for fd, _ in ready:
        if fd == listener.fileno():
            connection, _ = listener.accept()
            connections[connection.fileno()] = connection
            keeper.register(connection.fileno(), select.POLLIN)
        elif not answer(connections[fd]):
            keeper.unregister(fd)
            connections.pop(fd).close()
