//! What goes wrong for `serve kv` and `load kv`: one line that says what to do, status 1, and nothing is left behind.

mod common;

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, NAPIER, Running, SHORT, end, free_port, has, load, pair, start, started};
use napier_testkit::eventually;

/// The command under `timeout`, behind other words such as `setpriv` and its options.
fn command(before: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "60"]).args(before).arg(NAPIER).args(args);
    command.stdin(Stdio::null());
    command
}

/// It must fail with one line on stderr in which all these words are.
fn fails_behind(before: &[&str], args: &[&str], words: &[&str]) {
    let output = command(before, args).output().expect("timeout is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert_one_line(&said, words);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("ready"), "{args:?} was ready: {said}");
}

fn fails(args: &[&str], words: &[&str]) {
    fails_behind(&[], args, words);
}

fn assert_one_line(said: &str, words: &[&str]) {
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {said}");
    }
}

/// What a process that ends by itself said on stderr, and its status.
fn ends_by_itself(mut process: Running) -> (Option<i32>, String) {
    eventually("it ends", || process.0.try_wait().expect("it can be asked").is_some());
    let mut said = String::new();
    let stderr = process.0.stderr.take().expect("it is piped");
    std::io::Read::read_to_string(&mut std::io::BufReader::new(stderr), &mut said).expect("it is text");
    (process.0.wait().expect("it has ended").code(), said)
}

const SERVER: [&str; 4] = ["serve", "kv", "--ip", "10.78.0.1/24"];
const CLIENT: [&str; 6] = ["load", "kv", "--server", "10.78.0.1", "--ip", "10.78.0.2/24"];

#[test]
fn an_interface_that_is_not_there_is_named() {
    let dev = ["--dev", "xdp:no-such-if"];
    let xdp = ["no-such-if", "ip link"];
    fails(&[&SERVER[..], &dev].concat(), &xdp);
    fails(&[&CLIENT[..], &dev].concat(), &xdp);
    fails(&["serve", "kv", "--dev", "kernel:no-such-if"], &["no-such-if"]);
}

#[test]
fn a_memif_socket_that_cannot_be_is_told() {
    let folder = Folder::new("faults-memif");
    let absent = format!("memif:{}", folder.file("absent/memif.sock"));
    fails(&[&SERVER[..], &["--dev", &absent]].concat(), &["absent/memif.sock", "check that its folder is there"]);

    let path = folder.file("regular");
    std::fs::write(&path, "precious").expect("the folder can be written");
    let regular = format!("memif:{path}");
    fails(&[&SERVER[..], &["--dev", &regular]].concat(), &["is no socket", "move it away"]);
    assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "precious");

    let path = folder.file("foreign.sock");
    let foreign = UnixListener::bind(&path).expect("the folder can be written");
    let dev = format!("memif:{path}");
    fails(&[&SERVER[..], &["--dev", &dev]].concat(), &["a program listens", "stop it or choose another path"]);
    assert!(std::path::Path::new(&path).exists(), "the other's socket was taken away");
    drop(foreign);
}

#[test]
fn a_memif_client_without_a_server_is_told_so() {
    let folder = Folder::new("faults-memif-client");
    let regular = folder.file("regular");
    std::fs::write(&regular, "precious").expect("the folder can be written");
    std::thread::scope(|scope| {
        for path in [folder.file("absent/memif.sock"), folder.file("memif.sock"), regular] {
            scope.spawn(move || {
                let dev = format!("memif:{path}");
                fails(&[&CLIENT[..], &["--dev", &dev]].concat(), &["there is no peer at the other end", &path]);
            });
        }
    });
}

/// A server that may be read from after it has ended.
fn start_watched(args: &[&str]) -> Running {
    started(Command::new(NAPIER).args(args).stderr(Stdio::piped()))
}

/// Load that goes on until it is ended, whatever becomes of it.
fn traffic() -> Running {
    let args = ["load", "kv", "--server", "10.78.0.1", "--proto", "udp", "--rate", "2k", "--seconds", "60"];
    let process = Command::new(NAPIER).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(process.expect("the binary starts"))
}

const ON_XDP: [&str; 6] = ["serve", "kv", "--ip", "10.78.0.1/24", "--dev", "xdp:server"];

