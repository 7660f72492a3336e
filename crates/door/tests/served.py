"""What programs do with sockets, each by one word; run under `napier run --engine`, and by itself for comparison."""
import errno, os, select, signal, socket, struct, sys, threading, time

OWN, PEER, MISSING = '10.79.0.9', '10.79.0.2', '10.79.0.77'


def name(error):
    if error.errno == errno.EOPNOTSUPP:
        return 'EOPNOTSUPP'  # it has two names
    return errno.errorcode.get(error.errno, str(error))


def listener(port, backlog=64, again=False):
    """`again`: this program has had a socket with that port, and closed it."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    soon(s.bind, (OWN, port)) if again else s.bind((OWN, port))
    s.listen(backlog)
    return s


def echo(c):
    try:
        while data := c.recv(65536):
            c.sendall(data)
        c.shutdown(socket.SHUT_WR)
    except OSError as error:
        print('echo', name(error))
    c.close()


def serve(port):
    s = listener(port)
    print('ready', s.getsockname())
    while True:
        c, peer = s.accept()
        threading.Thread(target=echo, args=(c,), daemon=True).start()


def serve_by_epoll(port):
    s = listener(port)
    s.setblocking(False)
    e = select.epoll()
    e.register(s.fileno(), select.EPOLLIN | select.EPOLLET)
    print('ready', s.getsockname())
    open_ones = {}
    while True:
        for fd, events in e.poll():
            if fd == s.fileno():
                while True:
                    try:
                        c, peer = s.accept()
                    except BlockingIOError:
                        break
                    assert peer[0] == PEER and c.getpeername() == peer, peer
                    c.setblocking(False)
                    open_ones[c.fileno()] = c
                    e.register(c.fileno(), select.EPOLLIN)
                continue
            c = open_ones[fd]
            data = c.recv(65536)
            if data:
                c.send(data)
            else:
                del open_ones[fd]
                c.close()


def serve_by_children(port):
    s = listener(port)
    for _ in range(2):
        if os.fork() == 0:
            while True:
                c, _ = s.accept()
                c.sendall(b'%d\n' % os.getpid())
                c.close()
    print('ready', os.getpid())
    s.close()
    time.sleep(600)


def serve_when_told(port):
    """One connection for each time that the listener is ready; none before the signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    s = listener(port, 1024)
    s.setblocking(False)
    e = select.epoll()
    e.register(s.fileno(), select.EPOLLIN)
    print('ready', s.getsockname())
    signal.sigwait([signal.SIGUSR1])
    while True:
        for _ in e.poll():
            c, _ = s.accept()
            c.sendall(b'x')
            c.close()


def serve_with_timeouts(port):
    options = (socket.SO_RCVTIMEO, struct.pack('ll', 7, 0)), (socket.SO_SNDTIMEO, struct.pack('ll', 8, 0)), (socket.SO_RCVLOWAT, struct.pack('i', 3))
    has_all = lambda s: all(s.getsockopt(socket.SOL_SOCKET, option, 16) == value for option, value in options)
    s, kernel = listener(port), socket.socket()
    for option, value in options:
        s.setsockopt(socket.SOL_SOCKET, option, value)
        kernel.setsockopt(socket.SOL_SOCKET, option, value)
    try:
        kernel.bind(('127.0.0.1', 0))
    except OSError:
        pass
    print('ready', has_all(s), has_all(kernel))
    c, _ = s.accept()
    c.sendall(str(has_all(c)).encode())


def leaves_itself(port):
    """Its end of the listener lies in the listener's own queue."""
    s = listener(port)
    try:
        socket.send_fds(s, [b'x'], [s.fileno()])
    except PermissionError:
        pass  # where the kernel lets the engine refuse files (Linux 6.16)
    print('ready')


def ask(port):
    s = socket.create_connection((PEER, port))
    print(s.getpeername(), s.getsockname()[0])
    s.sendall(b'x' * 300000)
    s.shutdown(socket.SHUT_WR)
    got = 0
    while data := s.recv(65536):
        got += len(data)
    print('got', got)


