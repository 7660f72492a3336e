//! The `napier` command: its arguments, and what each of them calls.

mod advise;
mod bench;
mod calibrate;
mod colour;
mod compare;
mod confirm;
mod conform;
mod device;
mod doctor;
mod engine;
mod explain;
mod export;
mod generate;
mod group;
mod help;
mod host;
mod host_tune;
mod jobs;
mod load;
mod mode;
mod mode_names;
#[cfg(test)]
mod names_tests;
mod output;
mod page;
mod progress;
mod report;
mod run;
mod say;
mod serve;
mod sim;
mod target;
mod timeline;
mod top;
mod trial;
mod units;
mod vocabulary;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NoCommand;
use clap::{ColorChoice, FromArgMatches as _, Parser, Subcommand};
use napier_lab::report::one_line;
use napier_lab::report::read::ReadError;
use napier_linux::change::shown;
use signal_hook::consts::{SIGINT, SIGTERM};

/// NAPI in user space, and the bench that tells which way of delivering packets to choose
///
/// Linux can hand packets to a program by interrupt, by deferred interrupt, by a thread per queue, by busy polling, or by
/// suspending interrupts while the program is busy. Each trades tail latency for CPU. Napier runs one workload through all of them,
/// on an engine of its own, on the live kernel or on a simulated machine, and says what each costs; it applies a mode to a
/// program that was not changed, and puts everything back after.
#[derive(Parser)]
#[command(name = "napier", version, about, max_term_width = 100)]
struct Cli {
    /// Colours: always, never, or auto: on a terminal, unless NO_COLOR or CLICOLOR=0 is set
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorChoice::Auto,
        global = true,
        hide_possible_values = true,
        hide_default_value = true
    )]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one workload through the delivery modes and print the table.
    Compare(compare::CompareArgs),
    /// Show comparisons that were saved as JSON, set them side by side, and say what differs
    Report(report::ReportArgs),
    /// Run a program under a mode, and put everything back after
    Run(run::RunArgs),
    /// Let modes take turns on a service that runs, and say which one its own figures speak for
    Trial(trial::TrialArgs),
    /// What stays changed on this machine until it is asked back
    #[command(subcommand)]
    Host(host::Host),
    /// Modes that stay, on an interface or with a service
    #[command(subcommand)]
    Mode(mode::ModeCommand),
    /// Say which mode to take for a workload, from a simulated machine, and what would change that
    Advise(advise::AdviseArgs),
    /// One experiment: what a part costs, or how long it takes.
    Bench(bench::BenchArgs),
    /// Run the simulator.
    Sim(sim::Sim),
    /// Run a server on the kernel's or the engine's sockets until it is interrupted
    #[command(subcommand)]
    Serve(serve::Serve),
    /// Load a server and measure how it answers
    #[command(subcommand)]
    Load(load::LoadCommand),
    /// An engine that serves programs which were not changed
    #[command(subcommand)]
    Engine(engine::EngineCommand),
    /// Say what is set wrongly for low latency on this machine, and how to mend it
    Doctor(doctor::DoctorArgs),
    /// Say where the time of a program's requests goes, from interrupt to answer
    Explain(explain::ExplainArgs),
    /// Answer with figures of this machine's kernel to Prometheus, or print them
    Export(export::ExportArgs),
    /// Run scenario files and compare what happens with what must happen.
    Conform(conform::ConformArgs),
    /// Show NAPI instances, of this machine's kernel or of a running engine, as ynl --family netdev does
    NapiGet(vocabulary::NapiGetArgs),
    /// Set how a NAPI instance delivers packets
    NapiSet(vocabulary::NapiSetArgs),
    /// Show queues and their NAPI instances
    QueueGet(vocabulary::QueueGetArgs),
    /// Show what devices can do with XDP and AF_XDP
    DevGet(vocabulary::DevGetArgs),
    /// Show counters of devices or of their queues
    QstatsGet(vocabulary::QstatsGetArgs),
    /// Groups of CPUs that poll queues of a running engine
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Watch what a running engine does, or the kernel's NAPI instances of an interface
    Top(top::TopArgs),
    /// Print completions for a shell
    Completions(generate::Completions),
    /// Write the manual pages, one per command
    #[command(hide = true)]
    Man(generate::Pages),
    /// The load generator of `compare --over memif`, which starts it.
    #[command(name = napier_lab::compare::child::SUBCOMMAND, hide = true)]
    InternalLoad,
    /// What keeps the calls of a container when its engine has ended: `engine start --containers` starts it.
    #[command(name = engine::KEEP, hide = true)]
    InternalKeep,
    /// The first process of a program that `compare` starts.
    #[command(name = napier_lab::compare::init::SUBCOMMAND, hide = true)]
    InternalInit {
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// Bad usage, as clap exits with it too.
const EXIT_USAGE: u8 = 2;

/// Arguments that can only be judged together, or by the library.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Usage {}

/// A process that a signal has ended has this and the signal's number as its status, as a shell reports it.
const EXIT_SIGNAL: u8 = 128;

/// A failure that is said whether or not the run was interrupted: its figures are printed already.
#[derive(Debug)]
pub(crate) struct Told(pub(crate) String);

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Told {}

/// The status of a program that was run, which is this command's.
#[derive(Debug)]
pub(crate) struct ExitWith(pub(crate) u8);

impl std::fmt::Display for ExitWith {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}", self.0)
    }
}

