"""What a program gets that is `root`, a `user` without capabilities, or a `guest`: root in a user namespace of its own that owns no network."""
import ctypes, errno, os, socket, sys, time

ENGINE, ANY, HERE = '10.79.0.9', '', '127.0.0.1'
PRIORITY, BUSY_POLL, MARK = socket.SO_PRIORITY, 46, 36
KINDS = [socket.SOCK_STREAM, socket.SOCK_DGRAM]


def name(call, *arguments):
    try:
        call(*arguments)
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]


def become(who):
    if who == 'user':
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    if who == 'guest' and ctypes.CDLL(None).unshare(0x10000000) != 0:
        print('no user namespace can be made')
        sys.exit()


def option(family, kind, which, values):
    with socket.socket(family, kind) as s:
        return [name(s.setsockopt, socket.SOL_SOCKET, which, value) for value in values]


def kept(kind, where, is_early):
    """What the kernel's socket has that takes the place of the engine's."""
    with socket.socket() as listener, socket.socket(socket.AF_INET, kind) as s:
        listener.bind((HERE, 0))
        listener.listen()
        sets = lambda: [name(s.setsockopt, socket.SOL_SOCKET, PRIORITY, value) for value in [6, 7]]
        if is_early:
            sets()
        s.bind((where, 0))
        if not is_early:
            sets()
        s.connect(listener.getsockname())
        return s.getsockopt(socket.SOL_SOCKET, PRIORITY)


def port(kind, where):
    """What another one had is free when no process has its socket: one that a test starts has all that the engine has, until it is another program."""
    until = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_INET, kind) as s:
            said = name(s.bind, (where, 80))
        if said != 'EADDRINUSE' or time.monotonic() > until:
            return said
        time.sleep(0.01)


become(sys.argv[1])
for kind in KINDS:
    asked = [(PRIORITY, [6, 7, -1]), (MARK, [5]), (BUSY_POLL, [50, 20, 30, -1])]
    if kind == socket.SOCK_DGRAM:
        # Buffers by force.
        asked += [(33, [10_000]), (32, [10_000])]
    # The latter by a socket that no engine has.
    says, kernel = ([option(family, kind, *one) for one in asked] for family in [socket.AF_INET, socket.AF_UNIX])
    print('priority', *says[0], 'mark', *says[1])
    print('as the kernel', *(said == expected for said, expected in zip(says, kernel)))
    print('kept', *(kept(kind, where, is_early) for where in [ANY, HERE] for is_early in [True, False]))
    # By the slow door UDP is the kernel's, which has no such address.
    own = ENGINE if kind == socket.SOCK_STREAM or 'LD_PRELOAD' in os.environ else HERE
    print('ports', *(port(kind, where) for where in [own, ANY, HERE]))
