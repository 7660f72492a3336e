//! `--strict`: in force before the call returns, and how long it takes without; and what is put into a program.

use napier_testkit::python;
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
    bench.run("ip", &["link", "set", "lo", "up"]);
    for (mode, script, said) in [("suspend20", EPOLLS, "5\n"), ("busy-read", SOCKETS, "denied\n")] {
        let args = ["run", "--dev", "server", "--mode", mode, "--strict", "--", python(), "-c", script];
        let output = bench.napier(&args);
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), said), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

/// A worker, a daemon and one that became another user, which all make descriptors for ever and say how that went.
const MAKES: &str = "
import errno, os, select, socket, sys, time
end = sys.argv[1] + '/end'
def make(name):
    said = open(sys.argv[1] + '/said', 'a', 1)
    if name == 'user':
        os.setresuid(65534, 65534, 65534)
    while not os.path.exists(end):
        try:
            socket.socket().close(); select.epoll().close(); word = 'ok'
        except OSError as error:
            word = errno.errorcode[error.errno]
        said.write(name + ' ' + word + '\\n')
        time.sleep(0.01)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    make('daemon') if os.fork() == 0 else os._exit(0)
for name in ('worker', 'user'):
    if os.fork() == 0:
        make(name)
print(os.getpid())
make('first')
";

/// Processes that keep calls for those of a test.
fn keepers(folder: &str) -> usize {
    let is_ours = |pid: &std::path::Path| {
        let read = |file: &str| std::fs::read(pid.join(file)).unwrap_or_default();
        read("comm") == b"napier-keeper\n" && String::from_utf8_lossy(&read("environ")).contains(folder)
    };
    std::fs::read_dir("/proc").expect("it is there").flatten().filter(|entry| is_ours(&entry.path())).count()
}