impl std::error::Error for ExitWith {}

/// What SIGINT and SIGTERM leave behind.
struct Interrupt {
    /// One has come: runs end early and take down what they started.
    flag: Arc<AtomicBool>,
    /// Which, or 0.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Takes these signals; a second one ends the process at once.
    fn new(signals: impl IntoIterator<Item = i32>) -> anyhow::Result<Self> {
        let (flag, number) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for signal in signals {
            signal_hook::flag::register_conditional_shutdown(signal, i32::from(exit_status(signal)), flag.clone())?;
            // Before the flag, so that whoever sees that one finds this.
            signal_hook::flag::register_usize(signal, number.clone(), usize::try_from(signal)?)?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self { flag, signal: number })
    }

    /// The status to end with; `None` without a signal.
    fn status(&self) -> Option<u8> {
        let signal = i32::try_from(self.signal.load(Ordering::Relaxed)).ok()?;
        (signal != 0).then(|| exit_status(signal))
    }
}

/// The status of a process that this signal has ended.
fn exit_status(signal: i32) -> u8 {
    EXIT_SIGNAL + u8::try_from(signal).expect("signals have small numbers")
}

/// Reads the arguments of the process and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    let choice = colour::asked(std::env::args_os());
    colour::apply(choice);
    let parsed = help::command(choice).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Help and version are asked for.
        Err(error) if !error.use_stderr() || error.kind() == NoCommand => error.exit(),
        Err(error) => {
            eprintln!("{} {}", colour::napier(), usage_line(&error.render().to_string()));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    colour::apply(cli.color);
    // A program that is run inherits what is ignored, as if it were started without this command.
    let is_run = matches!(&cli.command, Command::Run(_) | Command::Trial(_))
        || matches!(&cli.command, Command::Mode(mode) if mode.is_keep());
    // The live view gives its terminal back first, whatever comes how often.
    let is_view = matches!(&cli.command, Command::Top(args) if args.is_live());
    let signals: &[i32] = if is_view { &[] } else { &[SIGINT, SIGTERM] };
    let taken = signals.iter().copied().filter(|signal| !is_run || !napier_linux::process::is_ignored(*signal));
    let interrupt = match Interrupt::new(taken) {
        Ok(interrupt) => interrupt,
        Err(error) => {
            eprintln!("{} {error:#}", colour::napier());
            return ExitCode::FAILURE;
        }
    };
    // A limit of file sizes (`ulimit -f`) shall refuse a write, not end this command between two. A program that is run has it as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let interrupted = &interrupt.flag;
    napier_linux::given::heed(interrupt.flag.clone());
    napier_linux::change::called(&changes_by(&cli.command));
    let recovered = if changes_nothing(&cli.command) { Vec::new() } else { host::recover_and_say() };
    let result = match cli.command {
        Command::Compare(args) => compare::run(&args, interrupted),
        Command::Report(args) => report::run(&args),
        Command::Run(args) => run::run(&args, interrupted),
        Command::Trial(args) => trial::run(&args, interrupted),
        Command::Host(host) => host::run(&host, recovered),
        Command::Mode(mode) => mode::run(&mode, interrupted),
        Command::Advise(args) => advise::run(&args, interrupted),
        Command::Bench(bench) => bench::run(&bench, interrupted),
        Command::Sim(sim) => sim::run(&sim, interrupted),
        Command::Serve(serve) => serve::run(&serve, interrupted),
        Command::Load(load) => load::run(&load, interrupted),
        Command::Engine(engine) => engine::run(&engine, interrupted),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => explain::run(&args, interrupted),
        Command::Export(args) => export::run(&args, interrupted),
        Command::Conform(args) => conform::run(&args, interrupted),
        Command::NapiGet(args) => vocabulary::napi_get(&args),
        Command::NapiSet(args) => vocabulary::napi_set(&args),
        Command::QueueGet(args) => vocabulary::queue_get(&args),
        Command::DevGet(args) => vocabulary::dev_get(&args),
        Command::QstatsGet(args) => vocabulary::qstats_get(&args),
        Command::Group(group) => group::run(&group),
        Command::Top(args) => top::run(&args, interrupted),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::pages(&args),
        Command::InternalLoad => {
            napier_lab::compare::child::run(interrupted);
            Ok(())
        }
        Command::InternalKeep => engine::keep(),
        Command::InternalInit { command } => return napier_lab::compare::init::run(&command),
    };
    ended(result, &interrupt)
}