def ask_later(port):
    """The descriptor is watched before it is connected."""
    for at in (port, 1):
        s = socket.socket()
        s.setblocking(False)
        e = select.epoll()
        code = s.connect_ex((PEER, at))
        e.register(s.fileno(), select.EPOLLOUT | select.EPOLLIN | select.EPOLLET)
        print('connect', errno.errorcode[code], at == 1 or s.connect_ex((PEER, at)) in (errno.EALREADY, errno.EISCONN))
        events = e.poll(20)
        print('events', bool(events), 'error', errno.errorcode.get(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0))
        if at == port:
            s.send(b'late')
            s.setblocking(True)
            print(s.recv(4))


def refused():
    for _ in range(2):
        s = socket.socket()
        try:
            s.connect((PEER, 1))
        except OSError as error:
            print(name(error))
        try:
            s.getpeername()
        except OSError as error:
            print(name(error))


def refused_later():
    s = socket.socket()
    s.setblocking(False)
    p = select.poll()
    codes = [s.connect_ex((PEER, 1))]
    p.register(s.fileno(), select.POLLOUT)
    p.poll(20000)
    codes += [s.connect_ex((PEER, 1)) for _ in range(2)]
    print(*(errno.errorcode[code] for code in codes))


def interrupted():
    """A signal ends a call that waits, when its handshake is under way."""
    s = socket.socket()

    def wake():
        while s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b'\2':
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def stop(*_):
        raise InterruptedError

    signal.signal(signal.SIGUSR1, stop)
    threading.Thread(target=wake, daemon=True).start()
    try:
        s.connect((MISSING, 1))
        print('connected')
    except InterruptedError:
        print('writable', bool(select.select([], [s], [], 0)[1]))


def reset(port):
    s = socket.create_connection((PEER, port))
    s.sendall(b'reset me')
    try:
        print(s.recv(10))
    except OSError as error:
        print(name(error))


def loopback():
    s = socket.socket()
    s.bind(('127.0.0.1', 0))
    s.listen()
    c = socket.create_connection(s.getsockname())
    a, peer = s.accept()
    c.sendall(b'here')
    print(a.recv(4), peer == c.getsockname(), a.family == socket.AF_INET)


def watches_first():
    """As nginx does: the descriptor is watched before it is connected, to loopback here."""
    s = socket.socket()
    s.bind(('127.0.0.1', 0))
    s.listen()
    for flags in (select.EPOLLET, 0):
        c, e = socket.socket(), select.epoll()
        c.setblocking(False)
        e.register(c.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | flags)
        code = c.connect_ex(s.getsockname())
        a, _ = s.accept()
        events = e.poll(20)
        print(code in (0, errno.EINPROGRESS), events == [(c.fileno(), select.EPOLLOUT)], c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        # It is known there by this number.
        e.modify(c.fileno(), select.EPOLLIN)
        a.sendall(b'here')
        print(e.poll(20) == [(c.fileno(), select.EPOLLIN)], c.recv(4))
        e.unregister(c.fileno())
        print(e.poll(0))


def soon(bind, *where):
    """A port is free when no process has its socket. One that a test starts has all that the engine has, here in the same process, until it is another program."""
    for _ in range(500):
        try:
            return bind(*where)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            time.sleep(0.01)
    return bind(*where)


def errors():
    def says(what, call):
        try:
            call()
            print(what, 'ok')
        except OSError as error:
            print(what, name(error))

    one, two = socket.socket(), socket.socket()
    says('accept', one.accept)
    says('bind', lambda: one.bind((OWN, 7070)))
    says('again', lambda: one.bind((OWN, 7071)))
    says('taken', lambda: two.bind((OWN, 7070)))
    one.close()
    says('free', lambda: soon(two.bind, (OWN, 7070)))
    says('listen', two.listen)
    says('connect', lambda: two.connect((PEER, 1)))
    says('peer', two.getpeername)
    two.setblocking(False)
    says('none', two.accept)
    says('nodelay', lambda: two.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    says('ulp', lambda: two.setsockopt(socket.IPPROTO_TCP, 31, b'tls'))
    says('fastopen', lambda: two.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5))
    says('linger', lambda: two.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)))
    print(two.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), two.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    print(two.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET, two.getsockname())
    six = socket.socket(socket.AF_INET6)
    says('family', lambda: six.connect(('::ffff:127.0.0.1', 1)))


