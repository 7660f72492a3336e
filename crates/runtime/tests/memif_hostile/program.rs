//! This test program once more as another process: a hostile one, or the one that it attacks.

use std::process::{Child, Command, Stdio};

const ROLE: &str = "NAPIER_HOSTILE_ROLE";
const SOCKET: &str = "NAPIER_HOSTILE_SOCKET";
pub(crate) const SEED: &str = "NAPIER_HOSTILE_SEED";

/// A process that ends with this.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    /// Starts `role` against `socket`.
    pub(crate) fn start(role: &str, socket: &str, seed: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["program::program", "--exact", "--nocapture"]).stdin(Stdio::null());
        command.env(ROLE, role).env(SOCKET, socket).env(SEED, seed.to_string());
        Self(napier_testkit::spawn(&mut command).unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process does; nothing where it is run as one of the tests.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    // Whatever becomes of who started it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let (socket, seed) = (std::env::var(SOCKET).unwrap(), std::env::var(SEED).unwrap().parse().unwrap());
    match role.as_str() {
        "flood" => crate::flood::flood(&socket),
        "hostile" => crate::hostile::attack(&socket, seed),
        "victim" => crate::victim::holds_out(&socket, seed),
        other => panic!("no role {other}"),
    }
}
