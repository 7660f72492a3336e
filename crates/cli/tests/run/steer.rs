//! `--steer`: each of a program's listeners gets the connections of one instance.

use napier_testkit::{eventually, python};
use std::collections::BTreeMap;
use std::process::Command;

use super::bench::{Bench, end, stderr};

/// Two workers with a listener each, of one port; each connection is told its worker and its NAPI instance.
const WORKERS: &str = "
import socket, threading, time
def listen():
    s = socket.socket(); s.setsockopt(1, socket.SO_REUSEPORT, 1); s.bind(('10.79.0.1', 7700)); s.listen(64)
    return s
def serve(at, s):
    while True:
        c, _ = s.accept()
        c.recv(1)
        c.sendall(b'%d %d' % (at, c.getsockopt(1, 56)))
        c.close()
listeners = [listen(), listen()]
for at, s in enumerate(listeners):
    threading.Thread(target=serve, args=(at, s), daemon=True).start()
print('on')
time.sleep(60)
";

const ASKS: &str = "
import socket
for _ in range(60):
    c = socket.create_connection(('10.79.0.1', 7700)); c.sendall(b'x')
    print(c.recv(64).decode()); c.close()
";

#[test]
fn each_listener_gets_the_connections_of_one_instance() {
    let test = "each_listener_gets_the_connections_of_one_instance";
    let Some(bench) = Bench::new(test) else { return };
    // Instances of each worker.
    let ask = || {
        let mut seen: BTreeMap<String, std::collections::BTreeSet<String>> = BTreeMap::new();
        let client = || Command::new("timeout").args(["30", python(), "-c", ASKS]).output();
        let output = bench.client().netns().run(client).expect("entered").expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (worker, instance) = line.split_once(' ').expect("two numbers");
            seen.entry(worker.to_owned()).or_default().insert(instance.to_owned());
        }
        seen
    };
    let (running, _) = bench.python("base", &[], WORKERS);
    let without = ask();
    assert!(without.values().any(|instances| instances.len() > 1), "a hash mixes them: {without:?}");
    end(running, "-TERM");
    let (running, _) = bench.python("base", &["--steer"], WORKERS);
    // It is not in force before the listeners listen, and 60 connections do not come so by chance.
    eventually("each listener has one instance", || {
        let with = ask();
        with.len() == 2 && with.values().all(|instances| instances.len() == 1)
    });
    end(running, "-TERM");
}
