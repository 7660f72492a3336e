"""Numbered records on connections, written in several ways in turn; `port` is the peer's, the words are what happens in the middle of each connection."""
import ctypes, errno, os, select, signal, socket, sys, tempfile, time

PEER = '10.79.0.2'
EACH = 200
libc = ctypes.CDLL(None)


class Records:
    """A connection, and the number of its next record."""

    def __init__(self, port):
        self.c, self.next = socket.create_connection((PEER, port)), 0

    def bytes(self, count):
        first, self.next = self.next, self.next + count
        return b''.join(b'%015d\n' % number for number in range(first, self.next))

    def send(self, count=EACH, by=None):
        """One at a time."""
        for _ in range(count):
            data = self.bytes(1)
            (by or self.c.sendall)(data)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def fork(r, make=os.fork):
    for _ in range(2):
        data = r.bytes(EACH)
        child = make()
        if child == 0:
            for at in range(0, len(data), 16):
                r.c.sendall(data[at:at + 16])
            os._exit(0)
        os.waitpid(child, 0)
        r.send(10)


def dup(r):
    d = r.c.dup()
    for _ in range(EACH):
        r.send(1)
        d.sendall(r.bytes(1))
    copy = os.dup(d.fileno())
    write_all(copy, r.bytes(EACH))
    os.close(copy)
    d.close()


def rights(r):
    """Another process, which was there before, writes to it."""
    r.helper.sendall(b'%15d\n' % r.next)
    socket.send_fds(r.helper, [b'x'], [r.c.fileno()])
    assert r.helper.recv(1) == b'd'
    r.next += EACH


def helper():
    here, there = socket.socketpair()
    if os.fork() == 0:
        here.close()
        first = there.recv(16, socket.MSG_WAITALL)
        if first:
            _, fds, _, _ = socket.recv_fds(there, 1, 1)
            write_all(fds[0], b''.join(b'%015d\n' % number for number in range(int(first), int(first) + EACH)))
            os.close(fds[0])
            there.sendall(b'd')
        os._exit(0)
    there.close()
    return here


def syscall(r):
    def write(data):
        number = {'x86_64': 1, 'aarch64': 64}[os.uname().machine]
        assert libc.syscall(number, r.c.fileno(), data, len(data)) == len(data)
    for _ in range(EACH):
        r.send(1, write)
        r.send(1)


def fdopen(r):
    libc.fdopen.restype = libc.fputs.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fdopen(r.c.fileno(), b'w'))
    for _ in range(EACH):
        libc.fputs(r.bytes(1), stream)
        libc.fflush(stream)
        r.send(1)


def dprintf(r):
    """With arguments in registers of both kinds and on the stack."""
    text = [b'%s', *[b'%c'] * 9, *[b'%.0f'] * 4, b'%c\n']
    for nth in range(2 * EACH):
        data = r.bytes(1)
        floats = [ctypes.c_double(digit - 48) for digit in data[10:14]]
        arguments = b''.join(text), data[:1], *data[1:10], *floats, data[14]
        said = libc.__dprintf_chk(r.c.fileno(), 1, *arguments) if nth % 2 else libc.dprintf(r.c.fileno(), *arguments)
        assert said == 16, said
        r.send(1)


def spawn(r):
    with tempfile.NamedTemporaryFile() as f:
        f.write(r.bytes(EACH))
        f.flush()
        child = os.posix_spawn('/bin/cat', ['cat', f.name], {}, file_actions=[(os.POSIX_SPAWN_DUP2, r.c.fileno(), 1)])
        os.waitpid(child, 0)


def stdout(r):
    """The connection is where the C library's own stream writes to."""
    assert r.c.fileno() == 1
    for _ in range(EACH):
        r.send(1)
        libc.puts(r.bytes(1)[:-1])
        libc.fflush(None)


def sendfile(r):
    assert os.pwritev(r.c.fileno(), [r.bytes(1)], -1) == 16
    for _ in range(20):
        with tempfile.TemporaryFile() as f:
            data = r.bytes(20)
            f.write(data)
            f.flush()
            at = 0
            while at < len(data):
                at += os.sendfile(r.c.fileno(), f.fileno(), at, len(data) - at)
        r.send(5)


def large(r):
    """More than a ring has room for, in pieces of all sizes."""
    for count in (1, 500, 3, 2000, 1, 1, 5000, 7, 1024, 1023, 1025):
        r.c.sendall(r.bytes(count))
        r.c.sendmsg([r.bytes(1), b'', r.bytes(2)])
        r.send(5, lambda data: r.c.sendto(data, (PEER, 9)))


WAYS = {'fork': fork, '_Fork': lambda r: fork(r, ctypes.PyDLL(None)._Fork), 'dup': dup, 'SCM_RIGHTS': rights, 'syscall': syscall, 'fdopen': fdopen, 'dprintf': dprintf, 'posix_spawn': spawn, 'stdout': stdout, 'sendfile': sendfile, 'large': large}


def until_it_ends(port):
    """The engine ends, and the program sees that."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    r = Records(port)
    try:
        while True:
            r.send(1)
            time.sleep(0.0001)
    except OSError as error:
        print('ended', isinstance(error, (BrokenPipeError, ConnectionResetError)))


def until_it_is_killed(port):
    """As one that writes and does not read; what it gets after its engine's end."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    r, ends, vain = Records(port), select.poll(), 0
    # What has ended is told whatever is asked for.
    ends.register(r.c.fileno(), 0)
    try:
        while not ends.poll(0):
            r.send(1)
    except OSError:
        pass
    print('readable', bool(ends.poll(20000)) and end_of(r.c))
    try:
        while True:
            r.send(1)
            vain += 1
    except OSError as error:
        print(f'written in vain: a few {vain <= 8}, then {errno.errorcode[error.errno]}')
    s = socket.create_server(('127.0.0.1', 0))
    c = socket.create_connection(s.getsockname())
    s.accept()[0].sendall(b'here')
    print(c.recv(4))


def end_of(c):
    try:
        return c.recv(1) == b''
    except ConnectionResetError:
        return True


def main(port, words):
    for word in words:
        if word == 'waits':
            print('done')
            time.sleep(600)
        if word == 'until_it_ends':
            until_it_ends(port)
            continue
        if word == 'until_it_is_killed':
            return until_it_is_killed(port)
        other = helper() if word == 'SCM_RIGHTS' else None
        said = os.dup(1)
        if word == 'stdout':
            os.close(1)
        r = Records(port)
        r.helper = other
        r.send()
        WAYS[word](r)
        r.send()
        r.c.shutdown(socket.SHUT_WR)
        try:
            r.c.send(b'too late')
            print('it was sent')
        except BrokenPipeError:
            pass
        r.c.recv(1)
        r.c.close()
        os.dup2(said, 1)
        os.close(said)
    print('done')


if __name__ == '__main__':
    main(int(sys.argv[1]), sys.argv[2:])
