//! The `napier` command.

mod bench;
mod compare;
mod conform;
mod device;
mod load;
mod serve;
mod sim;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};

/// Packet delivery in user space, and the bench that tells which way of it to choose.
#[derive(Parser)]
#[command(name = "napier", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one workload through the delivery modes and print the table.
    Compare(compare::Args),
    /// One experiment: what a part costs, or how long it takes.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Run the simulator.
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Run a server on the kernel's or the engine's sockets until it is interrupted
    #[command(subcommand)]
    Serve(serve::Serve),
    /// Load a server and measure how it answers
    #[command(subcommand)]
    Load(load::LoadCommand),
    /// Run scenario files and compare what happens with what must happen.
    Conform(conform::Args),
    /// The load generator of `compare --dev memif`, which starts it.
    #[command(name = napier_lab::compare::child::SUBCOMMAND, hide = true)]
    InternalLoad,
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

/// Set by SIGINT or SIGTERM: runs end early and take down what they started. A second signal ends the process.
fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupted = match interrupted() {
        Ok(flag) => flag,
        Err(error) => {
            eprintln!("napier: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let result = match cli.command {
        Command::Compare(args) => compare::run(&args, &interrupted),
        Command::Bench(bench) => bench::run(&bench),
        Command::Sim(sim) => sim::run(&sim, &interrupted),
        Command::Serve(serve) => serve::run(&serve, &interrupted),
        Command::Load(load) => load::run(&load, &interrupted),
        Command::Conform(args) => conform::run(&args, &interrupted),
        Command::InternalLoad => {
            napier_lab::compare::child::run(&interrupted);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough: `napier ... | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("napier: interrupted");
            ExitCode::FAILURE
        }
        Err(error) if error.is::<Usage>() => {
            eprintln!("napier: {}", one_line(&error));
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => {
            eprintln!("napier: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, each said once: some messages hold their cause's words already.
fn one_line(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said {
            said if said.is_empty() => cause,
            said if said.contains(&cause) => said,
            said => format!("{said}: {cause}"),
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
