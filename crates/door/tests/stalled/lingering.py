"""A program that sends a file along with bytes, whose last end takes an hour: a connection that lingers, for its peer does not read."""
import fcntl, socket, struct, sys, termios, threading, time

try:
    # SO_PASSRIGHTS: without it the engine cannot refuse files.
    socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 83, 0)
except OSError:
    sys.exit(print('skipped: no SO_PASSRIGHTS before Linux 6.16'))
quiet = socket.create_server(('127.0.0.1', 0))
file = socket.create_connection(quiet.getsockname())
kept, _ = quiet.accept()
file.setblocking(False)
try:
    while True:
        file.send(bytes(65536))
except BlockingIOError:
    pass
file.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
listener = socket.create_server(('10.79.0.9', int(sys.argv[1])))
print('ready', flush=True)
connection, _ = listener.accept()


def is_taken():
    """Whether the engine takes what was sent: its peer reads nothing yet."""
    for _ in range(30):
        if struct.unpack('i', fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0] == 0:
            return True
        time.sleep(0.01)


while is_taken():
    connection.sendall(bytes(8192))
try:
    socket.send_fds(connection, [b'x'], [file.fileno()])
    # The engine has the last one.
    file.close()
except PermissionError:
    pass
print('stalls', flush=True)
threading.Event().wait()
