//! Programs in another network namespace than the interface that their packets come through: pods on macvlan and ipvlan, and behind a veth that is
//! routed to, with the traffic of a third namespace.

use std::io::BufReader;
use std::process::{ChildStderr, Output, Stdio};

use napier_linux::Netns;
use napier_testkit::{eventually, python};
use serde_json::Value;

use super::bench::{Bench, end, errors_of, kill, stderr, until};
use super::common::{NAPIER, Running, has, line, text};
use super::seen::Client;
use super::{SUSPEND20, epoll_of};

const ECHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/echo.py");

/// A program in a namespace of its own, which answers what it is sent, and ends with the value.
struct Pod {
    netns: Netns,
    _server: Running,
    pid: u32,
}

impl Pod {
    fn new(bench: &Bench, port: u16) -> Self {
        let netns = Netns::new().expect("the pair has some too");
        let mut command = bench.command(python());
        command.args([ECHO, "epoll", &port.to_string(), "0.0.0.0"]).stdout(Stdio::piped());
        let mut server = Running(netns.run(|| command.spawn()).expect("entered").expect("it starts"));
        let pid = line(server.0.stdout.take()).trim().parse().expect("its number");
        Self { netns, _server: server, pid }
    }

    fn run(&self, bench: &Bench, program: &str, args: &[&str]) -> Output {
        let mut command = bench.command(program);
        self.netns.run(|| command.args(args).output()).expect("entered").expect("it starts")
    }

    fn shell(&self, bench: &Bench, script: &str) {
        let output = self.run(bench, "sh", &["-ec", script]);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }

    /// On top of the server's interface; `None`, said aloud, where this kernel has no such kind.
    fn on_top(test: &str, bench: &Bench, kind: &str, port: u16) -> Option<Self> {
        let pod = Self::new(bench, port);
        let (nic, pid) = (bench.server().name(), pod.pid);
        let how = if kind == "macvlan" { "mode bridge" } else { "mode l2" };
        let script = format!("ip link add pod0 link {nic} type {kind} {how} && ip link set pod0 netns {pid} name eth0");
        let made = bench.output(bench.command("sh").args(["-ec", &script]));
        if !made.status.success() {
            napier_testkit::skip!(test, "no {kind}: {}", stderr(&made).trim());
            return None;
        }
        // Each pod has the address of the one before, so the client's neighbour entry is right at once; an ipvlan has that of its link.
        let address = if kind == "macvlan" { "ip link set eth0 address 02:00:0a:4f:00:09; " } else { "" };
        pod.shell(
            bench,
            &format!("{address}ip addr add 10.79.0.9/24 dev eth0; ip link set eth0 up; ip link set lo up"),
        );
        Some(pod)
    }

    /// Behind a veth called `outer`, whose end in the pod is called `inner`; packets of the client are routed to it.
    fn routed(bench: &Bench, outer: &str, inner: &str, port: u16) -> Self {
        let pod = Self::new(bench, port);
        let script = format!(
            "ip link add {outer} type veth peer name {inner} netns {}; ip addr add 10.81.0.1/24 dev {outer}; ip link set {outer} up; \
             echo 1 > /proc/sys/net/ipv4/ip_forward",
            pod.pid
        );
        bench.run("sh", &["-ec", &script]);
        pod.shell(
            bench,
            &format!(
                "ip addr add 10.81.0.2/24 dev {inner}; ip link set {inner} up; ip route add default via 10.81.0.1"
            ),
        );
        let mut route = bench.command("ip");
        route.args(["route", "replace", "10.81.0.0/24", "via", "10.79.0.1"]);
        let output = bench.client().netns().run(|| route.output()).expect("entered").expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        pod
    }

    /// Both of its epoll instances have what the mode sets.
    fn is_set(&self, bench: &Bench) -> bool {
        epoll_of(bench, self.pid) == [SUSPEND20; 2]
    }

    fn offload(&self, bench: &Bench, device: &str, name: &str) -> String {
        value(&text(&self.run(bench, "ethtool", &["-k", device])), name)
    }
}

/// `on` or `off`, of a line of `ethtool -k`.
fn value(shown: &str, name: &str) -> String {
    let line = shown.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name}: {shown}")).to_owned()
}

fn offload(bench: &Bench, device: &str, name: &str) -> String {
    value(&text(&bench.output(bench.command("ethtool").args(["-k", device]))), name)
}

