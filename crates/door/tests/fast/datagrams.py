"""Parts of programs with sockets for datagrams; the first word says which, the second is the port of the peer, which echoes what it gets."""
import asyncio, ctypes, errno, os, select, signal, socket, struct, subprocess, sys, threading, time

ENGINE, PEER = '10.79.0.9', '10.79.0.2'
libc = ctypes.CDLL(None, use_errno=True)
DGRAM = socket.SOCK_DGRAM


def made(family=socket.AF_INET):
    s = socket.socket(family, DGRAM)
    s.settimeout(60)
    return s


def at(*address):
    s = made()
    s.bind(address)
    return s


def freed(*address):
    """Bound to what was closed: a process that a test starts has all that the engine has, here in the same process, until it is another program."""
    until = time.monotonic() + 60
    while True:
        try:
            return at(*address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise


def name(call, *arguments):
    """What a call comes to: `ok`, or the name of its error."""
    try:
        call(*arguments)
        return 'ok'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def serve(port):
    s = at(ENGINE, port)
    print('ready', s.getsockname(), flush=True)
    while True:
        data, sender = s.recvfrom(65536)
        s.sendto(data, sender)


def asks(port):
    """By a socket with a peer, and by one without."""
    peer = (PEER, port)
    with made() as s:
        print(s.getsockname(), name(s.getpeername), name(s.send, b'x'))
        s.connect(peer)
        print(s.getpeername() == peer, s.getsockname()[0], s.getsockname()[1] > 0)
        for data in [b'one', b'', b'x' * 1400]:
            assert s.send(data) == len(data)
            assert s.recv(2000) == data
        s.setblocking(True)
        assert os.write(s.fileno(), b'written') == 7
        assert os.read(s.fileno(), 100) == b'written'
        assert os.writev(s.fileno(), [b'a', b'', b'bc']) == 3
        room = [bytearray(2), bytearray(5)]
        assert os.readv(s.fileno(), room) == 3 and bytes(room[0] + room[1][:1]) == b'abc'
        s.settimeout(60)
        s.connect((PEER, port + 1 if port < 65535 else 1))
        print(s.getpeername()[1] != port)
        libc.connect(s.fileno(), struct.pack('H14x', socket.AF_UNSPEC), 16)
        print(name(s.getpeername), name(s.send, b'x'))
        s.sendto(b'again', peer)
        print(s.recvfrom(100) == (b'again', peer))
    with made() as s:
        assert s.sendto(b'first', peer) == 5
        with made() as other:
            other.connect((PEER, 0))
            print(other.getsockname()[0], other.getpeername()[1])
        print(s.recvfrom(100) == (b'first', peer), s.getsockname()[0], s.getsockname()[1] > 0)
        for size in [1472, 1473, 8000, 65507]:
            data = os.urandom(size)
            s.sendto(data, peer)
            assert s.recv(70000) == data, size
        print(name(s.sendto, bytes(65508), peer))
        print(s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == DGRAM, s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL))
        print(libc.listen(s.fileno(), 1), ctypes.get_errno() == errno.EOPNOTSUPP)


def places(port):
    """Who has which address."""
    to = int(sys.argv[3])
    with at(ENGINE, 7100) as s:
        with made() as other:
            print(name(other.bind, (ENGINE, 7100)), name(other.bind, ('0.0.0.0', 7100)), name(other.bind, (ENGINE, 0)))
            print(name(other.bind, (ENGINE, 7101)))
        print(name(s.bind, (ENGINE, 7102)))
    for _ in range(20):
        freed(ENGINE, 7100).close()
    with at(ENGINE, 0) as s:
        print(s.getsockname()[1] > 0, name(s.sendto, b'x', ('127.0.0.1', 9)))
        # Who has no peer is not told.
        s.sendto(b'after it', (PEER, port))
        print(s.recv(100))
    for number in range(50):
        with freed(ENGINE, 7100) as s:
            s.sendto(b'%d' % number, (PEER, to))


def filters(port):
    """A peer is heard alone."""
    with at(ENGINE, 7103) as s:
        s.connect((PEER, port))
        print('ready', flush=True)
        s.send(b'asked')
        print(s.recv(100))
        s.settimeout(0.1)
        try:
            s.recv(100)
        except TimeoutError:
            print('nothing else')