/// Whether what killed commands have left stays until another command comes.
fn changes_nothing(command: &Command) -> bool {
    match command {
        Command::Host(host) => host.only_looks(),
        Command::Mode(mode) => mode.only_looks(),
        Command::Completions(_) | Command::Man(_) => true,
        // Children leave it to their parent.
        Command::InternalLoad | Command::InternalKeep | Command::InternalInit { .. } => true,
        _ => false,
    }
}

/// The command in words, for what it changes on this machine.
fn changes_by(command: &Command) -> String {
    let name = match command {
        Command::Mode(mode) => return mode.name(),
        Command::Run(args) => args.name(),
        Command::Host(host) => host.name(),
        Command::Compare(_) => "compare",
        Command::Trial(_) => "trial",
        Command::Doctor(_) => "doctor --fix",
        Command::Conform(_) => "conform",
        Command::Engine(_) => "engine start",
        Command::Serve(_) => "serve kv",
        Command::Load(_) => "load kv",
        _ => "",
    };
    name.to_owned()
}

/// Says why a command failed, if that is not said yet; the exit status.
fn ended(result: anyhow::Result<()>, interrupt: &Interrupt) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough: `napier ... | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<ExitWith>() => {
            ExitCode::from(error.downcast_ref::<ExitWith>().map_or(1, |ended| ended.0))
        }
        Err(error) if is_bad_usage(&error) => {
            eprintln!("{} {}", colour::napier(), shown(&one_line(&error)));
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => match interrupt.status() {
            Some(status) if !error.is::<Told>() => {
                eprintln!("{} interrupted", colour::napier());
                ExitCode::from(status)
            }
            _ => {
                eprintln!("{} {}", colour::napier(), shown(&one_line(&error)));
                ExitCode::FAILURE
            }
        },
    }
}

/// What clap says of bad usage, in one line: without the synopsis, which `--help` has.
fn usage_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let said = text.split("\n\n").filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let lines = said.map(|part| {
        // How to pass on what looks like an option is no help where it was mistyped.
        let lines = part.lines().filter(|line| !line.trim_start().starts_with("tip: to pass"));
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    });
    let said = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let hint = interface_hint(&said, text);
    said + &hint
}

/// Arguments that are wrong, and files that they name and that cannot be used: the status is the same wherever that is found out.
fn is_bad_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Usage>() || cause.is::<ReadError>())
}

/// Whichever writer met it: what prints JSON wraps what the system said.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        io.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind())
    };
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
}

/// What is added where an interface was given as a word of its own.
fn interface_hint(said: &str, usage: &str) -> String {
    let word =
        said.split_once("unexpected argument '").and_then(|(_, rest)| rest.split_once('\'')).map(|(word, _)| word);
    let is_interface = |word: &&str| {
        !word.is_empty() && !word.contains('/') && std::path::Path::new("/sys/class/net").join(word).exists()
    };
    match word.filter(is_interface) {
        Some(word) if usage.contains("napier compare") => {
            format!("; an interface to measure on is given as --dev {word}, with --client")
        }
        Some(word) => format!("; an interface is given as --dev {word}"),
        None => String::new(),
    }
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
