//! `napier top` as a user has it: on a terminal, in a script, and when what it looks at goes away.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{NAPIER, Running, Served, ended, has, refused, text};
use napier_testkit::{eventually, in_time_enough};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

fn top(args: &[&str]) -> (Option<i32>, String, String) {
    ended(&[&["top"], args].concat())
}

#[test]
fn a_script_gets_tables_or_json() {
    let served = Served::new("top-once");
    let (status, out, said) = top(&["--engine", &served.pid, "--once", "--interval", "0.2"]);
    assert_eq!((status, said.as_str()), (Some(0), ""), "{out}");
    let (_, length) = out.split_once(&format!("engine {}, ", served.pid)).unwrap_or_else(|| panic!("{out}"));
    let seconds: f64 = length.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{out}"));
    assert!((0.2..30.0).contains(&seconds) && out.starts_with("engine "), "{out}");
    for word in ["threads:", "USEFUL%", "cpus:", "softirq", "queues:", "noqueue"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    // Between two of its figures the engine may be held up, for a part of the interval that is the smaller the longer that is.
    let json = in_time_enough("a thread is busy or asleep all the time", Duration::from_millis(200), |length| {
        let json = shown(&["--engine", &served.pid], length);
        let threads = json["threads"].as_array().expect("a table");
        let softirq = threads.iter().find(|row| row["role"] == "softirq").expect("an engine has one");
        let shares = sum(softirq, &["useful_pct", "spinning_pct", "asleep_pct"]);
        (90.0..110.0).contains(&shares).then_some(json)
    });
    let out = json.to_string();
    assert!(json["seconds"].as_f64().is_some_and(|seconds| seconds > 0.1), "{out}");
    assert!(json["cpus"].as_array().is_some_and(|rows| !rows.is_empty()), "{out}");
}

/// What it shows of an interval, as JSON.
fn shown(of: &[&str], length: Duration) -> Value {
    let interval = length.as_secs_f64().to_string();
    let (status, out, said) = top(&[of, &["--json", "--interval", &interval]].concat());
    assert_eq!((status, said.as_str()), (Some(0), ""), "{out}");
    serde_json::from_str(&out).expect("JSON")
}

/// Of those figures of a row that there are.
fn sum(row: &Value, keys: &[&str]) -> f64 {
    keys.iter().filter_map(|key| row[*key].as_f64()).sum()
}

#[test]
fn what_cannot_be_looked_at_is_said_in_a_line() {
    let refused = |args: &[&str], status: i32, words: &str| refused(&[&["top"], args].concat(), status, words);
    refused(&["--engine", "1"], 2, "--once or --json");
    refused(&["--once", "--engine", "4194305"], 1, "no engine answers as 4194305");
    refused(&["--once", "--engine", "/no/such.sock"], 1, "/no/such.sock");
    refused(&["--once", "--dev", "nosuchif0"], 2, "no interface is called nosuchif0");
    refused(&["--once", "--dev", "lo", "--engine", "1"], 2, "cannot be used with");
    for interval in ["0", "0.01", "61", "nan", "x"] {
        refused(&["--once", "--interval", interval], 2, "such as 500ms");
    }
}

#[test]
fn an_interface_of_the_kernel_is_shown() {
    // The kernel counts in ticks of 10 ms, and a host may have taken some. What looks may be held up between two figures, for a part of the
    // interval that is the smaller the longer that is.
    let json = in_time_enough("the times of a CPU are no more than there is", Duration::from_millis(200), |length| {
        let json = shown(&["--dev", "lo"], length);
        let shares = sum(&json["cpus"][0], &["user_pct", "system_pct", "irq_pct", "softirq_pct", "idle_pct"]);
        (1.0..130.0).contains(&shares).then_some(json)
    });
    let row = &json["instances"][0];
    assert_eq!((&row["device"], &row["queue"]), (&"lo".into(), &"all".into()), "{json}");
    assert!(row["packets_per_s"].is_f64(), "{json}");
}

/// A terminal with a shell in it, which is gone with the test.
struct Tmux(String);

impl Tmux {
    fn new(test: &str, size: (u32, u32)) -> Option<Self> {
        if !has(test, "tmux") {
            return None;
        }
        let socket = format!("napier-{test}-{}", std::process::id());
        let tmux = Self(socket);
        let (x, y) = (size.0.to_string(), size.1.to_string());
        // A shell without start-up files, whose prompt is known.
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &x,
            "-y",
            &y,
            "exec env PS1='ready> ' TERM=screen-256color sh",
        ]);
        tmux.until("the shell", |screen| screen.contains("ready>"));
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        // A user such as `nobody` has no shell that tmux could run a command with.
        let tmux = || Command::new("tmux").env("SHELL", "/bin/sh").args(["-L", &self.0]).args(args).output();
        let output = tmux().expect("tmux is installed");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        text(&output)
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn keys(&self, keys: &str) {
        self.run(&["send-keys", "-l", keys]);
    }

    fn line(&self, line: &str) {
        self.keys(line);
        self.run(&["send-keys", "Enter"]);
    }

    fn until(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if seen(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "{what} is not seen on\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Starts the view and waits for its first table.
    fn top(&self, args: &str) -> String {
        self.line(&format!("clear; {NAPIER} top --interval 0.2 {args}; echo status $?"));
        self.until("the view", |screen| screen.starts_with("napier top") && screen.contains("DEVICE"))
    }

    /// The process of the view.
    fn pid(&self) -> String {
        let shell = self.run(&["display-message", "-p", "#{pane_pid}"]);
        let children =
            std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim())).expect("it is there");
        children.split_whitespace().next().expect("the shell runs it").to_owned()
    }

    /// The terminal is as it was: the view is gone from it, and what is typed is shown.
    fn is_given_back(&self, status: &str) -> String {
        let screen = self.until("the end", |screen| screen.contains(&format!("status {status}")));
        assert!(!screen.contains("DEVICE") && !screen.contains("napier top  "), "{screen}");
        self.line("stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e icanon -e isig | wc -l");
        self.until("a terminal with echo", |screen| {
            screen.contains("stty -a") && screen.lines().any(|line| line.trim() == "3")
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
    }
}

#[test]
fn the_view_is_drawn_takes_keys_and_follows_the_window() {
    let Some(tmux) = Tmux::new("the_view_is_drawn_takes_keys_and_follows_the_window", (80, 24)) else { return };
    let served = Served::new("top-view");
    let screen = tmux.top(&format!("--engine {}", served.pid));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    tmux.keys("2");
    tmux.until("threads", |screen| screen.contains("ROLE") && screen.contains("softirq"));
    tmux.keys("/nothing");
    tmux.until("the filter", |screen| screen.contains("none has these letters"));
    tmux.run(&["send-keys", "Escape"]);
    tmux.until("all rows", |screen| screen.contains("softirq"));
    tmux.keys("?");
    tmux.until("help", |screen| screen.contains("sort by the next column"));
    tmux.keys("xp");
    tmux.until("the pause", |screen| screen.contains("PAUSED"));
    tmux.run(&["resize-window", "-x", "120", "-y", "40"]);
    tmux.until("a larger view", |screen| screen.lines().count() >= 40 && screen.contains("2 threads ("));
    tmux.run(&["resize-window", "-x", "30", "-y", "8"]);
    tmux.until("a smaller view", |screen| screen.starts_with("napier top") && screen.contains("ROLE"));
    tmux.run(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.keys("q");
    tmux.is_given_back("0");
}

#[test]
fn the_terminal_is_given_back_after_signals() {
    let Some(tmux) = Tmux::new("the_terminal_is_given_back_after_signals", (80, 24)) else { return };
    let served = Served::new("top-signals");
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130"), ("QUIT", "131")] {
        tmux.top(&format!("--engine {}", served.pid));
        let pid = tmux.pid();
        // The second one comes while the first is dealt with.
        for _ in 0..2 {
            let _ = Command::new("kill").args([&format!("-{signal}"), &pid]).output();
        }
        tmux.is_given_back(status);
    }
}

#[test]
fn an_engine_that_ends_is_said_on_a_terminal_that_is_given_back() {
    let Some(tmux) = Tmux::new("an_engine_that_ends_is_said_on_a_terminal_that_is_given_back", (80, 24)) else {
        return;
    };
    let mut served = Served::new("top-ends");
    tmux.top(&format!("--engine {}", served.pid));
    served.end();
    let screen = tmux.is_given_back("1");
    assert!(screen.contains(&format!("napier: engine {} has ended", served.pid)), "{screen}");
}

#[test]
fn a_view_without_its_terminal_ends() {
    let Some(tmux) = Tmux::new("a_view_without_its_terminal_ends", (80, 24)) else { return };
    let served = Served::new("top-gone");
    tmux.top(&format!("--engine {}", served.pid));
    let pid = tmux.pid();
    tmux.run(&["kill-server"]);
    // Of a process that has ended and was not waited for the command line is empty.
    let runs = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    eventually("it does not look on without a terminal", || !runs());
}

/// A terminal without a program that shows it: what is written stays in it until it is full.
struct Bare {
    master: OwnedFd,
    path: std::ffi::CString,
}

impl Bare {
    fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let path = ptsname(&master, Vec::new()).expect("it has a name");
        let bare = Self { master, path };
        let size = Winsize { ws_row: 50, ws_col: 150, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(bare.end(OFlags::empty()), size).expect("set");
        bare
    }

    fn end(&self, flags: OFlags) -> OwnedFd {
        let flags = flags | OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, flags, Mode::empty()).expect("it opens")
    }

    fn start(&self, args: &[&str]) -> Running {
        let end = || Stdio::from(self.end(OFlags::empty()));
        let started = Command::new(NAPIER).args(args).stdin(end()).stdout(end()).stderr(end()).spawn();
        Running(started.expect("the binary starts"))
    }

    fn fill(&self) {
        let mut end = File::from(self.end(OFlags::NONBLOCK));
        while end.write_all(&[b'x'; 64]).is_ok() {}
    }

    /// Whether lines are edited and shown: no program has it.
    fn is_given_back(&self) -> bool {
        let modes = tcgetattr(self.end(OFlags::empty())).expect("its settings").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Starts a view, and waits until it has the terminal.
    fn view(&self, args: &[&str]) -> Running {
        let view = self.start(&[&["top", "--interval", "0.1"], args].concat());
        eventually("it takes the terminal", || !self.is_given_back());
        view
    }
}

/// The status that it ends with, soon.
fn status_of(view: &mut Running) -> Option<i32> {
    eventually("it ends", || view.0.try_wait().expect("it is ours").is_some());
    view.0.wait().expect("it has ended").code()
}

#[test]
fn a_terminal_that_takes_nothing_is_given_back() {
    let served = Served::new("top-stalls");
    for (signal, status) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        let terminal = Bare::new();
        let mut view = terminal.view(&["--engine", &served.pid]);
        // Where it draws, and waits for room. Source: `drivers/tty/n_tty.c n_tty_write`.
        let hangs = || {
            terminal.fill();
            let place = std::fs::read_to_string(format!("/proc/{}/wchan", view.0.id())).unwrap_or_default();
            ["wait_woken", "n_tty_write"].contains(&place.as_str())
        };
        // A kernel that does not name places gives it the time.
        let begun = Instant::now();
        while !hangs() && begun.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(20));
        }
        common::signal(view.0.id(), signal);
        assert_eq!(status_of(&mut view), Some(status), "SIG{signal}");
        assert!(terminal.is_given_back(), "SIG{signal}");
    }
}

