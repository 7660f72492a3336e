//! While suspension holds, a request costs no system call: neither the program's thread that serves it nor the softirq
//! threads make one. Counted from outside: the test runs itself once more as a traced program.
//!
//! Every suspend time-out (20 ms) a softirq thread looks whether the program still comes back, and a program that loses
//! its processor loses the suspension as well. So what is asked for is one stretch of requests without any system call.
#![allow(unsafe_code)]

mod common;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, PEER_V4, Pair, TESTED_V4, prefer, v4};
use napier_runtime::control::NapiSet;
use napier_runtime::device::LinkConfig;
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{SocketOption, UdpSocket};

/// Requests in a row, each of which was found by a wait that did not sleep.
const REQUESTS: u32 = 1000;
/// Requests that may be unanswered.
const WINDOW: u32 = 4;
const WORKER: &str = "worker";
/// How long interrupts stay suspended without a sign of the program.
const SUSPENDED: Duration = Duration::from_millis(20);
/// What the softirq threads call at most in that time, to look after it.
const CALLS_PER_LOOK: u32 = 10;
/// Longest life of the traced program, in seconds.
const LIFE_SECS: u32 = 60;

/// What the traced program tells the tracer: closing a descriptor that cannot exist.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mark {
    Begin = -770_001,
    /// A wait slept, so this was no stretch.
    Broken = -770_002,
    Complete = -770_003,
}

fn mark(mark: Mark) {
    // SAFETY: nobody owns a negative descriptor; the call fails and changes nothing.
    let result = unsafe { libc::close(mark as i32) };
    assert_eq!(result, -1);
}

/// Asks and reads answers without ever sleeping.
fn client(socket: &UdpSocket, end: &AtomicBool) {
    socket.set_nonblocking(true).unwrap();
    socket.setsockopt(SocketOption::BusyPoll, 50).unwrap();
    socket.setsockopt(SocketOption::PreferBusyPoll, 1).unwrap();
    let (mut unanswered, mut buffer) = (0, [0; 64]);
    while !end.load(Ordering::Relaxed) {
        while unanswered < WINDOW {
            socket.send_to(b"request", v4(TESTED_V4, 4000)).unwrap();
            unanswered += 1;
        }
        while socket.recv(&mut buffer).is_ok() {
            unanswered -= 1;
        }
    }
}

/// Serves [`REQUESTS`] requests between two marks, the second of which says whether a wait slept.
fn serve(context: &EventContext, socket: &UdpSocket) {
    let mut events = [Event::default(); 4];
    mark(Mark::Begin);
    let slept = context.stats().sleeps;
    let mut served = 0;
    while served < REQUESTS {
        assert!(context.wait(&mut events, Timeout::After(PATIENCE)).unwrap() > 0, "stalled");
        if context.stats().sleeps != slept {
            return mark(Mark::Broken);
        }
        let _ = socket.recv_batch(32, &mut |request, from| {
            served += 1;
            socket.send_to(request, from).unwrap();
        });
    }
    mark(Mark::Complete);
}

/// The program that is traced.
#[test]
#[ignore = "a part of the other test, which runs it"]
fn traced_program() {
    // SAFETY: sets this process's own alarm clock; nothing else uses it.
    unsafe { libc::alarm(LIFE_SECS) };
    let pair = Pair::new(&LinkConfig::default());
    let set = NapiSet {
        defer_hard_irqs: Some(100),
        gro_flush_timeout: Some(50_000),
        irq_suspend_timeout: Some(u64::try_from(SUSPENDED.as_nanos()).expect("short")),
        ..NapiSet::default()
    };
    pair.set_all(&pair.tested, &set);
    pair.peer_never_interrupts();
    let context = EventContext::new(&pair.engine);
    context.set_params(prefer(100_000)).unwrap();
    let socket = UdpSocket::builder().nonblocking(true).bind(&pair.tested_ns, v4(TESTED_V4, 4000)).unwrap();
    context.add(&socket, Interest::IN, 0).unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let client = std::thread::spawn({
        let (socket, end) = (UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap(), end.clone());
        move || client(&socket, &end)
    });
    let worker = std::thread::Builder::new().name(WORKER.to_owned()).spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            serve(&context, &socket);
        }
    });
    worker.unwrap().join().unwrap();
    end.store(true, Ordering::Relaxed);
    client.join().unwrap();
}

/// System calls of one stretch by the threads that matter: name of the thread, number of the call, how many.
type Calls = BTreeMap<(String, u64), u32>;

/// Follows every thread of a traced program until a stretch was without system calls.
struct Tracer {
    leader: libc::pid_t,
    /// Of a stretch, and when it began; `None` between stretches.
    calls: Option<(Calls, Instant)>,
    /// With how long each took.
    complete: Vec<(Calls, Duration)>,
}

