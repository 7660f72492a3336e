//! What each CPU did when, in runs to look at.

use napier_core::time::Instant;

use crate::machine::cpu::Cpus;
use crate::machine::sim::event::CtxId;

/// What is kept of a run while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    pub(crate) ran: Vec<(usize, CtxId, Instant, Instant)>,
    pub(crate) works: Vec<(Instant, Instant)>,
}

impl Cpus {
    /// A context had its CPU from then until then.
    #[inline]
    pub(crate) fn ran(&mut self, cpu: usize, id: CtxId, from: Instant, to: Instant) {
        if let Some(trace) = &mut self.trace
            && from < to
        {
            trace.ran.push((cpu, id, from, to));
        }
    }
}
