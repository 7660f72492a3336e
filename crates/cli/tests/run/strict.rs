//! `--strict`: in force before the call returns; and how long it takes without.

use std::process::Stdio;

use super::bench::{Bench, end, stderr};
use crate::common::{NAPIER, text};

const EPOLLS: &str = "
import ctypes, fcntl, os, select, struct
def params(fd):
    return struct.unpack('=IHBB', fcntl.ioctl(fd, 0x80088a02, bytes(8)))[:3]
def look():
    for _ in range(50):
        e = select.epoll()
        assert params(e) == (0, 64, 1), params(e)
        assert fcntl.fcntl(e, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
look()
libc = ctypes.CDLL(None, use_errno=True)
e = libc.epoll_create(1)
assert params(e) == (0, 64, 1) and fcntl.fcntl(e, fcntl.F_GETFD) == 0
# What the kernel refuses is refused.
assert libc.epoll_create1(1) == -1 and ctypes.get_errno() == 22
assert libc.epoll_create(0) == -1 and ctypes.get_errno() == 22
# The program's own limit of descriptors counts.
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (e + 1, hard))
assert libc.epoll_create1(0) == -1 and ctypes.get_errno() == 24, ctypes.get_errno()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
if os.fork() == 0:
    look()
    os._exit(5)
_, status = os.wait()
print(os.waitstatus_to_exitcode(status))
";

const SOCKETS: &str = "
import ctypes, fcntl, os, socket
def look():
    for family, kind in [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM)]:
        s = socket.socket(family, kind)
        assert (s.getsockopt(1, 46), s.getsockopt(1, 69)) == (400, 1)
        assert s.getsockopt(1, socket.SO_TYPE) == kind and s.getsockopt(1, socket.SO_DOMAIN) == family
        assert os.fstat(s.fileno()).st_uid == os.getuid(), os.fstat(s.fileno())
look()
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.socket(2, 1 | socket.SOCK_NONBLOCK, 0)
assert fcntl.fcntl(fd, fcntl.F_GETFD) == 0 and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
assert libc.socket(2, 99, 0) == -1 and ctypes.get_errno() == 22
assert libc.socket(2, 1, 17) == -1 and ctypes.get_errno() == 93
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname()); a, _ = l.accept()
assert (a.getsockopt(1, 46), a.getsockopt(1, 69)) == (400, 1)
x = socket.socketpair()
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
look()
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
except PermissionError:
    print('denied')
";

#[test]
fn a_descriptor_has_its_mode_before_the_call_returns() {
    let Some(bench) = Bench::new("a_descriptor_has_its_mode_before_the_call_returns") else { return };
    let at_first = bench.napis();
    bench.output(bench.command("ip").args(["link", "set", "lo", "up"]));
    for (mode, script, said) in [("suspend20", EPOLLS, "5\n"), ("busy-read", SOCKETS, "denied\n")] {
        let args = ["run", "--dev", "server", "--mode", mode, "--strict", "--", "python3", "-c", script];
        let output = bench.napier(&args);
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), said), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn a_program_that_nobody_answers_ends() {
    let Some(bench) = Bench::new("a_program_that_nobody_answers_ends") else { return };
    let (running, pid) = bench.python("suspend20", &["--strict"], super::WAITS);
    end(running, "-KILL");
    let process = format!("/proc/{pid}/stat");
    napier_testkit::eventually("it ends", || {
        std::fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "))
    });
    assert!(bench.napier(&["host", "undo"]).status.success());
}

#[test]
fn waits_are_shortened_for_fullbusy_only() {
    let test = "waits_are_shortened_for_fullbusy_only";
    let Some(bench) = Bench::new(test) else { return };
    let script = "
import ctypes, os, select, signal, threading, time
e = select.epoll()
def span(wait):
    begun = time.monotonic(); e.poll(wait); return time.monotonic() - begun
zero, some = span(0), span(0.02)
# A signal ends a wait whichever of its parts it meets, and is blocked for nobody afterwards.
signal.signal(signal.SIGUSR1, lambda *_: None)
libc, events = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(12)
def interrupted():
    own = threading.get_ident()
    threading.Timer(0.05, lambda: signal.pthread_kill(own, signal.SIGUSR1)).start()
    return libc.epoll_wait(e.fileno(), events, 1, 20000) == -1 and ctypes.get_errno() == 4
cut = all(interrupted() for _ in range(10)) and not signal.pthread_sigmask(signal.SIG_BLOCK, [])
print(zero > 0.0009, some >= 0.02, cut, open('/proc/self/maps').read().count('libnapier_modes') > 0)
";
    let run = |more: &[&str], program: &[&str]| {
        bench.napier(&[&["run", "--dev", "server", "--mode", "fullbusy"], more, &["--"], program].concat())
    };
    let output = run(&[], &["python3", "-c", script]);
    if stderr(&output).contains("libnapier_modes.so is not beside") {
        napier_testkit::skip!(test, "the library is not built: cargo build -p napier-preload");
    } else {
        assert_eq!(
            (output.status.code(), text(&output).as_str()),
            (Some(0), "True True True True\n"),
            "{}",
            stderr(&output)
        );
    }
    // What no library can be loaded into is refused.
    let static_program = bench.folder.file("static");
    let source = bench.folder.file("static.c");
    std::fs::write(&source, "int main(void) { return 0; }").expect("written");
    let built = std::process::Command::new("cc")
        .args(["-static", "-o", &static_program, &source])
        .stderr(Stdio::null())
        .status();
    if built.is_ok_and(|status| status.success()) {
        let output = run(&[], &[&static_program]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("linked statically"), "{}", stderr(&output));
    }
    let output = run(&["--preload", "/no/such/file"], &["true"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Prints how long a descriptor is there before it has its mode.
#[test]
#[ignore = "a measurement: cargo test -p napier --test run -- --ignored --nocapture until_in_force"]
fn until_in_force() {
    let Some(bench) = Bench::new("until_in_force") else { return };
    let script = "
import fcntl, random, select, struct, time
random.seed(1)
spans = []
for _ in range(100):
    time.sleep(random.random() * 0.05)
    e = select.epoll(); begun = time.monotonic()
    while struct.unpack('=IHBB', fcntl.ioctl(e, 0x80088a02, bytes(8)))[:3] != (0, 64, 1):
        time.sleep(0.0001)
    spans.append(time.monotonic() - begun)
spans.sort()
print('ms until in force over 100 descriptors: median %.2f, 90 of 100 %.2f, longest %.2f' % tuple(1e3 * spans[n] for n in (50, 90, 99)))
";
    for round in 0..3 {
        let mut command = bench.command(NAPIER);
        let args = ["run", "--dev", "server", "--mode", "suspend20", "--", "python3", "-c", script];
        let output = bench.output(command.args(args));
        eprintln!("round {round}: {}{}", text(&output), stderr(&output));
    }
}