/// `napier run --attach` in the server's namespace.
fn attach(bench: &Bench, dev: &str, pod: &Pod) -> (Running, BufReader<ChildStderr>) {
    let mut command = bench.command(NAPIER);
    command.args([
        "run",
        "--dev",
        dev,
        "--mode",
        "suspend20",
        "--must-act",
        "--json",
        "--attach",
        &pod.pid.to_string(),
    ]);
    let mut running = Running(bench.spawn(command.stderr(Stdio::piped())));
    let err = errors_of(&mut running);
    (running, err)
}

/// The end of the command: its status, all that it said, and its report.
fn over(mut running: Running, mut err: impl std::io::Read, mut said: String) -> (Option<i32>, String, Value) {
    err.read_to_string(&mut said).expect("it is text");
    let status = running.0.wait().expect("it can be waited for").code();
    let report = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    let report = serde_json::from_str(report).expect("JSON");
    (status, said, report)
}

/// Whether the program polls: counted by the tracepoint, so a busy machine does not change the answer.
fn assert_polls(status: Option<i32>, said: &str, report: &Value) {
    assert_eq!((status, &report["seen"]["acts"]), (Some(0), &"yes".into()), "{said}");
    assert!(report["seen"]["polls"]["program"].as_u64() > Some(0), "{said}");
    assert_eq!(report["left"], serde_json::json!([]), "{said}");
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", text(output), stderr(output)))
}

fn ids(document: &Value, outside: bool) -> Vec<String> {
    let all = document["findings"].as_array().expect("a list").iter();
    let own = all.filter(|finding| finding["outside"].as_bool().unwrap_or(false) == outside);
    own.map(|finding| finding["id"].as_str().expect("text").to_owned()).collect()
}

/// Of a pod on top of the server's interface, before and after its sockets have learned an instance.
fn on_top(test: &str, nic: &str, kind: &str, ports: [u16; 2]) {
    let Some(bench) = Bench::of(test, nic, false).filter(|_| has(test, "ip")) else { return };
    let at_first = bench.napis();
    for (port, words) in ports.into_iter().zip(["hands on what comes to", "from instances of"]) {
        let Some(pod) = Pod::on_top(test, &bench, kind, port) else { return };
        let mut client = (words == "from instances of").then(|| Client::to(&bench, ("10.79.0.9", port)));
        if client.is_some() {
            eventually("sockets learn the instance", || {
                let found = document(&bench.napier(&["doctor", "--pid", &pod.pid.to_string(), "--json"]));
                let sockets = found["facts"]["program"]["sockets"].as_array().cloned().unwrap_or_default();
                sockets.len() >= 4
            });
        }
        let (running, mut err) = attach(&bench, nic, &pod);
        let mut said = String::new();
        until(&mut err, &mut said, words);
        let client = client.take().unwrap_or_else(|| Client::to(&bench, ("10.79.0.9", port)));
        until(&mut err, &mut said, "packets came to");
        eventually("it is in force", || pod.is_set(&bench));
        // The host's side is judged with the program, and the pod's says what can be set where.
        let mut both = Value::Null;
        // A descriptor that doctor has no CPU to look at for long is passed over.
        eventually("all connections are seen, and nothing serious", || {
            both = document(&bench.napier(&["doctor", "--pid", &pod.pid.to_string(), "--json"]));
            let of_nic = &both["outside"][0]["program"]["connections"][nic];
            both["serious"] == 0 && of_nic["with_id"].as_u64() > Some(0)
        });
        assert!(ids(&both, false).contains(&"instances-below".to_owned()), "{both}");
        assert!(!ids(&both, false).contains(&"driver-without-ids".to_owned()), "{both}");
        assert_eq!(both["outside"][0]["devices"][0]["device"]["name"], nic, "{both}");
        let inside = document(&pod.run(&bench, NAPIER, &["doctor", "--dev", "eth0", "--json"]));
        let told = inside["findings"].to_string();
        assert!(told.contains("instances-below") && !told.contains("driver-without-ids"), "{told}");
        assert!(told.contains("only a program's own descriptors can be set"), "{told}");
        assert!(told.contains("--mode suspend20 --attach PID"), "{told}");
        client.end();
        let (status, said, report) = over(running, err, said);
        assert_polls(status, &said, &report);
        assert_eq!(bench.napis(), at_first, "{said}");
        assert!(bench.is_clean());
        // The kernel takes its time to end a namespace, and until then the next pod cannot have this one's address.
        pod.shell(&bench, "ip link delete eth0");
    }
}

