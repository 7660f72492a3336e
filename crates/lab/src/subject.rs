//! Who is compared: a mode, applied somewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::modes::Mode;

/// Where a mode is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The engine of this process.
    #[default]
    Engine,
    /// The kernel that this machine runs.
    Kernel,
    /// A simulated machine: what it says is predicted, and nothing was measured.
    Sim,
}

impl Backend {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Engine, Self::Kernel, Self::Sim];

    /// Reads a list of names with commas between them, in the order in which rows shall stand.
    ///
    /// # Errors
    /// A name that is none or is there twice; the message says what may be given.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, String> {
        let mut backends = Vec::new();
        for name in names.split(',').map(str::trim) {
            let backend = match name {
                "engine" => Self::Engine,
                "kernel" => Self::Kernel,
                "sim" => Self::Sim,
                _ => {
                    return Err(format!(
                        "`{name}` is no backend; give engine, kernel, sim, or several such as engine,kernel,sim"
                    ));
                }
            };
            if backends.contains(&backend) {
                return Err(format!("`{name}` is given twice"));
            }
            backends.push(backend);
        }
        Ok(backends)
    }
}

/// As `--backend` names it.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Engine => "engine",
            Self::Kernel => "kernel",
            Self::Sim => "sim",
        })
    }
}

/// On which CPU the kernel receives what the server is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// Where the device has it: of a veth that is the CPU that sends.
    #[default]
    Device,
    /// On the server's CPU, in a pinned thread of `SCHED_FIFO` that stands for the interrupt of a NIC.
    Irq,
}

/// What names a row that receives by [`Receive::Irq`], behind its mode.
pub(crate) const IRQ_SUFFIX: &str = "-irq";

/// One row of a comparison, at any load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Where the mode is applied.
    pub backend: Backend,
    /// How packets are delivered.
    pub mode: Mode,
    /// On which CPU they are received.
    pub receive: Receive,
}

impl Subject {
    /// A mode of the engine.
    pub const fn engine(mode: Mode) -> Self {
        Self { backend: Backend::Engine, mode, receive: Receive::Device }
    }

    /// A mode of the kernel.
    pub const fn kernel(mode: Mode) -> Self {
        Self { backend: Backend::Kernel, mode, receive: Receive::Device }
    }

    /// A mode of the kernel that receives on the server's CPU.
    pub const fn kernel_irq(mode: Mode) -> Self {
        Self { backend: Backend::Kernel, mode, receive: Receive::Irq }
    }

    /// A mode of a simulated machine.
    pub const fn sim(mode: Mode) -> Self {
        Self { backend: Backend::Sim, mode, receive: Receive::Device }
    }

    /// The subject's name beside others: the backend is named where there is more than one.
    pub fn name(&self, among_backends: bool) -> String {
        let suffix = if self.receive == Receive::Irq { IRQ_SUFFIX } else { "" };
        let Self { backend, mode, .. } = self;
        if among_backends { format!("{backend}/{mode}{suffix}") } else { format!("{mode}{suffix}") }
    }

    /// Whether it is `base` as the device has it.
    pub(crate) fn is_base(&self) -> bool {
        self.mode == Mode::Base && self.receive == Receive::Device
    }
}

/// The mode, and the backend if it is not the engine.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name(self.backend != Backend::Engine))
    }
}

/// The modes in order, each with every backend: what is to be compared stands side by side, and runs one after the other.
/// Those of `irq` have one more row of the kernel.
pub fn subjects(modes: &[Mode], backends: &[Backend], irq: &[Mode]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for &mode in modes {
        for backend in backends {
            match backend {
                Backend::Engine => subjects.push(Subject::engine(mode)),
                Backend::Kernel => {
                    subjects.push(Subject::kernel(mode));
                    subjects.extend(irq.contains(&mode).then(|| Subject::kernel_irq(mode)));
                }
                Backend::Sim => subjects.push(Subject::sim(mode)),
            }
        }
    }
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_alternate_and_are_named_where_there_are_two() {
        let both = Backend::parse_list("engine, kernel").unwrap();
        let all = subjects(&[Mode::Base, Mode::Defer { us: 20 }], &both, &[Mode::Base]);
        let names: Vec<String> = all.iter().map(|subject| subject.name(true)).collect();
        assert_eq!(names, ["engine/base", "kernel/base", "kernel/base-irq", "engine/defer20", "kernel/defer20"]);
        assert_eq!((all[0].to_string(), all[1].to_string()), ("base".to_owned(), "kernel/base".to_owned()));
        assert_eq!((all[0].name(false).as_str(), all[2].name(false).as_str()), ("base", "base-irq"));
        assert!(all[1].is_base() && !all[2].is_base());
        let sim = Backend::parse_list("sim,kernel").unwrap();
        let names: Vec<String> = subjects(&[Mode::Base], &sim, &[]).iter().map(|subject| subject.name(true)).collect();
        assert_eq!(names, ["sim/base", "kernel/base"]);
    }

    #[test]
    fn a_list_of_backends_is_read() {
        assert_eq!(Backend::parse_list("kernel"), Ok(vec![Backend::Kernel]));
        for wrong in ["", "engine,", "simulator", "kernel,kernel", "sim,engine,sim"] {
            assert!(Backend::parse_list(wrong).is_err(), "{wrong}");
        }
    }
}
