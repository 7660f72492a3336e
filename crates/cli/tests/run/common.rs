//! A pair of interfaces, napier inside of its namespace, and a reader that is none of ours.

use napier_testkit::python;
use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use napier_testnet::{self as net, Veth, VethConfig, VethEnd};
use serde_json::Value;

use super::WAITS;
use super::common::{Folder, NAPIER, Running, has, kill_and_wait, text};

/// What a test needs: an interface with instances, and a folder for journals.
pub(crate) struct Bench {
    pair: Veth,
    pub(crate) folder: Folder,
}

impl Bench {
    /// `None`, said aloud, where this machine lacks something.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::of(test, "server", false)
    }

    /// The same with a name of its own, where polls are traced: tests run side by side. With the peer's segmentation offload its packets pass by
    /// the instances.
    pub(crate) fn of(test: &str, name: &str, tso: bool) -> Option<Self> {
        Self::with_queues(test, name, 2, tso)
    }

    /// The same with so many queues.
    pub(crate) fn with_queues(test: &str, name: &str, queues: u16, tso: bool) -> Option<Self> {
        if !has(test, "python3") {
            return None;
        }
        let ends = net::ends((name, &["10.79.0.1/24"]), ("client", &["10.79.0.2/24"]));
        let pair = net::pair(test, &VethConfig { queues, gro: true, tso, ..ends })?;
        Some(Self { pair, folder: Folder::new(test) })
    }

    pub(crate) fn server(&self) -> &VethEnd {
        self.pair.left()
    }

    pub(crate) fn client(&self) -> &VethEnd {
        self.pair.right()
    }

    /// A command in the namespace of the server.
    pub(crate) fn command(&self, program: &str) -> Command {
        // Whoever started the tests may have had them ignore signals.
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(program);
        command.env("NAPIER_STATE_DIRECTORY", self.folder.file("state")).stdin(Stdio::null());
        command
    }

    /// The command as a user without privileges, with a folder of its own for journals.
    pub(crate) fn command_of_user(&self, state: &str) -> Command {
        let mut command = self.command("setpriv");
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", NAPIER];
        command.env("NAPIER_STATE_DIRECTORY", state).args(user);
        command
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        self.server().netns().run(|| command.spawn()).expect("entered").expect("it starts")
    }

    pub(crate) fn output(&self, command: &mut Command) -> Output {
        self.server().netns().run(|| command.output()).expect("entered").expect("it starts")
    }

    pub(crate) fn napier(&self, args: &[&str]) -> Output {
        self.output(self.command(NAPIER).args(args))
    }

    /// `napier run --dev server --mode MODE MORE -- python3 -c SCRIPT`, running; and the first line that the script prints.
    pub(crate) fn python(&self, mode: &str, more: &[&str], script: &str) -> (Running, String) {
        let mut command = self.command(NAPIER);
        command.args(["run", "--dev", "server", "--mode", mode]).args(more).args(["--", python(), "-uc", script]);
        self.begin(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    pub(crate) fn begin(&self, command: &mut Command) -> (Running, String) {
        let mut running = Running(self.spawn(command));
        let mut line = String::new();
        let mut out = BufReader::new(running.0.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("it speaks");
        running.0.stdout = Some(out.into_inner());
        if line.is_empty() {
            let mut said = String::new();
            let _ = running.0.stderr.take().map(|mut err| err.read_to_string(&mut said));
            panic!("it said nothing but {said}");
        }
        (running, line.trim().to_owned())
    }

    /// A program that runs in Python by itself, and the number that it prints.
    pub(crate) fn script(&self, script: &str) -> (Running, u32) {
        let (running, pid) = self.begin(self.command(python()).args(["-uc", script]).stdout(Stdio::piped()));
        (running, pid.parse().expect("a number"))
    }

    /// A program that waits, under a mode.
    pub(crate) fn waits(&self, mode: &str, more: &[&str]) -> (Running, u32) {
        let (running, pid) = self.python(mode, more, WAITS);
        (running, pid.parse().expect("a number"))
    }

    /// Such a run that was killed, and its program as well.
    pub(crate) fn killed(&self, mode: &str) {
        let (running, pid) = self.waits(mode, &[]);
        end(running, "-KILL");
        kill_and_wait(pid);
    }

    /// `napier run --attach` of a process, running.
    pub(crate) fn attach(&self, mode: &str, pid: u32) -> Running {
        let mut command = self.command(NAPIER);
        command.args(["run", "--dev", "server", "--mode", mode, "--attach", &pid.to_string()]);
        Running(self.spawn(command.stderr(Stdio::piped())))
    }

    /// Runs a program that succeeds; what it printed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.output(self.command(program).args(args));
        assert!(output.status.success(), "{program} {args:?}: {}", stderr(&output));
        text(&output)
    }

    /// Puts back what is left, and says so.
    pub(crate) fn undo(&self, more: &[&str]) -> String {
        let output = self.napier(&[&["host", "undo"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    }

    /// What the instances have, in the order of a veth's queues, without the ids that they get anew.
    pub(crate) fn values(&self) -> Vec<Value> {
        let mut napis = self.napis();
        let all = napis.as_array_mut().expect("a list");
        all.iter_mut().for_each(|napi| drop(napi.as_object_mut().expect("an object").remove("id")));
        all.clone()
    }

    /// How their interrupts are deferred, and for how long, and for how long they are suspended.
    pub(crate) fn deferrals(&self) -> Vec<[u64; 3]> {
        let names = ["defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout"];
        self.values().iter().map(|napi| names.map(|name| napi[name].as_u64().expect("a number"))).collect()
    }

    /// The instances of the server's interface, as the reader sees them.
    pub(crate) fn napis(&self) -> Value {
        self.read("napis", self.server().ifindex())
    }

    /// Descriptors of a process, as the reader sees them.
    pub(crate) fn fds(&self, pid: u32) -> Value {
        self.read("fds", pid)
    }

    fn read(&self, what: &str, number: u32) -> Value {
        let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/reader.py");
        let output = self.output(Command::new(python()).args(["-IS", reader, what, &number.to_string()]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Whether no journal is left.
    pub(crate) fn is_clean(&self) -> bool {
        std::fs::read_dir(self.folder.file("state")).map_or(true, |entries| entries.count() == 0)
    }
}

/// Ends a process with a signal, and gives its status and what it said on standard error.
pub(crate) fn end(mut running: Running, signal: &str) -> (Option<i32>, String) {
    kill(running.0.id(), signal);
    let status = running.0.wait().expect("it can be waited for").code();
    // The program that a killed one leaves has standard error still.
    let said = if signal == "-KILL" { String::new() } else { said(&mut running) };
    (status, said)
}

pub(crate) fn said(running: &mut Running) -> String {
    let mut said = String::new();
    let _ = running.0.stderr.take().map(|mut err| err.read_to_string(&mut said));
    said
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let done = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill is installed");
    assert!(done.success());
}

/// Reads what a command says until it has these words.
pub(crate) fn until(err: &mut impl BufRead, said: &mut String, words: &str) {
    while !said.contains(words) {
        assert!(err.read_line(said).expect("it is text") > 0, "it ended without {words:?}: {said}");
    }
}

/// Takes what a command says on standard error, to be read while it runs.
pub(crate) fn errors_of(running: &mut Running) -> BufReader<ChildStderr> {
    BufReader::new(running.0.stderr.take().expect("it is piped"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