def messages(port):
    """Looks, cuts and control messages."""
    peer = (PEER, port)
    s = at(ENGINE, 7104)
    s.sendto(b'0123456789', peer)
    print(s.recv(3, socket.MSG_PEEK), s.recv_into(bytearray(4), 0, socket.MSG_PEEK | socket.MSG_TRUNC))
    count = ctypes.c_int()
    assert libc.ioctl(s.fileno(), 0x541b, ctypes.byref(count)) == 0
    print(count.value)
    data, control, flags, sender = s.recvmsg(4)
    print(data, control, flags == socket.MSG_TRUNC, sender == peer)
    s.setblocking(True)
    print(name(s.recv, 4, socket.MSG_DONTWAIT), name(s.recv, 4, socket.MSG_ERRQUEUE))
    s.sendto(b'', peer)
    print(s.recvmsg(4)[:3])
    s.setsockopt(socket.IPPROTO_IP, socket.IP_PKTINFO if hasattr(socket, 'IP_PKTINFO') else 8, 1)
    s.setsockopt(socket.IPPROTO_IP, 12, 1)
    s.setsockopt(socket.IPPROTO_IP, 13, 1)
    s.sendmsg([b'ab', b'c'], [(socket.IPPROTO_IP, 1, struct.pack('i', 0x10)), (socket.IPPROTO_IP, 2, struct.pack('i', 9))], 0, peer)
    data, control, flags, sender = s.recvmsg(10, 200)
    kinds = {kind: value for level, kind, value in control}
    print(data, flags, sorted(kinds), socket.inet_ntoa(kinds[8][4:8]), struct.unpack('i', kinds[2])[0] > 0, len(kinds[1]))
    own = struct.pack('i', 0) + socket.inet_aton(ENGINE) + bytes(4)
    s.sendmsg([b'own'], [(socket.IPPROTO_IP, 8, own)], 0, peer)
    data, control, flags, sender = s.recvmsg(10, 20)
    print(data, flags == socket.MSG_CTRUNC)
    print(name(s.sendmsg, [b'x'], [(socket.SOL_UDP if hasattr(socket, 'SOL_UDP') else 17, 103, struct.pack('H', 8))], 0, peer))
    print(name(s.setsockopt, 17, 103, 1000), name(s.setsockopt, 17, 104, 1), s.getsockopt(socket.IPPROTO_IP, 8))
    print('done', flush=True)
    signal.pause()


class Part(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]


class Head(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('name_len', ctypes.c_uint), ('parts', ctypes.POINTER(Part)), ('parts_len', ctypes.c_size_t),
                ('control', ctypes.c_void_p), ('control_len', ctypes.c_size_t), ('flags', ctypes.c_int)]


class Counted(ctypes.Structure):
    _fields_ = [('head', Head), ('len', ctypes.c_uint)]


def many(port):
    """Several at once, also past the C library's functions."""
    s = socket.socket(socket.AF_INET, DGRAM)
    s.connect((PEER, port))
    buffers = [ctypes.create_string_buffer(b'%03d' % number, 8) for number in range(20)]
    parts = [Part(ctypes.addressof(buffer), 3) for buffer in buffers]
    all = (Counted * 20)(*[Counted(Head(None, 0, ctypes.pointer(part), 1, None, 0, 0), 0) for part in parts])
    sendmmsg, recvmmsg = {'x86_64': (307, 299), 'aarch64': (269, 243)}[os.uname().machine]
    for send, receive in [(libc.sendmmsg, libc.recvmmsg), (lambda *a: libc.syscall(sendmmsg, *a), lambda *a: libc.syscall(recvmmsg, *a))]:
        assert send(s.fileno(), all, 20, 0) == 20
        got = 0
        while got < 20:
            for part in parts:
                part.len = 8
            count = receive(s.fileno(), all, 20, 0x10000, None)
            assert count > 0
            for nth in range(count):
                assert all[nth].len == 3 and buffers[nth].raw[:3] == b'%03d' % (got + nth), (got, nth, buffers[nth].raw)
            got += count
        for number, (buffer, part) in enumerate(zip(buffers, parts)):
            buffer.raw, part.len = b'%03d' % number + bytes(5), 3
    assert receive(s.fileno(), all, 20, 0x40, None) == -1
    print('done', got)