def mixed():
    """One of the engine, one that loopback gets, one for datagrams, one of Unix."""
    s = listener(7009)
    s.setblocking(False)
    try:
        s.accept()
    except BlockingIOError:
        pass
    try:
        s.setsockopt(socket.IPPROTO_TCP, 31, b'tls')
    except OSError:
        pass
    k = socket.socket()
    k.bind(('127.0.0.1', 0))
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    socket.socketpair()


def anything(seed, calls=1500):
    """Calls with arguments and memory as a program that means harm would make them, many of them ended by signals."""
    import ctypes, random, tempfile
    # It binds Unix sockets as well, to any name.
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)
    dice, call = random.Random(seed), ctypes.CDLL(None, use_errno=True).syscall
    numbers = {'x86_64': (41, 49, 50, 43, 288, 42, 51, 52, 55, 54), 'aarch64': (198, 200, 201, 202, 242, 203, 204, 205, 209, 208)}[os.uname().machine]
    make, bind, listen, accept, accept4, connect, name, peer, get, put = numbers
    memory = ctypes.create_string_buffer(8192)
    at = ctypes.addressof(memory)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    address = lambda: struct.pack('=HH4s8x', dice.choice((2, 2, 2, 10, 0, 1, 999)), dice.choice((0, 7001, 7002, 1, 65535)), socket.inet_aton(dice.choice((OWN, PEER, MISSING, '0.0.0.0', '127.0.0.1', '9.9.9.9'))))
    fds = [3]

    def pointer(content):
        where = dice.randrange(4000)
        memory[where:where + len(content)] = content
        return dice.choice((at + where,) * 6 + (0, 8, 2**63, 2**64 - 1, at + 8190))

    word = lambda: dice.choice((0, 1, 4, 16, 16, 28, 128, 129, 4096, -1, 2**31 - 1, -2**31))
    level = lambda: (dice.choice((1, 1, 6, 6, 0, 41, -1)), dice.randrange(-1, 60))
    made, turns, patience = 0, 0, time.monotonic() + 60
    # On a busy machine a signal may come before most calls are answered: more of them then.
    while turns < calls or (made <= 20 and time.monotonic() < patience):
        turns += 1
        fd, which = dice.choice((*fds, *fds, -1, 1, 2**31 - 1, 999)), dice.choice(numbers)
        if which == make:
            args = dice.choice((2, 2, 10, 1, 77)), dice.choice((1, 1, 0x801, 0x80801, 2, 3, -1)), dice.choice((0, 6, 17, 132, -1))
        elif which in (bind, connect):
            args = fd, pointer(address()), word()
        elif which == listen:
            args = fd, word()
        elif which in (accept, accept4, name, peer):
            args = fd, pointer(b''), pointer(struct.pack('i', word())), dice.choice((0, 0x800, 0x80000, -1))
        else:
            args = fd, *level(), pointer(struct.pack('iiii', word(), word(), 1, 1)), pointer(struct.pack('i', word())) if which == get else word()
        got = call(ctypes.c_long(which), *(ctypes.c_long(one if one < 2**63 else one - 2**64) for one in args))
        if got > 3 and which in (make, accept, accept4):
            made += 1
            fds.append(got)
        if len(fds) > 30 or dice.random() < 0.1:
            gone = fds.pop(dice.randrange(len(fds)))
            if gone > 3 and dice.random() < 0.9:
                os.close(gone)
            elif gone > 3:
                fds.append(os.dup(gone))
        fds = fds or [3]
    signal.setitimer(signal.ITIMER_REAL, 0)
    print('done', made > 20)


