//! Peers that end without a word, in processes of their own and in this one.

use super::*;

const CHILD_SOCKET: &str = "NAPIER_TEST_MEMIF_SOCKET";
const CHILD_ROLE: &str = "NAPIER_TEST_MEMIF_ROLE";

/// What the other process of `a_killed_process_is_replaced` does: it sends datagrams back until it is killed.
#[test]
#[ignore = "a process of its own, started by another test"]
fn child() {
    let (Ok(socket), Ok(role)) = (std::env::var(CHILD_SOCKET), std::env::var(CHILD_ROLE)) else { return };
    let role = if role == "server" { MemifRole::Server } else { MemifRole::Client };
    let side = Side::new(MemifConfig { queues: 2, ..config(role, &socket) });
    let (echo, mut buffer) = (bound(&side.netns, 7), [0; 2000]);
    loop {
        let (length, from) = echo.recv_from(&mut buffer).expect("killed before this");
        // Full or gone: whoever asked asks again.
        let _ = echo.send_to(&buffer[..length], from);
    }
}

/// A process that is ours to kill.
struct Child(std::process::Child);

impl Child {
    fn start(role: &str, socket: &str) -> Self {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "ends::child", "--ignored", "--nocapture"]);
        command.env(CHILD_SOCKET, socket).env(CHILD_ROLE, role).stdout(std::process::Stdio::null());
        Self(napier_testkit::spawn(&mut command).unwrap())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SIGKILL, whatever it is doing.
        self.0.kill().expect("not waited for yet");
        self.0.wait().expect("it was ours");
    }
}

/// Questions to the other process until `answers` of them were answered.
fn ask(side: &Side, to: Ipv4Addr, answers: u32) {
    let (asker, mut progress) = (bound(&side.netns, 4000), Instant::now());
    asker.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut answered, mut number) = (0, 0_u32);
    while answered < answers {
        number += 1;
        let _ = asker.send_to(&number.to_le_bytes(), v4(to, 7));
        let mut answer = [0; 8];
        if let Ok((length, _)) = asker.recv_from(&mut answer) {
            assert_eq!(length, 4);
            (answered, progress) = (answered + 1, Instant::now());
        }
        assert!(progress.elapsed() < PATIENCE, "{answered} answers to {number} questions");
    }
}

#[test]
fn a_killed_process_is_replaced() {
    for ours in [MemifRole::Server, MemifRole::Client] {
        let (theirs, addr) = if ours == MemifRole::Server { ("client", PEER_V4) } else { ("server", TESTED_V4) };
        let path = std::env::temp_dir().join(format!("napier-test-{}-{theirs}.sock", std::process::id()));
        let socket = path.to_str().unwrap();
        let side = Side::new(MemifConfig { queues: 2, ..config(ours, socket) });
        for kills in 1..=3 {
            // A server that was killed leaves its file, and the next one takes its place.
            let other = Child::start(theirs, socket);
            ask(side.linked(), addr, 200);
            drop(other);
            side.unlinked();
            let state = side.device.link_state();
            assert_eq!((state.losses, state.peer.as_deref()), (kills, Some("napier")));
            side.at_rest();
        }
        drop(side);
        let _ = std::fs::remove_file(&path);
    }
}

/// The peer's process ends without a word: its connections are dropped at once, unless they are to stay.
#[test]
fn connections_end_with_the_peer_that_has_them() {
    for keep_connections in [false, true] {
        let socket = socket(&format!("ends-{keep_connections}"));
        let server = Side::new(MemifConfig { keep_connections, ..config(MemifRole::Server, &socket) });
        let listener = TcpListener::bind(&server.netns, v4(TESTED_V4, 7000)).unwrap();
        let client = Side::new(config(MemifRole::Client, &socket));
        client.linked();
        let streams: Vec<_> = (0..50)
            .map(|_| {
                let near = TcpStream::connect(&client.netns, v4(TESTED_V4, 7000)).unwrap();
                (near, listener.accept().unwrap().0)
            })
            .collect();
        // As when it is killed: nothing leaves any more.
        client.device.set_down();
        let (near, far): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
        drop(client);
        server.unlinked();
        drop(near);
        if keep_connections {
            assert_eq!(server.netns.counters().tcp_curr_estab, 50);
            continue;
        }
        // Counted as dropped first, and as established no more a little later.
        eventually("all are dropped", || {
            let counters = server.netns.counters();
            (counters.tcp_abort_on_link, counters.tcp_curr_estab) == (50, 0)
        });
        let error = far[0].recv(&mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETRESET));
    }
}