#[test]
fn a_program_goes_on_when_the_command_that_answers_it_was_killed() {
    let Some(bench) = Bench::new("a_program_goes_on_when_the_command_that_answers_it_was_killed") else { return };
    for mode in ["suspend20", "busy-read"] {
        let folder = bench.folder.file(mode);
        std::fs::create_dir(&folder).expect("made");
        let mut command = bench.command(NAPIER);
        command.args(["run", "--dev", "server", "--mode", mode, "--strict", "--", python(), "-uc", MAKES, &folder]);
        let (running, _) = bench.begin(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let said = || std::fs::read_to_string(format!("{folder}/said")).unwrap_or_default();
        let names = ["first", "worker", "user", "daemon"];
        let all_say = |since: usize| {
            let said = said();
            names.iter().all(|name| said[since..].matches(&format!("{name} ok\n")).count() > 10)
        };
        napier_testkit::eventually("all make descriptors", || all_say(0));
        napier_testkit::eventually("one keeper is called so", || keepers(&folder_of(&bench)) == 1);
        end(running, "-KILL");
        let since = said().len();
        napier_testkit::eventually("all still do", || all_say(since));
        assert!(said().lines().all(|line| line.ends_with(" ok")), "{}", said());
        std::fs::write(format!("{folder}/end"), "").expect("written");
        napier_testkit::eventually("the keeper ends with the last of them", || keepers(&folder_of(&bench)) == 0);
        bench.undo(&[]);
        // The same end where the command was not killed.
        let mut command = bench.command(NAPIER);
        command.args(["run", "--dev", "server", "--mode", mode, "--strict", "--", python(), "-uc", MAKES, &folder]);
        assert!(bench.output(&mut command).status.success());
        napier_testkit::eventually("and with the command", || keepers(&folder_of(&bench)) == 0);
        assert!(bench.is_clean());
    }
}

fn folder_of(bench: &Bench) -> String {
    bench.folder.file("state")
}

/// Its children make sockets as fast as they can.
const STORMS: &str = "
import os, signal, socket, sys, time
parent = os.getpid()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while os.getppid() == parent:
            socket.socket().close()
        os._exit(0)
    children.append(child)
def ends(*_):
    for child in children:
        os.kill(child, signal.SIGKILL)
    os._exit(9)
signal.signal(signal.SIGTERM, ends)
print(parent)
# Python hears of a signal that comes just before a wait when that ends.
while True:
    time.sleep(0.1)
";

#[test]
fn a_signal_is_passed_on_while_calls_are_held_without_end() {
    let Some(bench) = Bench::new("a_signal_is_passed_on_while_calls_are_held_without_end") else { return };
    let (mut running, _) = bench.python("busy-read", &["--strict"], STORMS);
    std::thread::sleep(std::time::Duration::from_millis(300));
    super::kill(running.0.id(), "-TERM");
    napier_testkit::eventually("it ends", || running.0.try_wait().expect("it can be waited for").is_some());
    assert_eq!(running.0.wait().expect("it has ended").code(), Some(9), "{}", super::said(&mut running));
    assert!(bench.is_clean());
}

/// Goes into a control group of its own, and says which its socket is in and when it has its options.
const GROUPED: &str = "
import os, socket, subprocess, sys, time
open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
words = subprocess.run(['ss', '-Htlne', 'sport = :%d' % s.getsockname()[1]], capture_output=True, text=True).stdout.split()
print([word for word in words if word.startswith('cgroup:')][0].rsplit('/', 1)[1])
until = time.monotonic() + 20
while (s.getsockopt(1, 46), s.getsockopt(1, 69)) != (400, 1) and time.monotonic() < until:
    time.sleep(0.001)
print(s.getsockopt(1, 46), s.getsockopt(1, 69))
";

#[test]
fn a_socket_is_of_the_control_group_of_its_program() {
    let test = "a_socket_is_of_the_control_group_of_its_program";
    let Some(bench) = Bench::new(test).filter(|_| crate::common::has(test, "ss")) else { return };
    let groups = bench.folder.file("groups");
    std::fs::create_dir(&groups).expect("made");
    let mounted = bench.output(bench.command("mount").args(["-t", "cgroup2", "none", &groups]));
    let group = format!("{groups}/napier-test-{}", std::process::id());
    if !mounted.status.success() || std::fs::create_dir(&group).is_err() {
        let _ = bench.output(bench.command("umount").arg(&groups));
        napier_testkit::skip!(test, "no control group can be made: {}", stderr(&mounted));
        return;
    }
    let args = ["run", "--dev", "server", "--mode", "busy-read", "--strict", "--", python(), "-c", GROUPED, &group];
    let output = bench.napier(&args);
    let removed = std::fs::remove_dir(&group);
    assert!(bench.output(bench.command("umount").arg(&groups)).status.success());
    let wanted = format!("napier-test-{}\n400 1\n", std::process::id());
    assert_eq!((output.status.code(), text(&output)), (Some(0), wanted), "{}", stderr(&output));
    removed.expect("nothing is in it");
}

/// A master that leaves its worker when it ends.
const LEAVES: &str = "
import os, signal
if os.fork() == 0:
    signal.pause()
print(os.getpid())
signal.pause()
";

#[test]
fn what_a_program_leaves_is_asked_to_end_as_the_program_was() {
    let Some(bench) = Bench::new("what_a_program_leaves_is_asked_to_end_as_the_program_was") else { return };
    let (mut running, _) = bench.python("suspend20", &[], LEAVES);
    super::kill(running.0.id(), "-TERM");
    napier_testkit::eventually("it ends", || running.0.try_wait().expect("it can be waited for").is_some());
    let status = running.0.wait().expect("it has ended").code();
    let said = super::said(&mut running);
    assert!(status == Some(143) && said.contains("asked to end as well (signal 15)"), "{status:?} {said}");
    assert!(bench.is_clean());
}

#[test]
fn fullbusy_has_its_library_from_the_command_alone() {
    let test = "fullbusy_has_its_library_from_the_command_alone";
    let Some(bench) = Bench::new(test) else { return };
    // The program becomes another user, and starts another program.
    let script = "
import os, sys
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
os.execvp('python3', ['python3', '-c', 'print(open(\"/proc/self/maps\").read().count(\"/libnapier_modes-\") > 0)'])
";
    let run = |more: &[&str], program: &[&str]| {
        bench.napier(&[&["run", "--dev", "server", "--mode", "fullbusy"], more, &["--"], program].concat())
    };
    let output = run(&[], &[python(), "-c", script]);
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), "True\n"), "{}", stderr(&output));
    // What no library can be loaded into is refused.
    let static_program = bench.folder.file("static");
    let source = bench.folder.file("static.c");
    std::fs::write(&source, "int main(void) { return 0; }").expect("written");
    let built = std::process::Command::new("cc")
        .args(["-static", "-o", &static_program, &source])
        .stderr(Stdio::null())
        .status();
    if built.is_ok_and(|status| status.success()) {
        for more in [&[][..], &["--dry-run"]] {
            let output = run(more, &[&static_program]);
            assert_eq!(output.status.code(), Some(1));
            assert!(stderr(&output).contains("linked statically"), "{}", stderr(&output));
        }
    }
    let output = run(&["--preload", "/no/such/file"], &["true"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_dry_run_ends_as_the_run_would() {
    let Some(bench) = Bench::new("a_dry_run_ends_as_the_run_would") else { return };
    for mode in ["suspend20", "fullbusy", "threaded", "threaded-busy-poll", "defer20", "workqueue"] {
        let run = |more: &[&str], program: &str| {
            let output = bench.napier(&[&["run", "--dev", "server", "--mode", mode], more, &["--", program]].concat());
            (output.status.code(), stderr(&output), text(&output))
        };
        let (wet, dry) = (run(&[], "true"), run(&["--dry-run"], "true"));
        assert_eq!(wet.0, dry.0, "{mode}: {wet:?} {dry:?}");
        // The same reason for each value.
        if let Some((_, why)) = wet.1.trim_end().rsplit_once("instance ").filter(|_| wet.0 == Some(1)) {
            let why = why.split_once(": ").map_or(why, |(_, why)| why);
            assert!(dry.2.contains(why) || dry.1.contains(why), "{mode}: {wet:?} {dry:?}");
        }
        assert_eq!(
            (run(&[], "no-such-program").0, run(&["--dry-run"], "no-such-program").0),
            (Some(127), Some(127)),
            "{mode}"
        );
    }
    assert!(bench.is_clean());
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
        let args = ["run", "--dev", "server", "--mode", "suspend20", "--", python(), "-c", script];
        let output = bench.output(command.args(args));
        eprintln!("round {round}: {}{}", text(&output), stderr(&output));
    }
}