def sends_with_address(port):
    """As sockperf's server does: the address is given once more on a connection."""
    s, c, peer = socket.socket(), socket.create_connection((PEER, port)), (PEER, port)
    data, sent, got = bytes(range(250)) * 20000, 0, b''
    for one, part in ((s, b'x'), (c, b'')):
        try:
            one.sendto(part, socket.MSG_NOSIGNAL, peer)
            print('ok')
        except OSError as error:
            print(name(error))
            if one is c:
                return
    while sent < len(data):
        # More than there is room for at once: it waits.
        sent += c.sendto(memoryview(data)[sent:], peer)
    c.shutdown(socket.SHUT_WR)
    while part := c.recv(1 << 20):
        got += part
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    print(got == data, datagrams.sendto(b'four', peer))


def waits_too_often(port):
    """Threads that wait for connections, more than may."""
    s, errors = listener(port), []

    def accept():
        try:
            s.accept()
        except OSError as error:
            errors.append(name(error))

    for _ in range(257):
        threading.Thread(target=accept, daemon=True).start()
    while not errors:
        time.sleep(0.01)
    print(*errors)
    time.sleep(600)


def waits_so_long():
    """No longer than the program says."""
    s, c, span = listener(7011), socket.socket(), struct.pack('ll', 0, 50_000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)
    for wait in (s.accept, s.accept, lambda: c.connect((MISSING, 1))):
        try:
            wait()
            print('ok')
        except OSError as error:
            print(name(error))
    print('writable', bool(select.select([], [c], [], 0)[1]))


def shares_port():
    s = socket.socket()
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        print('ok')
    except OSError as error:
        print(name(error))


def goes_on(port):
    """Its engine is killed."""
    c = socket.create_connection((PEER, port))
    s = listener(7000)
    blocked = []

    def accept():
        try:
            s.accept()
        except OSError as error:
            blocked.append(name(error))

    t = threading.Thread(target=accept, daemon=True)
    t.start()
    time.sleep(0.2)
    print('ready', os.getpid())
    try:
        ended = c.recv(10) == b''
    except OSError as error:
        ended = name(error) == 'ECONNRESET'
    t.join(20)
    print('ended', ended, 'accept', bool(blocked) and 'ENOSYS' not in blocked)
    loopback()


def unconnected(one):
    """What Python's ssl looks for."""
    one.setblocking(False)
    try:
        return one.recv(1)
    except OSError as error:
        return name(error)
    finally:
        one.setblocking(True)


def wildcard(port):
    """Over loopback three times, over the wire once, and from a port of its own to both."""
    got = []
    for family, to in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        s = socket.socket(family)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        soon(s.bind, ('', 7001))
        s.listen()
        if len(got) == 0:
            c = socket.create_connection((to, 7001))
        else:
            c = socket.socket(family)
            threading.Thread(target=lambda c=c, to=to: (time.sleep(0.05), c.connect((to, 7001)))).start()
            if len(got) == 1:
                select.select([s], [], [], 20)
        a, _ = s.accept()
        a.sendall(b'%d' % len(got))
        a.close()
        got.append(c.recv(1))
        c.close()
        if len(got) < 3:
            s.close()
    taken = socket.socket()
    try:
        taken.bind(('', 7001))
        refused = None
    except OSError as error:
        refused = name(error)
    there = []
    for to in (('127.0.0.1', 7001), (PEER, port)):
        one = socket.socket()
        one.bind(('', 0))
        own = one.getsockname()[1]
        one.connect(to)
        there.append(one.getsockname()[1] == own)
    a, _ = s.accept()
    a.close()
    print('ready', got, refused, *there, unconnected(socket.socket()), unconnected(s))
    c, peer = s.accept()
    echo(c)
    print(peer[0].removeprefix('::ffff:'), 'over')