impl Tracer {
    /// Goes on until the program has ended; returns its exit status.
    fn follow(&mut self) -> libc::c_int {
        loop {
            let mut status = 0;
            // SAFETY: `status` is ours to write; the flags ask for children of this thread only.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            assert!(pid > 0, "waiting for the traced program: {}", std::io::Error::last_os_error());
            if libc::WIFSTOPPED(status) {
                let signal = self.stopped(pid, status);
                // It may have been killed meanwhile: then the next wait says so.
                let _ = ptrace(libc::PTRACE_SYSCALL, pid, 0, signal as usize);
            } else if pid == self.leader {
                return status;
            }
        }
    }

    /// A thread has stopped; returns the signal to hand on to it.
    fn stopped(&mut self, pid: libc::pid_t, status: libc::c_int) -> libc::c_int {
        match libc::WSTOPSIG(status) {
            signal if signal == libc::SIGTRAP | 0x80 => {
                if let Some((number, argument)) = call_entered(pid) {
                    self.entered(pid, number, argument);
                }
                0
            }
            // Of the tracer's own making: at exec, at clone, and at the start of a thread.
            libc::SIGTRAP | libc::SIGSTOP => 0,
            signal => signal,
        }
    }

    fn entered(&mut self, pid: libc::pid_t, number: u64, argument: u64) {
        let is = |mark: Mark| number == libc::SYS_close.cast_unsigned() && argument as i32 == mark as i32;
        if is(Mark::Begin) {
            self.calls = Some((Calls::new(), Instant::now()));
        } else if is(Mark::Broken) {
            self.calls = None;
        } else if is(Mark::Complete) {
            self.complete.extend(self.calls.take().map(|(calls, begun)| (calls, begun.elapsed())));
            if self.found() {
                // SAFETY: the program is our own child and has not been waited for.
                unsafe { libc::kill(self.leader, libc::SIGKILL) };
            }
        } else if let Some((calls, _)) = &mut self.calls {
            let name = std::fs::read_to_string(format!("/proc/{}/task/{pid}/comm", self.leader)).unwrap_or_default();
            if name.trim() == WORKER || name.starts_with("softirq/") {
                *calls.entry((name.trim().to_owned(), number)).or_default() += 1;
            }
        }
    }

    /// The last stretch was what is looked for: its calls are those of timers that a busy machine let run out, and not of requests.
    fn found(&self) -> bool {
        let last = self.complete.last();
        last.is_some_and(|(calls, took)| calls.values().sum::<u32>() <= calls_of_timers(*took))
    }
}

/// Calls in a stretch that took so long which need not be of requests: the longer, the more, and never as many as there are requests.
fn calls_of_timers(took: Duration) -> u32 {
    let looks = u32::try_from(took.as_nanos() / SUSPENDED.as_nanos()).unwrap_or(u32::MAX);
    (REQUESTS / 50).saturating_add(looks.saturating_mul(CALLS_PER_LOOK)).min(REQUESTS / 4)
}

fn ptrace(request: libc::c_uint, pid: libc::pid_t, addr: usize, data: usize) -> std::io::Result<()> {
    // SAFETY: `pid` is a stopped tracee of this thread; the requests used here take numbers, or memory that the caller
    // vouches for.
    let result = unsafe { libc::ptrace(request, pid, addr, data) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Number and first argument of the call that a stopped thread is entering; `None` if it is leaving one.
fn call_entered(pid: libc::pid_t) -> Option<(u64, u64)> {
    // SAFETY: all bytes zero are a value of this plain record.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, (&raw mut info).addr()).ok()?;
    (info.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then(|| {
        // SAFETY: `op` says that the entry member of the union is the one that was written.
        let entry = unsafe { info.u.entry };
        (entry.nr, entry.args[0])
    })
}

/// Starts this program once more, to run [`traced_program`] with this thread as its tracer.
fn start() -> std::io::Result<libc::pid_t> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "traced_program", "--ignored", "--nocapture", "--test-threads=1"]).stdout(Stdio::null());
    // SAFETY: between fork and exec only an async-signal-safe call is made.
    unsafe {
        command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0));
    }
    let child = command.spawn()?;
    let pid = child.id().cast_signed();
    let mut status = 0;
    // SAFETY: `status` is ours to write.
    let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    assert!(stopped == pid && libc::WIFSTOPPED(status), "a traced program stops at its first instruction");
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as usize)?;
    ptrace(libc::PTRACE_SYSCALL, pid, 0, 0)?;
    Ok(pid)
}

#[test]
fn a_request_costs_no_system_call_while_suspension_holds() {
    let leader = match start() {
        Ok(leader) => leader,
        Err(error) => {
            let test = "a_request_costs_no_system_call_while_suspension_holds";
            napier_testkit::skip!(test, "no system calls counted: ptrace is refused: {error}");
            return;
        }
    };
    let mut tracer = Tracer { leader, calls: None, complete: Vec::new() };
    let status = tracer.follow();
    for (calls, took) in &tracer.complete {
        println!("{REQUESTS} requests in {took:?}: {calls:?}");
    }
    assert!(tracer.found(), "no stretch whose requests cost no system call; the traced program ended with {status:#x}");
}