def queued(s, *wanted):
    """Waits until as many messages of these lengths wait in the pair: past the library, which reads no heads by this call."""
    count, ioctl = ctypes.c_int(), {'x86_64': 16, 'aarch64': 29}[os.uname().machine]
    while count.value != sum(56 + one for one in wanted):
        assert libc.syscall(ioctl, s.fileno(), 0x541b, ctypes.byref(count)) == 0
        time.sleep(0.001)


def hears():
    """A socket that is told of errors without a peer."""
    s = at(ENGINE, 0)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)
    s.setblocking(True)
    return s


def later(port):
    """An error behind a datagram, and one that is looked at."""
    s, now = hears(), socket.MSG_DONTWAIT
    buffers = [ctypes.create_string_buffer(8) for _ in range(3)]
    parts = [Part(ctypes.addressof(buffer), 8) for buffer in buffers]
    all = (Counted * 3)(*[Counted(Head(None, 0, ctypes.pointer(part), 1, None, 0, 0), 0) for part in parts])
    for flags in [now, 0, 0x10000]:
        for number in range(2):
            s.sendto(b'one', (PEER, port))
            queued(s, *[3] * (number + 1))
        s.sendto(b'refused', (ENGINE, 1))
        queued(s, 3, 3, 0)
        print(libc.recvmmsg(s.fileno(), all, 3, flags, None), buffers[0].value, name(s.recv, 10, now), name(s.recv, 10, now))
    s.sendto(b'refused', (ENGINE, 1))
    queued(s, 0)
    count = ctypes.c_int(7)
    print(libc.ioctl(s.fileno(), 0x541b, ctypes.byref(count)), count.value)
    print(libc.recvmmsg(s.fileno(), all, 3, now, None), errno.errorcode[ctypes.get_errno()], name(s.recv, 10, now))
    s.sendto(b'refused', (ENGINE, 1))
    queued(s, 0)
    # As with the kernel, who looks at it has it.
    print(name(s.recv, 10, now | socket.MSG_PEEK), name(s.recv, 10, now))


def parts(port):
    """Reads into several buffers, into none, and where a file has its place."""
    s = hears()
    s.sendto(b'a datagram', (PEER, port))
    queued(s, 10)
    one, other = ctypes.create_string_buffer(4), ctypes.create_string_buffer(20)
    none, both = (Part * 2)(), (Part * 2)(Part(ctypes.addressof(one), 4), Part(ctypes.addressof(other), 20))
    fd, preadv2 = s.fileno(), {'x86_64': 327, 'aarch64': 286}[os.uname().machine]
    here = ctypes.c_long(-1)
    print(libc.readv(fd, none, 2), libc.readv(fd, none, 0), libc.preadv2(fd, none, 2, here, 0))
    for at_once, call in [(8, libc.preadv2), (0, libc.preadv64v2), (1, lambda *a: libc.syscall(preadv2, *a[:4], 0, a[4]))]:
        print(call(fd, both, 2, here, at_once), one.raw, other.value)
        one.value, other.value = b'', b''
        s.sendto(b'a datagram', (PEER, port))
        queued(s, 10)
    # One of them has two names.
    code = lambda call, *arguments: (call(*arguments), {errno.EOPNOTSUPP: 'EOPNOTSUPP'}.get(ctypes.get_errno()) or errno.errorcode[ctypes.get_errno()])
    print(code(libc.preadv2, fd, both, 2, ctypes.c_long(0), 0), code(libc.preadv2, fd, both, 2, here, 0x1000))
    print(libc.readv(fd, both, 2), code(libc.preadv2, fd, both, 2, here, 8))


