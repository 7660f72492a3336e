"""A program whose call stalls the thread of the engine that reads its memory: the address lies in a page that nobody fills."""
import ctypes, fcntl, mmap, os, socket, struct, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
USERFAULTFD = {'x86_64': 323, 'aarch64': 282}[os.uname().machine]
UFFDIO_API, UFFDIO_REGISTER, MISSING = 0xc018aa3f, 0xc020aa00, 1


def empty_page():
    """A page that waits for this process to fill it; with the descriptor that keeps it so."""
    fd = libc.syscall(USERFAULTFD, os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        sys.exit(print('skipped: userfaultfd:', os.strerror(ctypes.get_errno())))
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fcntl.ioctl(fd, UFFDIO_API, bytearray(struct.pack('=QQQ', 0xaa, 0, 0)))
    fcntl.ioctl(fd, UFFDIO_REGISTER, bytearray(struct.pack('=QQQQ', at, mmap.PAGESIZE, MISSING, 0)))
    return page, at, fd


page, at, _kept = empty_page()
listener = socket.create_server(('10.79.0.9', int(sys.argv[1])))
other = socket.socket()
print('ready', flush=True)
connection, _ = listener.accept()
threading.Thread(target=lambda: libc.bind(other.fileno(), ctypes.c_void_p(at), 16), daemon=True).start()
print('stalls', flush=True)
while data := connection.recv(65536):
    connection.sendall(data)