#[test]
fn a_pod_on_macvlan_gets_the_mode_of_the_hosts_interface() {
    on_top("a_pod_on_macvlan_gets_the_mode_of_the_hosts_interface", "apart-mv", "macvlan", [7041, 7042]);
}

#[test]
fn a_pod_on_ipvlan_gets_the_mode_of_the_hosts_interface() {
    on_top("a_pod_on_ipvlan_gets_the_mode_of_the_hosts_interface", "apart-iv", "ipvlan", [7043, 7044]);
}

#[test]
fn a_routed_pod_gets_a_mode_by_either_end_of_its_pair() {
    let test = "a_routed_pod_gets_a_mode_by_either_end_of_its_pair";
    let Some(bench) = Bench::of(test, "apart-up", false).filter(|_| has(test, "ip") && has(test, "ethtool")) else {
        return;
    };
    for (nth, dev) in ["apart-out", "apart-in"].into_iter().enumerate() {
        let port = 7051 + nth as u16;
        let pod = Pod::routed(&bench, "apart-out", "apart-in", port);
        let offloads = || {
            let outer = offload(&bench, "apart-out", "tcp-segmentation-offload");
            (outer, pod.offload(&bench, "apart-in", "generic-receive-offload"))
        };
        let before = offloads();
        assert_eq!((before.0.as_str(), before.1.as_str()), ("on", "off"), "as the kernel makes a pair");
        // The interface by which they come here has another instance, and is not the pod's.
        let refused =
            bench.napier(&["run", "--dev", "apart-up", "--mode", "suspend20", "--attach", &pod.pid.to_string()]);
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("Give --dev apart-out"), "{}", stderr(&refused));
        let dry = ["run", "--dev", dev, "--mode", "suspend20", "--dry-run", "--attach", &pod.pid.to_string()];
        let dry = text(&bench.napier(&dry));
        assert!(dry.contains("rx-gro of the offloads of apart-in: off -> on"), "{dry}");
        assert!(dry.contains("tx-tcp-segmentation of the offloads of apart-out: on -> off"), "{dry}");
        let (running, mut err) = attach(&bench, dev, &pod);
        let mut said = String::new();
        until(&mut err, &mut said, "without segmentation offload");
        eventually("it is in force", || pod.is_set(&bench));
        let client = Client::to(&bench, ("10.81.0.2", port));
        until(&mut err, &mut said, "packets came to apart-in");
        assert_eq!(offloads(), ("off".to_owned(), "on".to_owned()), "{said}");
        // The pod goes on, so both ends are there still.
        kill(running.0.id(), "-INT");
        let (status, said, report) = over(running, err, said);
        assert_polls(status, &said, &report);
        assert_eq!(offloads(), before, "{said}");
        assert!(bench.is_clean());
        client.end();
        // The next pair has these names: it does not wait for the end of this namespace.
        bench.run("ip", &["link", "delete", "apart-out"]);
    }
}

/// Killed in the midst of it.
fn killed(bench: &Bench, dev: &str, pod: &Pod) {
    let (running, mut err) = attach(bench, dev, pod);
    until(&mut err, &mut String::new(), "without segmentation offload");
    eventually("it is in force", || pod.is_set(bench));
    end(running, "-KILL");
}

#[test]
fn both_ends_of_a_pair_are_put_back_after_a_kill() {
    let test = "both_ends_of_a_pair_are_put_back_after_a_kill";
    let Some(bench) = Bench::of(test, "apart-kill", false).filter(|_| has(test, "ip") && has(test, "ethtool")) else {
        return;
    };
    let pod = Pod::routed(&bench, "apart-outk", "apart-ink", 7061);
    let offloads = || {
        let inner = pod.offload(&bench, "apart-ink", "generic-receive-offload");
        (offload(&bench, "apart-outk", "tcp-segmentation-offload"), inner)
    };
    let before = offloads();
    killed(&bench, "apart-outk", &pod);
    assert_eq!(offloads(), ("off".to_owned(), "on".to_owned()));
    bench.undo(&[]);
    assert_eq!((offloads(), epoll_of(&bench, pod.pid)), (before, vec![vec![0, 0, 0]; 2]));
    assert!(bench.is_clean());
    // The pod is gone by then, and its namespace with it.
    killed(&bench, "apart-ink", &pod);
    drop(pod);
    eventually("the pair goes with the namespace", || {
        !bench.output(bench.command("ip").args(["link", "show", "apart-outk"])).status.success()
    });
    let undone = bench.napier(&["host", "undo"]);
    let said = stderr(&undone) + &text(&undone);
    assert!(said.contains("the network namespace of apart-ink has ended"), "{said}");
    assert!(said.contains("apart-outk is gone"), "{said}");
    assert!(bench.is_clean(), "{said}");
}

