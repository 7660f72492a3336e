//! When a program's requests came, and on which connections, from the events of [`Explainer`](super::Explainer).

use std::collections::{BTreeSet, HashMap};

use super::{Happened, PathEvent};

/// Requests that are kept; of more the first ones are.
const REQUESTS_MAX: usize = 4_000_000;

/// A request that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its socket was told, or where that was not seen when it was read; `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The socket's address.
    pub socket: u64,
}

/// Puts events together to arrivals: data that is told to a socket and read by the program, and until it has sent something there, is one request.
#[derive(Debug, Default)]
pub struct Arrivals {
    told_ns: HashMap<u64, u64>,
    unanswered: BTreeSet<u64>,
    requests: Vec<Arrival>,
    /// The same where nothing is ever sent: each read is one.
    reads: Vec<Arrival>,
    is_answered: bool,
    wakes: u64,
    readers: BTreeSet<u32>,
    is_cut: bool,
}

impl Arrivals {
    /// Takes an event, in the order of their times; `program` are the program's threads.
    pub fn add(&mut self, event: &PathEvent, program: &BTreeSet<u32>) {
        let is_its = program.contains(&event.tid);
        match event.what {
            Happened::Ready { socket } => _ = self.told_ns.entry(socket).or_insert(event.at_ns),
            Happened::Read { socket, bytes } if is_its && bytes > 0 => {
                let at_ns = self.told_ns.remove(&socket).unwrap_or(event.at_ns);
                self.readers.insert(event.tid);
                let arrival = Arrival { at_ns, socket };
                self.is_cut |= self.reads.len() == REQUESTS_MAX;
                if !self.is_cut {
                    self.reads.push(arrival);
                    if self.unanswered.insert(socket) {
                        self.requests.push(arrival);
                    }
                }
            }
            // Another program's, or the end of a connection.
            Happened::Read { socket, .. } | Happened::Closed { socket } => {
                self.told_ns.remove(&socket);
                self.unanswered.remove(&socket);
            }
            Happened::Sent { socket } if is_its => self.is_answered |= self.unanswered.remove(&socket),
            Happened::Waking { woken } if program.contains(&woken) => self.wakes += 1,
            _ => {}
        }
    }

    /// The requests, in the order in which they were read.
    #[must_use]
    pub fn requests(&self) -> &[Arrival] {
        if self.is_answered { &self.requests } else { &self.reads }
    }

    /// How often a thread of the program was woken.
    #[must_use]
    pub const fn wakes(&self) -> u64 {
        self.wakes
    }

    /// Threads of the program that read.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// There were more requests than are kept.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(events: &[(u64, u32, Happened)]) -> Arrivals {
        let mut all = Arrivals::default();
        for (at_ns, tid, what) in events {
            let event =
                PathEvent { at_ns: *at_ns, cpu: 0, tid: *tid, in_softirq: false, in_irq: false, what: what.clone() };
            all.add(&event, &BTreeSet::from([7, 8]));
        }
        all
    }

    const fn read(socket: u64) -> Happened {
        Happened::Read { socket, bytes: 10 }
    }

    #[test]
    fn a_request_came_when_its_socket_was_told() {
        let ready = |socket| Happened::Ready { socket };
        let found = arrivals(&[
            (1, 0, ready(1)),
            (2, 0, ready(1)),
            (3, 0, Happened::Waking { woken: 7 }),
            (4, 7, read(1)),
            // The rest of it.
            (5, 0, ready(1)),
            (6, 7, read(1)),
            (7, 7, Happened::Sent { socket: 1 }),
            (8, 8, read(1)),
            // Of another program.
            (9, 0, ready(2)),
            (10, 99, read(2)),
        ]);
        let requests: Vec<(u64, u64)> = found.requests().iter().map(|one| (one.at_ns, one.socket)).collect();
        assert_eq!(requests, [(1, 1), (8, 1)]);
        assert_eq!((found.wakes(), found.readers(), found.is_cut()), (1, 2, false));
    }

    #[test]
    fn who_answers_elsewhere_has_a_request_for_each_read() {
        let found = arrivals(&[(1, 7, read(1)), (2, 7, read(1)), (3, 7, Happened::Sent { socket: 2 })]);
        assert_eq!(found.requests().len(), 2);
        let end = arrivals(&[(1, 7, read(1)), (2, 7, Happened::Read { socket: 1, bytes: 0 })]);
        assert_eq!(end.requests().len(), 1);
    }
}