def frees(port):
    """What was closed leaves its port to the kernel's sockets at once, unless a program that another test starts has it still: see `soon`."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        taken = 0
        for _ in range(30):
            with socket.socket(socket.AF_INET, kind) as s:
                soon(s.bind, ('', port))
            with socket.socket(socket.AF_INET, kind) as s:
                try:
                    s.bind(('127.0.0.1', port))
                except OSError as error:
                    taken += error.errno == errno.EADDRINUSE
        print(taken <= 5)


def near(port):
    """Both ends in one program, by the engine's own address."""
    s = listener(port)
    c = socket.create_connection((OWN, port))
    a, peer = s.accept()
    print('names', peer == c.getsockname(), c.getpeername() == (OWN, port) == a.getsockname(), peer[0] == OWN)
    # More than all buffers have, both ways at once, and halves end.
    threading.Thread(target=echo, args=(a,), daemon=True).start()
    sent, got = os.urandom(3_000_000), []
    threading.Thread(target=lambda: (c.sendall(sent), c.shutdown(socket.SHUT_WR)), daemon=True).start()
    while part := c.recv(1 << 20):
        got.append(part)
    print('echo', b''.join(got) == sent)
    c, e = socket.socket(), select.epoll()
    c.setblocking(False)
    e.register(c.fileno(), select.EPOLLIN | select.EPOLLOUT)
    code = c.connect_ex((OWN, port))
    print(errno.errorcode[code], e.poll(20) == [(c.fileno(), select.EPOLLOUT)], c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), bool(select.select([s], [], [], 20)[0]))
    a, _ = s.accept()
    c.setblocking(True)
    c.sendall(b'unread')
    select.select([a], [], [], 20)
    a.close()
    for act in (lambda: c.recv(1), lambda: socket.create_connection((OWN, 7998))):
        try:
            print(act())
        except OSError as error:
            print(name(error))
    bound, six = socket.socket(), socket.socket(socket.AF_INET6)
    bound.bind((OWN, 7555))
    bound.connect((OWN, port))
    six.connect(('::ffff:' + OWN, port))
    print(s.accept()[1] == (OWN, 7555), six.getpeername()[0])
    # What has just been closed takes no connection, unless a program that another test starts has it still: see `soon`.
    s.close()
    refused = []
    for _ in range(30):
        listener(port, again=True).close()
        refused.append(socket.socket().connect_ex((OWN, port)))
    print(refused.count(errno.ECONNREFUSED) >= 25)


def small_buffer(port):
    """What is written to a peer that reads nothing is no more than there is room for; accepted sockets have the listener's."""
    for early in (True, False):
        s, c, (level, name) = listener(port, again=True), socket.socket(), (socket.SOL_SOCKET, socket.SO_SNDBUF)
        (s if early else c).setsockopt(level, name, 4096)
        (c if early else s).setsockopt(level, socket.SO_RCVBUF, 4096)
        c.connect((OWN, port))
        a, _ = s.accept()
        one = a if early else c
        one.settimeout(0.2)
        sent = 0
        try:
            while sent < 1_000_000:
                sent += one.send(bytes(1000))
        except TimeoutError:
            pass
        print(sent < 200_000, one.getsockopt(level, name))
        for each in (a, c, s):
            each.close()


def asks_near(port):
    """Another program on the same engine."""
    for _ in range(20):
        with socket.create_connection((OWN, port)) as c:
            threading.Thread(target=lambda c=c: (c.sendall(b'x' * 300000), c.shutdown(socket.SHUT_WR)), daemon=True).start()
            got = 0
            while part := c.recv(65536):
                got += len(part)
            print('got', got)


def near_until_the_end(port):
    c = socket.create_connection((OWN, port))
    c.sendall(b'x')
    print('ready', c.recv(1))
    print(c.recv(1))


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    globals()[sys.argv[1]](*map(int, sys.argv[2:]))
