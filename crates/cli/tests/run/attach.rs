//! `napier run --attach`: a process that runs already.

use napier_testkit::eventually;

use super::bench::{Bench, end, stderr};
use super::{SUSPEND20, WAITS, epoll_of, is_suspended};

/// With an epoll instance that it set itself beside one that it did not.
const SETS_ONE: &str = "
import fcntl, os, select, struct, time
one, two = select.epoll(), select.epoll()
fcntl.ioctl(two, 0x40088a01, struct.pack('=IHBB', 33, 16, 1, 0))
print(os.getpid())
time.sleep(60)
";

#[test]
fn a_running_process_gets_a_mode_and_loses_it() {
    let Some(bench) = Bench::new("a_running_process_gets_a_mode_and_loses_it") else { return };
    let at_first = bench.napis();
    let (process, pid) = bench.script(SETS_ONE);
    let before = epoll_of(&bench, pid);
    assert_eq!(before, [vec![0, 0, 0], vec![33, 16, 1]]);
    let running = bench.attach("suspend20", pid);
    eventually("both are set", || epoll_of(&bench, pid) == [SUSPEND20, SUSPEND20]);
    assert!(is_suspended(&bench));
    assert_eq!(end(running, "-INT"), (Some(0), String::new()));
    assert_eq!((epoll_of(&bench, pid), bench.napis()), (before, at_first));
    assert!(bench.is_clean());
    drop(process);
}

#[test]
fn what_a_killed_command_left_of_a_process_is_put_back() {
    let Some(bench) = Bench::new("what_a_killed_command_left_of_a_process_is_put_back") else { return };
    let at_first = bench.napis();
    let (process, pid) = bench.script(SETS_ONE);
    let before = epoll_of(&bench, pid);
    let running = bench.attach("suspend20", pid);
    eventually("both are set", || epoll_of(&bench, pid) == [SUSPEND20, SUSPEND20]);
    end(running, "-KILL");
    assert_eq!(epoll_of(&bench, pid), [SUSPEND20, SUSPEND20]);
    bench.undo(&[]);
    assert_eq!((epoll_of(&bench, pid), bench.napis()), (before, at_first));
    drop(process);
}

#[test]
fn it_ends_with_the_process() {
    let Some(bench) = Bench::new("it_ends_with_the_process") else { return };
    let at_first = bench.napis();
    let (process, pid) = bench.script(WAITS);
    let mut running = bench.attach("suspend20", pid);
    eventually("it is set", || epoll_of(&bench, pid) == [SUSPEND20]);
    drop(process);
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
    assert!(super::said(&mut running).contains("has ended"));
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

#[test]
fn a_process_in_another_namespace_is_refused() {
    let Some(bench) = Bench::new("a_process_in_another_namespace_is_refused") else { return };
    let at_first = bench.napis();
    let own = std::process::id().to_string();
    let refused = bench.napier(&["run", "--dev", "server", "--mode", "suspend20", "--attach", &own]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("nsenter --net"), "{}", stderr(&refused));
    let refused = bench.napier(&["run", "--dev", "server", "--mode", "suspend20", "--attach", "4194305"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert_eq!(bench.napis(), at_first);
}
