//! The `napier` command.

mod bench;
mod compare;

use std::process::ExitCode;
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
}

/// Set by the first SIGINT or SIGTERM: runs end early, nothing is left behind.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Compare(args) => compare::run(&args, &INTERRUPTED),
        Command::Bench(bench) => bench::run(&bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if INTERRUPTED.load(Ordering::Relaxed) => {
            eprintln!("napier: interrupted");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("napier: {error:#}");
            ExitCode::FAILURE
        }
    }
}
