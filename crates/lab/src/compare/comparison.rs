//! A comparison that is running: what is compared, and why some of it cannot be run here.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use napier_kv::load::net::Proto;

use super::config::CompareConfig;
use super::kernel::{self, KernelEnd};
use super::place::Testbed;
use super::predicted::Predictor;
use super::server;
use super::workload::Workload;
use crate::advise;
use crate::cpus::{CpuLayout, TooFewCpus};
use crate::modes::{Mode, NO_GROUPS, ServerStyle};
use crate::subject::{Backend, Subject};

/// Requests before measuring begins: sockets of all flows exist by then.
pub(super) const WARM_UP: Duration = Duration::from_millis(120);

/// How long answers are waited for after the last request.
pub(super) const DRAIN: Duration = Duration::from_millis(20);

/// Time that a run takes beside measuring: threads, shared memory, warm-up, drain.
pub(super) const RUN_OVERHEAD: Duration = Duration::from_millis(220);

/// A comparison that is running.
pub(super) struct Comparison<'a> {
    pub(super) config: &'a CompareConfig,
    pub(super) workload: Workload,
    pub(super) available: Vec<usize>,
    pub(super) interrupted: &'a AtomicBool,
    pub(super) predictor: Option<Predictor<'a>>,
    pub(super) subjects: Vec<Subject>,
    pub(super) refused: Vec<(Subject, String)>,
    /// Who had the CPUs before anything ran.
    pub(super) at_start: Option<String>,
    pub(super) begun: Instant,
}

impl Comparison<'_> {
    /// Those that are measured, and can run here.
    pub(super) fn runnable(&self) -> impl Iterator<Item = Subject> {
        self.able().filter(|subject| subject.backend != Backend::Sim)
    }

    /// Those that nothing speaks against.
    pub(super) fn able(&self) -> impl Iterator<Item = Subject> {
        let is_refused = |subject: &Subject| self.refused.iter().any(|(other, _)| other == subject);
        self.subjects.iter().copied().filter(move |subject| !is_refused(subject))
    }

    pub(super) fn layout(&self, mode: Mode) -> Result<CpuLayout, TooFewCpus> {
        let pollers = matches!(mode, Mode::ThreadedBusyPoll | Mode::Group);
        self.config.layout(&self.available, pollers)
    }

    /// Why a subject cannot run here; `None` if it can.
    pub(super) fn why_not(&self, subject: Subject) -> Option<String> {
        if subject.backend == Backend::Sim {
            return advise::why_not(subject.mode);
        }
        if subject.backend == Backend::Kernel && subject.mode == Mode::Group {
            return Some(NO_GROUPS.to_owned());
        }
        let kernel = match (&*self.workload.place, subject.backend) {
            (Testbed::Veth(veth), Backend::Kernel) => {
                self.why_not_in_kernel(KernelEnd::new(veth.left()).map_err(Into::into), subject)
            }
            (Testbed::On(on), Backend::Kernel) => self.why_not_in_kernel(Ok(KernelEnd::on(&on.interface)), subject),
            (_, Backend::Engine | Backend::Sim) | (Testbed::Link | Testbed::Memif, Backend::Kernel) => None,
        };
        if kernel.is_some() {
            return kernel;
        }
        if let Err(too_few) = self.layout(subject.mode) {
            return Some(too_few.to_string());
        }
        let style = ServerStyle::of(&subject.mode.plan());
        let is_ours = subject.backend == Backend::Engine || self.config.program.is_none();
        (is_ours && self.config.proto == Proto::Tcp && style == ServerStyle::BlockingReceive)
            .then(|| server::ONE_SOCKET.to_owned())
    }

    fn why_not_in_kernel(&self, end: anyhow::Result<KernelEnd>, subject: Subject) -> Option<String> {
        if let Some(program) = &self.config.program
            && let Some(why) = kernel::why_no_program(program, subject.mode)
        {
            return Some(why);
        }
        // What the kernel refuses it refuses with any number of CPUs.
        let queues = usize::from(self.config.queues);
        let layout = CpuLayout::choose(&self.available, queues, false, true).expect("sharing is allowed");
        match end {
            Ok(mut end) => end.why_not(subject, &layout),
            Err(error) => Some(error.to_string()),
        }
    }
}
