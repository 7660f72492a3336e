//! A supervisor of held calls that is killed with one of them in its hands: the keeper knows of it by the page that the kernel writes to.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use napier_linux::process::{HeldPage, HeldSends, Notifier, Program, Signals, wait_for_one};
use napier_testkit::python;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open};

const SUPERVISOR: &str = "killed::a_supervisor_that_is_killed_when_it_has_got_a_call";

/// A test of this file as a process of its own, which is told by its input and speaks by its standard error.
pub(crate) fn part(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.args(["--ignored", "--exact", test, "--nocapture"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
#[ignore = "a_call_whose_supervisor_was_killed_at_once_goes_on runs it"]
fn a_supervisor_that_is_killed_when_it_has_got_a_call() {
    let page = HeldPage::make().expect("a page");
    eprintln!("page {}", page.as_fd().as_raw_fd());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("it is told");
    let numbers: Vec<i32> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let process = pidfd_open(Pid::from_raw(numbers[0]).expect("a process"), PidfdFlags::empty()).expect("it lives");
    let held = pidfd_getfd(process, numbers[1], PidfdGetfdFlags::empty()).expect("a copy");
    let mut notifier = Notifier::new(held, page).expect("it holds calls");
    while notifier.receive().expect("calls").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(getpid(), Signal::KILL).expect("it ends");
}

#[test]
fn a_call_whose_supervisor_was_killed_at_once_goes_on() {
    let test = "a_call_whose_supervisor_was_killed_at_once_goes_on";
    if Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
        return napier_testkit::skip!(test, "python3 is not installed");
    }
    if !rustix::process::geteuid().is_root() {
        return napier_testkit::skip!(test, "a copy of a descriptor of the parent needs CAP_SYS_PTRACE");
    }
    let mut supervisor = part(SUPERVISOR).spawn().expect("it starts");
    let said = BufReader::new(supervisor.stderr.take().expect("a pipe"));
    let number = said.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("page ").map(str::to_owned));
    let number = number.expect("it has a page");
    let page = File::open(format!("/proc/{}/fd/{number}", supervisor.id())).expect("it is there").into();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = Command::new(python());
    command.args(["-c", "import socket; socket.socket(); print('went on')"]).stdin(Stdio::null()).stdout(writer);
    let signals = Signals::take().expect("a descriptor");
    let started = Program::start_held(&mut command, &signals, (supervisor.id(), &page), HeldSends::None);
    let (_program, held) = started.expect("it starts");
    drop(command);
    let mut told = supervisor.stdin.take().expect("a pipe");
    writeln!(told, "{} {}", std::process::id(), held.as_raw_fd()).expect("it is told");
    supervisor.wait().expect("it ends");
    let seen = wait_for_one(&[reader.as_fd()], Duration::from_secs(60)).expect("a wait");
    assert_eq!(seen, Some(0), "the call waits for ever");
    let mut all = String::new();
    reader.read_to_string(&mut all).expect("it speaks");
    assert_eq!(all, "went on\n");
}