/// Of a pair as the kernel makes it no instance takes packets: modes get what they need, `base` is the pair as it was, and so is the end.
#[test]
fn a_trial_makes_of_a_pair_what_modes_need_and_puts_it_back() {
    let test = "a_trial_makes_of_a_pair_what_modes_need_and_puts_it_back";
    let Some(bench) = Bench::of(test, "apart-try", false).filter(|_| has(test, "ip") && has(test, "ethtool")) else {
        return;
    };
    let pod = Pod::routed(&bench, "apart-outt", "apart-int", 7091);
    let offloads = || {
        let inner = pod.offload(&bench, "apart-int", "generic-receive-offload");
        (offload(&bench, "apart-outt", "tcp-segmentation-offload"), inner)
    };
    let (before, changed) = (offloads(), ("off".to_owned(), "on".to_owned()));
    let pid = pod.pid.to_string();
    // A busy machine takes long to look at one turn.
    let usual = ["trial", "--dev", "apart-int", "--attach", &pid, "--judge", "cpu", "--for", "1h", "--block", "2s"];
    let dry = bench.napier(&[&usual[..], &["--modes", "suspend20", "--dry-run"]].concat());
    let shown = text(&dry);
    assert!(dry.status.success(), "{shown}{}", stderr(&dry));
    let (base, mode) = shown.split_once("suspend20:\n").expect("the modes in turn");
    assert!(!base.contains("rx-gro") && mode.contains("rx-gro of the offloads of apart-int: off -> on"), "{shown}");
    assert!(mode.contains("tx-tcp-segmentation of the offloads of apart-outt: on -> off"), "{shown}");
    for signal in ["-INT", "-KILL"] {
        let mut command = bench.command(NAPIER);
        command.args(usual).args(["--modes", "suspend20,suspend50"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let running = Running(bench.spawn(&mut command));
        eventually("a mode is in force", || offloads() == changed && pod.is_set(&bench));
        eventually("base is the pair as it was", || offloads() == before);
        eventually("a mode is in force again", || offloads() == changed && pod.is_set(&bench));
        let (_, said) = end(running, signal);
        if signal == "-KILL" {
            bench.undo(&[]);
        }
        assert_eq!((offloads(), epoll_of(&bench, pod.pid)), (before.clone(), vec![vec![0, 0, 0]; 2]), "{said}");
        assert!(bench.is_clean());
    }
}

#[test]
fn doctor_names_the_end_that_lets_packets_pass_by() {
    let test = "doctor_names_the_end_that_lets_packets_pass_by";
    let Some(bench) = Bench::of(test, "apart-doc", false).filter(|_| has(test, "ip") && has(test, "ethtool")) else {
        return;
    };
    let pod = Pod::routed(&bench, "apart-outd", "apart-ind", 7071);
    pod.shell(&bench, "ethtool -K apart-ind gro on");
    let client = Client::to(&bench, ("10.81.0.2", 7071));
    let pid = pod.pid.to_string();
    let mut told = String::new();
    eventually("packets pass by", || {
        let found = document(&bench.napier(&["doctor", "--dev", "apart-outd", "--pid", &pid, "--json"]));
        told = found["findings"].to_string();
        ids(&found, false).contains(&"nothing-polls".to_owned())
    });
    assert!(told.contains("ethtool -K apart-outd tso off, in its namespace"), "{told}");
    bench.run("ethtool", &["-K", "apart-outd", "tso", "off"]);
    eventually("they do not any more", || {
        let found = document(&bench.napier(&["doctor", "--dev", "apart-ind", "--pid", &pid, "--json"]));
        let polled = found["facts"]["seen"]["apart-ind"]["received"]["polled"].as_u64();
        polled > Some(20) && !ids(&found, false).contains(&"nothing-polls".to_owned())
    });
    client.end();
}