def most(port):
    """As many buffers as the kernel takes."""
    s = hears()
    for lens in [[1] * 1024, [60 + at % 7 for at in range(1024)], [200] * 300 + [0, 3] + [7] * 722, [65507] + [0] * 1023, [0] * 1024]:
        data = os.urandom(sum(lens))
        at = [sum(lens[:nth]) for nth in range(1024)]
        assert s.sendmsg([data[start:start + len] for start, len in zip(at, lens)], [], 0, s.getsockname()) == len(data)
        assert s.recv(65536, socket.MSG_PEEK) == data
        for flags, room in [(socket.MSG_PEEK, lens), (socket.MSG_PEEK, [100] * 1024), (0, [len + nth % 2 for nth, len in enumerate(lens)])]:
            buffers = [bytearray(len) for len in room]
            got, _, flags, _ = s.recvmsg_into(buffers, 0, flags)
            assert got == len(data) and b''.join(buffers)[:got] == data and flags == 0, (lens[:3], room[:3], got)
        s.sendto(data + b'more', s.getsockname()) if len(data) < 65000 else s.sendto(data, s.getsockname())
        buffers = [bytearray(len) for len in lens]
        got, _, flags, _ = s.recvmsg_into(buffers)
        assert got == len(data) and b''.join(buffers) == data and (flags == socket.MSG_TRUNC) == (len(data) < 65000)
    s.connect((PEER, port))
    assert os.writev(s.fileno(), [b'x'] * 1024) == 1024 and os.readv(s.fileno(), [bytearray(1) for _ in range(1024)]) == 1024
    print('done')


def waits(port):
    """select, poll and epoll, and a thread that sleeps in a call."""
    peer = (PEER, port)
    s = made()
    poll, epoll = select.poll(), select.epoll()
    poll.register(s, select.POLLIN)
    epoll.register(s, select.EPOLLIN | select.EPOLLET)
    s.connect(peer)
    print(select.select([s], [s], [], 0)[1] == [s], poll.poll(0), epoll.poll(0))
    for _ in range(100):
        s.send(b'x')
        assert select.select([s], [], [], 60)[0] == [s]
        assert poll.poll(60000) and epoll.poll(60)
        assert s.recv(10) == b'x'
        assert not poll.poll(0)
    got = []
    thread = threading.Thread(target=lambda: got.append(s.recv(10)))
    thread.start()
    s.send(b'woken')
    thread.join()
    print(got)
    s.setblocking(False)
    print(name(s.recv, 10))
    s.settimeout(0.05)
    try:
        s.recv(10)
    except TimeoutError:
        print('in time')
    t = socket.socket(socket.AF_INET, DGRAM)
    t.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 50000))
    t.bind((ENGINE, 0))
    print(name(t.recv, 10))
    thread = threading.Thread(target=lambda: got.append(s.recv(10)))
    s.settimeout(60)
    thread.start()
    s.shutdown(socket.SHUT_RD)
    thread.join()
    print(got[1:], name(t.shutdown, socket.SHUT_RD))
    s.shutdown(socket.SHUT_WR)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(name(s.send, b'x'))
    asyncio.run(by_asyncio(peer))


async def by_asyncio(peer):
    """As most programs in this language do it."""
    class Answers(asyncio.DatagramProtocol):
        def datagram_received(self, data, sender):
            answers.put_nowait((data, sender))
    answers = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for where in [dict(remote_addr=peer), dict(local_addr=(ENGINE, 0))]:
        transport, _ = await loop.create_datagram_endpoint(Answers, **where)
        for number in range(50):
            transport.sendto(b'%d' % number, None if 'remote_addr' in where else peer)
            assert await asyncio.wait_for(answers.get(), 60) == (b'%d' % number, peer)
        transport.close()
    print('asyncio')


def refused(port):
    """Nobody is there: who has a peer hears it."""
    with made() as s:
        s.connect((PEER, port))
        s.send(b'x')
        print(name(s.recv, 10))
        s.send(b'x')
        s.setblocking(True)
        print(select.select([s], [], [], 60)[0] == [s], name(s.recv, 10), name(s.recv, 10, socket.MSG_DONTWAIT))


