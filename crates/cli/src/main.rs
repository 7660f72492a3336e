//! The `napier` command.

fn main() -> std::process::ExitCode {
    napier_cli::main()
}
