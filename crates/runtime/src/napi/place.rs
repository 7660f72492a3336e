//! Where a thread is running, as softirqs count it.

use std::cell::Cell;

/// Where the calling thread is running.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Here {
    /// The softirq CPU whose thread this is.
    pub(crate) thread_of: Option<u32>,
    /// The softirq CPU for which this thread, a program's, works while it sleeps.
    pub(crate) stands_in: Option<u32>,
    /// The softirq CPU whose poll list, or an instance as of that CPU, this thread is running now.
    pub(crate) handling: Option<u32>,
    /// The thread works off what the softirq left over.
    pub(crate) ksoftirqd: bool,
    /// The thread does of a softirq what it raised itself (`softirq/caller.rs`), and runs no list.
    pub(crate) inline: bool,
    /// The thread leaves what it raises to others.
    pub(crate) kicks_only: bool,
    /// Interrupts that this thread takes are not followed by holding others back: it is about to sleep.
    pub(crate) unheld: bool,
    /// The thread came for packets that were held back: it polls as long as one softirq run may.
    pub(crate) polls_on: bool,
}

impl Here {
    pub(crate) const NOWHERE: Self = Self {
        thread_of: None,
        stands_in: None,
        handling: None,
        ksoftirqd: false,
        inline: false,
        kicks_only: false,
        unheld: false,
        polls_on: false,
    };

    /// Whether this thread looks at what is raised and armed on softirq CPU `index` before it sleeps.
    pub(crate) fn looks_after(self, index: u32) -> bool {
        self.thread_of == Some(index) || self.stands_in == Some(index)
    }
}

thread_local! {
    pub(crate) static HERE: Cell<Here> = const { Cell::new(Here::NOWHERE) };
}