def left(port):
    """What is the kernel's."""
    here = socket.socket(socket.AF_INET, DGRAM)
    here.settimeout(60)
    here.bind(('127.0.0.1', 0))
    epoll = select.epoll()
    for how in ['connect', 'sendto']:
        s = made()
        s.setblocking(False)
        epoll.register(s, select.EPOLLIN)
        if how == 'connect':
            s.connect(here.getsockname())
            s.send(b'here')
        else:
            s.sendto(b'here', here.getsockname())
        data, sender = here.recvfrom(100)
        here.sendto(data, sender)
        assert epoll.poll(60)
        print(how, s.recv(100), s.getsockname()[0] in ['127.0.0.1', '0.0.0.0'])
        epoll.unregister(s)
        s.close()
    group = made()
    group.bind(('0.0.0.0', 7105))
    member = struct.pack('4s4s', socket.inet_aton('239.1.2.3'), socket.inet_aton('127.0.0.1'))
    print(name(group.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member), group.getsockname())
    fixed = at(ENGINE, 7106)
    print(name(fixed.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member), name(fixed.connect, ('127.0.0.1', 9)))
    # A wildcard is the engine's address and the kernel's.
    with made() as both, made() as client:
        both.bind(('', 7107))
        print('ready', flush=True)
        client.sendto(b'near', ('127.0.0.1', 7107))
        data, sender = both.recvfrom(100)
        both.sendto(data, sender)
        print(client.recv(100))
        data, sender = both.recvfrom(100)
        both.sendto(data, sender)
        print(data, sender[0])