#[test]
fn a_server_whose_interface_is_removed_under_traffic_ends() {
    let Some(pair) = pair("a_server_whose_interface_is_removed_under_traffic_ends") else { return };
    let server = pair.left().netns().run(|| start_watched(&ON_XDP)).expect("entered");
    let load_process = pair.right().netns().run(|| {
        load("10.78.0.1", "udp", "ascii", &[]);
        traffic()
    });
    let _traffic = load_process.expect("entered");
    std::thread::sleep(Duration::from_millis(300));
    pair.left().delete().expect("it is there");
    let (status, said) = ends_by_itself(server);
    assert_eq!(status, Some(1), "{said}");
    assert_one_line(&said, &["server is gone"]);
}

#[test]
fn a_server_ends_when_the_namespace_of_its_peer_goes() {
    let Some(pair) = pair("a_server_ends_when_the_namespace_of_its_peer_goes") else { return };
    let server = pair.left().netns().run(|| start_watched(&ON_XDP)).expect("entered");
    drop(pair);
    let (status, said) = ends_by_itself(server);
    assert_eq!(status, Some(1), "{said}");
    assert_one_line(&said, &["server is gone"]);
}

#[test]
fn a_server_goes_on_after_its_interface_was_down() {
    let Some(pair) = pair("a_server_goes_on_after_its_interface_was_down") else { return };
    let server = pair.left().netns().run(|| start(&ON_XDP)).expect("entered");
    let loads = || load("10.78.0.1", "tcp", "ascii", &[]);
    pair.right().netns().run(loads).expect("entered");
    for _ in 0..2 {
        let traffic = pair.right().netns().run(traffic).expect("entered");
        std::thread::sleep(Duration::from_millis(300));
        pair.left().set_up(false).expect("it is there");
        std::thread::sleep(Duration::from_millis(300));
        pair.left().set_up(true).expect("it is there");
        drop(traffic);
        pair.right().netns().run(loads).expect("entered");
    }
    end(server);
    assert!(!pair.left().has_xdp().expect("the interface is there"), "the program is left on the interface");
}

#[test]
fn a_missing_capability_is_named() {
    let test = "a_missing_capability_is_named";
    if !has(test, "setpriv") {
        return;
    }
    let Some(pair) = pair(test) else { return };
    // CAP_SYS_ADMIN implies CAP_BPF.
    for (without, named) in
        [("-net_raw", "CAP_NET_RAW"), ("-net_admin,-sys_admin", "CAP_NET_ADMIN"), ("-bpf,-sys_admin", "CAP_BPF")]
    {
        let (bounding, inheritable) = (format!("--bounding-set={without}"), format!("--inh-caps={without}"));
        let before = ["setpriv", bounding.as_str(), inheritable.as_str()];
        let refused = || fails_behind(&before, &ON_XDP, &[named, "run as root, or give the program the capability"]);
        pair.left().netns().run(refused).expect("entered");
        assert!(!pair.left().has_xdp().expect("the interface is there"), "the program is left on the interface");
    }
}

#[test]
fn an_interface_that_another_server_has_is_left_to_it() {
    let Some(pair) = pair("an_interface_that_another_server_has_is_left_to_it") else { return };
    let server = pair.left().netns().run(|| start(&ON_XDP)).expect("entered");
    let refused = || fails(&ON_XDP, &["another XDP program is attached to server", "end that process"]);
    pair.left().netns().run(refused).expect("entered");
    pair.right().netns().run(|| load("10.78.0.1", "tcp", "ascii", &[])).expect("entered");
    end(server);
    assert!(!pair.left().has_xdp().expect("the interface is there"), "the program is left on the interface");
}

#[test]
fn a_port_that_another_program_has_is_left_to_it() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let ours = free_port().to_string();
    let _server = start(&["serve", "kv", "--port", &ours]);
    let tcp = tcp.local_addr().expect("it is bound").port().to_string();
    let udp = udp.local_addr().expect("it is bound").port().to_string();
    for taken in [&tcp, &udp, &ours] {
        let words = [&format!("127.0.0.1:{taken}"), "another program", "choose another port"];
        fails(&["serve", "kv", "--port", taken], &words);
        let free = free_port().to_string();
        fails(&["serve", "kv", "--port", &free, "--resp-port", taken], &words);
    }
    fails(&["serve", "kv", "--ip", "192.0.2.1"], &["192.0.2.1", "give another --ip"]);
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let args = |proto| [&["load", "kv", "--server", nobody.as_str(), "--proto", proto][..], &SHORT].concat();
    fails(&args("tcp"), &[&nobody, "is a server running there?"]);
    fails(&args("udp"), &["no program listens at the server's port"]);
}
