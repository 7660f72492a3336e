//! Who is compared: a mode, applied somewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::modes::{Mode, ModeError};

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

/// What stands between a mode and the number of its copy.
pub(crate) const COPY_MARK: char = '@';

/// One row of a comparison, at any load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// How packets are delivered.
    #[serde(with = "by_name")]
    pub mode: Mode,
    /// Where the mode is applied.
    pub backend: Backend,
    /// On which CPU they are received.
    #[serde(default)]
    pub receive: Receive,
    /// Which of the rows that are the same in all else, from [`FIRST_COPY`] on: what one mode under two names shows is what chance does.
    #[serde(default = "first_copy")]
    pub copy: u8,
}

/// What is written as its name.
pub(crate) mod by_name {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(named: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(named)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Of every row but those that were asked for once more.
pub const FIRST_COPY: u8 = 1;

/// Most rows of one mode that are the same in all else.
pub const COPIES_MAX: u8 = 9;

/// What [`Subject::copy`] is where a file does not say.
const fn first_copy() -> u8 {
    FIRST_COPY
}

impl Subject {
    const fn first(backend: Backend, mode: Mode, receive: Receive) -> Self {
        Self { backend, mode, receive, copy: FIRST_COPY }
    }

    /// A mode of the engine.
    pub const fn engine(mode: Mode) -> Self {
        Self::first(Backend::Engine, mode, Receive::Device)
    }

    /// A mode of the kernel.
    pub const fn kernel(mode: Mode) -> Self {
        Self::first(Backend::Kernel, mode, Receive::Device)
    }

    /// A mode of the kernel that receives on the server's CPU.
    pub const fn kernel_irq(mode: Mode) -> Self {
        Self::first(Backend::Kernel, mode, Receive::Irq)
    }

    /// A mode of a simulated machine.
    pub const fn sim(mode: Mode) -> Self {
        Self::first(Backend::Sim, mode, Receive::Device)
    }

    /// The same once more, as another row.
    #[must_use]
    pub const fn copied(self, copy: u8) -> Self {
        Self { copy, ..self }
    }

    /// The subject's name beside others: the backend is named where there is more than one.
    pub fn name(&self, among_backends: bool) -> String {
        let suffix = if self.receive == Receive::Irq { IRQ_SUFFIX } else { "" };
        let copy = if self.copy == FIRST_COPY { String::new() } else { format!("{COPY_MARK}{}", self.copy) };
        let Self { backend, mode, .. } = self;
        if among_backends { format!("{backend}/{mode}{suffix}{copy}") } else { format!("{mode}{suffix}{copy}") }
    }

    /// Whether it is `base` as the device has it, and not a copy.
    pub(crate) fn is_base(&self) -> bool {
        self.mode == Mode::Base && self.receive == Receive::Device && self.copy == FIRST_COPY
    }

    /// Whether it is the same row, on whatever backend.
    pub(crate) fn is_row_of(&self, other: &Self) -> bool {
        Self { backend: other.backend, ..*self } == *other
    }
}

/// The mode, and the backend if it is not the engine.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name(self.backend != Backend::Engine))
    }
}

/// Reads what it is printed as.
impl std::str::FromStr for Subject {
    type Err = ModeError;

    fn from_str(name: &str) -> Result<Self, ModeError> {
        let (backend, name) = match name.split_once('/') {
            Some(("kernel", name)) => (Backend::Kernel, name),
            Some(("sim", name)) => (Backend::Sim, name),
            _ => (Backend::Engine, name),
        };
        let (name, copy) = match name.split_once(COPY_MARK) {
            Some((plain, copy)) => (plain, copy_of(name, copy)?),
            None => (name, FIRST_COPY),
        };
        let (mode, receive) = match name.strip_suffix(IRQ_SUFFIX) {
            Some(mode) => (mode, Receive::Irq),
            None => (name, Receive::Device),
        };
        Ok(Self { backend, mode: crate::modes::parse(mode)?, receive, copy })
    }
}

/// The number of a copy, in the name of a row.
pub(crate) fn copy_of(name: &str, copy: &str) -> Result<u8, ModeError> {
    let number = copy.parse().ok().filter(|number| (FIRST_COPY + 1..=COPIES_MAX).contains(number));
    number.ok_or_else(|| ModeError::Copy { name: name.to_owned(), max: COPIES_MAX })
}

/// The modes in order, each with every backend: what is to be compared stands side by side, and runs one after the other.
/// Those of `irq` have one more row of the kernel, those of `copies` one more of each backend for each entry.
pub fn subjects(modes: &[Mode], backends: &[Backend], irq: &[Mode], copies: &[(Mode, u8)]) -> Vec<Subject> {
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
        for (_, copy) in copies.iter().filter(|(of, _)| *of == mode) {
            let again = backends.iter().map(|backend| Subject::first(*backend, mode, Receive::Device).copied(*copy));
            subjects.extend(again);
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
        let all = subjects(&[Mode::Base, Mode::Defer { us: 20 }], &both, &[Mode::Base], &[]);
        let names: Vec<String> = all.iter().map(|subject| subject.name(true)).collect();
        assert_eq!(names, ["engine/base", "kernel/base", "kernel/base-irq", "engine/defer20", "kernel/defer20"]);
        assert_eq!((all[0].to_string(), all[1].to_string()), ("base".to_owned(), "kernel/base".to_owned()));
        assert_eq!((all[0].name(false).as_str(), all[2].name(false).as_str()), ("base", "base-irq"));
        assert!(all[1].is_base() && !all[2].is_base());
        assert!(all.iter().all(|one| one.to_string().parse() == Ok(*one)), "it reads as it is printed");
        let sim = Backend::parse_list("sim,kernel").unwrap();
        let names: Vec<String> =
            subjects(&[Mode::Base], &sim, &[], &[]).iter().map(|subject| subject.name(true)).collect();
        assert_eq!(names, ["sim/base", "kernel/base"]);
    }

    #[test]
    fn a_copy_is_a_row_of_its_own() {
        let both = Backend::parse_list("engine,kernel").unwrap();
        let all = subjects(&[Mode::Base, Mode::FullBusy], &both, &[], &[(Mode::Base, 2), (Mode::Base, 3)]);
        let names: Vec<String> = all.iter().map(|subject| subject.name(true)).collect();
        let engine_and_kernel = |name: &str| [format!("engine/{name}"), format!("kernel/{name}")];
        assert_eq!(names, ["base", "base@2", "base@3", "fullbusy"].map(engine_and_kernel).concat());
        assert_eq!((all[2].to_string().as_str(), all[2].mode), ("base@2", Mode::Base));
        assert!(all[0] != all[2] && !all[2].is_base() && all[2].is_row_of(&all[3]) && !all[0].is_row_of(&all[2]));
    }

    #[test]
    fn a_list_of_backends_is_read() {
        assert_eq!(Backend::parse_list("kernel"), Ok(vec![Backend::Kernel]));
        for wrong in ["", "engine,", "simulator", "kernel,kernel", "sim,engine,sim"] {
            assert!(Backend::parse_list(wrong).is_err(), "{wrong}");
        }
    }
}