def children(port):
    """fork keeps it, exec and others do not get it."""
    s = made()
    s.connect((PEER, port))
    child = os.fork()
    if child == 0:
        s.send(b'of the child')
        # What a child of its own closes, which shares its memory, it has still.
        subprocess.run([sys.executable, '-c', 'pass'], close_fds=True)
        s.send(b'and later')
        os._exit(0 if [s.recv(100), s.recv(100)] == [b'of the child', b'and later'] else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    # A child by vfork closes all descriptors in memory that is its parent's.
    print(subprocess.run([sys.executable, '-c', 'pass'], close_fds=True).returncode)
    s.send(b'after it')
    print(s.recv(100))
    copy = s.dup()
    s.close()
    copy.send(b'of a copy')
    print(copy.recv(100), os.get_inheritable(copy.fileno()))
    print(name(os.set_inheritable, copy.fileno(), True), name(os.dup2, copy.fileno(), 0))
    print(os.spawnlp(os.P_WAIT, sys.executable, sys.executable, '-c', f'import os; os.fstat({copy.fileno()})') != 0)
    one, other = socket.socketpair()
    print(name(socket.send_fds, one, [b'x'], [copy.fileno()]), name(os.sendfile, copy.fileno(), os.open(sys.executable, os.O_RDONLY), 0, 10))
    number = copy.fileno()
    os.close(os.dup(number))
    copy.close()
    # A number that was one's is a file's, or another socket's.
    reader, writer = os.pipe()
    print(number in [reader, writer], os.write(writer, b'bytes'), os.read(reader, 100))


def mapped(port):
    """A socket of both families."""
    with made(socket.AF_INET6) as s:
        peer = ('::ffff:' + PEER, port)
        s.sendto(b'mapped', peer)
        data, sender = s.recvfrom(100)
        print(data, sender[:2] == peer, s.getsockname()[0])
        s.connect(peer)
        s.send(b'connected')
        print(s.recv(100), s.getsockname()[0], s.getpeername()[:2] == peer)
    with made(socket.AF_INET6) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        print(name(s.connect, peer))


def newer(port):
    """IPv6."""
    here, peer = ('fd79::9', 7109), ('fd79::2', port)
    with made(socket.AF_INET6) as s:
        s.bind(here)
        for flag in [49, 51, 66]:
            s.setsockopt(socket.IPPROTO_IPV6, flag, 1)
        s.sendmsg([b'six'], [(socket.IPPROTO_IPV6, 67, struct.pack('i', 8))], 0, peer)
        data, control, flags, sender = s.recvmsg(100, 200)
        kinds = {kind: value for level, kind, value in control}
        print(data, sender[:2] == peer, s.getsockname()[:2] == here, sorted(kinds), socket.inet_ntop(socket.AF_INET6, kinds[50][:16]), flags)
    with made(socket.AF_INET6) as s:
        s.connect(peer)
        for size in [0, 1000, 1452, 1453, 20000]:
            data = os.urandom(size)
            s.send(data)
            assert s.recv(65536) == data, size
        print(s.getsockname()[0], s.getpeername()[:2] == peer)
        s.connect(('fd79::2', 1))
        s.send(b'x')
        print(name(s.recv, 10))


def near(port):
    """Programs on one engine, and one with itself, by its address."""
    server = (ENGINE, port)
    with made() as s, at(ENGINE, 0) as other:
        s.connect(server)
        print(s.getsockname()[0], s.getpeername() == server)
        for size in [0, 1000, 65507]:
            data = os.urandom(size)
            s.send(data)
            assert s.recv(65536) == data, size
        other.sendto(b'not of the peer', s.getsockname())
        other.setsockopt(socket.IPPROTO_IP, 8, 1)
        other.sendto(b'itself', other.getsockname())
        data, control, _, sender = other.recvmsg(100, 100)
        print(data, sender == other.getsockname(), socket.inet_ntoa(control[0][2][4:8]))
        s.setblocking(False)
        print(name(s.recv, 100))
        s.setblocking(True)
        s.connect((ENGINE, 1))
        s.send(b'x')
        print(name(s.recv, 10))
    with made(socket.AF_INET6) as s:
        s.sendto(b'mapped', ('::ffff:' + ENGINE, port))
        print(s.recvfrom(100)[0], s.getsockname()[0])
    with made() as s:
        s.connect(server)
        s.setblocking(True)
        for _ in range(3000):
            s.send(bytes(1000))
        print('sent')


def flood(port):
    """More than there is room for anywhere: the program waits, and nothing stays behind."""
    s = made()
    s.setblocking(True)
    s.connect((PEER, port))
    for _ in range(20000):
        s.send(bytes(1400))
    for size in [60000] * 50:
        s.send(bytes(size))
    s.send(b'the end')
    print('sent', flush=True)
    signal.pause()


def hostile(port):
    """Anything, written past the library; the program's other socket is as it was."""
    s, other = at(ENGINE, 7108), made()
    s.setblocking(True)
    other.connect((PEER, port))
    raw = libc.__write
    head = bytearray(56)
    head[0:4], head[4:6], head[6:8], head[8:10] = struct.pack('I', 0x4e415044), struct.pack('H', 1), struct.pack('H', 15), struct.pack('H', 2)
    count = 0
    for number in range(2000):
        data = bytearray(os.urandom(number % 200))
        if number % 2:
            data = head + data
            data[os.urandom(1)[0] % len(data)] = os.urandom(1)[0]
            data[56 // 2:] = os.urandom(len(data) - 28)
        raw(s.fileno(), bytes(data), len(data))
        count += 1
    other.send(b'fine')
    print(count, other.recv(100), flush=True)
    libc.shutdown(s.fileno(), 2)
    s.close()
    print('closed', flush=True)
    signal.pause()


def half(port):
    """Ends its writing half, past the library: by a number that this does not know."""
    s = made()
    s.connect((PEER, port))
    s.send(b'x')
    print(s.recv(10), flush=True)
    PIDFD_GETFD = 438
    copy = libc.syscall(PIDFD_GETFD, os.pidfd_open(os.getpid()), s.fileno(), 0)
    print(copy >= 0, libc.shutdown(copy, socket.SHUT_WR), flush=True)
    signal.pause()


def until_it_ends(port):
    s = made()
    s.connect((PEER, port))
    s.send(b'x')
    s.recv(10)
    print('ready', flush=True)
    print(name(s.recv, 10), name(s.send, b'x'), name(s.recv, 10))
    with socket.socket(socket.AF_INET, DGRAM) as new:
        new.bind(('127.0.0.1', 0))
        new.sendto(b'kernel', new.getsockname())
        print(new.recv(10))


def too_many(port):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, 6000))
    all = []
    try:
        while True:
            all.append(socket.socket(socket.AF_INET, DGRAM))
    except OSError as error:
        print(len(all), errno.errorcode[error.errno], flush=True)
    all.clear()
    print(name(made), flush=True)
    signal.pause()


{part.__name__: part for part in [serve, asks, places, filters, messages, many, later, parts, most, waits, refused, left, children, mapped, newer, near, flood, hostile, half, until_it_ends, too_many]}[sys.argv[1]](int(sys.argv[2]))
