//! The programs that are served, and the last few that were.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::view::{ProgramView, ShownProgram};

/// Programs that have ended and whose counts are kept.
const ENDED_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Programs {
    pub(crate) served: Vec<(u64, String, Arc<ShownProgram>)>,
    /// The last few that have ended, for those that started them.
    ended: VecDeque<ProgramView>,
}

impl Programs {
    pub(crate) fn end(&mut self, number: u64) {
        let Some(at) = self.served.iter().position(|(other, ..)| *other == number) else { return };
        let (number, program, shown) = self.served.swap_remove(at);
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(ProgramView { number, program, is_served: false, counts: shown.counts() });
    }

    pub(crate) fn of_number(&self, number: u64) -> Option<ProgramView> {
        let served = self.served.iter().find(|(other, ..)| *other == number).map(of_served);
        served.or_else(|| self.ended.iter().find(|view| view.number == number).cloned())
    }
}

pub(crate) fn of_served((number, program, shown): &(u64, String, Arc<ShownProgram>)) -> ProgramView {
    ProgramView { number: *number, program: program.clone(), is_served: true, counts: shown.counts() }
}