/// Whether a process has an instance of tracefs, wherever that is mounted; `None` where it cannot be.
fn is_traced_by(pid: u32) -> Option<bool> {
    let list = "mount -t tracefs none /sys/kernel/tracing && ls /sys/kernel/tracing/instances";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", list]).output().ok()?;
    output.status.success().then(|| text(&output).lines().any(|name| name.starts_with(&format!("napier-trace-{pid}-"))))
}

#[test]
fn nothing_is_traced_after_the_view() {
    for (end, status) in [("q", 0), ("TERM", 143), ("HUP", 129)] {
        let terminal = Bare::new();
        let mut view = terminal.view(&["--dev", "lo"]);
        let pid = view.0.id();
        if is_traced_by(pid) != Some(true) {
            return napier_testkit::skip!("nothing_is_traced_after_the_view", "tracefs, or the privilege for it");
        }
        // What is drawn is taken, or the view would wait for room in the end, and not for keys.
        let mut drawn = File::from(terminal.master.try_clone().expect("a descriptor"));
        std::thread::spawn(move || while drawn.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {});
        match end {
            "q" => drop(rustix::io::write(&terminal.master, b"q").expect("a key")),
            signal => common::signal(view.0.id(), signal),
        }
        assert_eq!(status_of(&mut view), Some(status), "{end}");
        assert_eq!(is_traced_by(pid), Some(false), "{end}");
    }
}
