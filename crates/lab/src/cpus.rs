//! Which processors the parts of an experiment get.

use std::fmt;

use serde::Serialize;

/// Processors of one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuLayout {
    /// The load generator; it polls all the time. Nothing runs there if that is elsewhere.
    pub client: usize,
    /// The load generator is on another machine, or no part of this process.
    #[serde(skip)]
    pub client_elsewhere: bool,
    /// Each worker with the softirqs of its queue, as a server pins interrupt and worker together.
    pub workers: Vec<usize>,
    /// Threads that poll for ever, one per queue; empty where a mode has none.
    pub pollers: Vec<usize>,
    /// Parts share a processor that should each have one.
    pub oversubscribed: bool,
}

/// Why there is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("needs {needed} CPUs ({why}), this process may use {available}: --oversubscribe runs it all the same")]
pub struct TooFewCpus {
    /// Processors that the mode needs.
    pub needed: usize,
    /// Processors that there are.
    pub available: usize,
    /// What they are for.
    pub why: String,
}

impl CpuLayout {
    /// Spreads client, workers and pollers over `available`, in this order.
    ///
    /// # Errors
    /// There are too few and `oversubscribe` does not allow sharing.
    pub fn choose(available: &[usize], queues: usize, pollers: bool, oversubscribe: bool) -> Result<Self, TooFewCpus> {
        Self::spread(available, queues, pollers, oversubscribe, false)
    }

    /// As [`choose`](Self::choose), without a client.
    ///
    /// # Errors
    /// As there.
    pub fn of_server_alone(
        available: &[usize],
        queues: usize,
        pollers: bool,
        oversubscribe: bool,
    ) -> Result<Self, TooFewCpus> {
        Self::spread(available, queues, pollers, oversubscribe, true)
    }

    fn spread(
        available: &[usize],
        queues: usize,
        pollers: bool,
        oversubscribe: bool,
        client_elsewhere: bool,
    ) -> Result<Self, TooFewCpus> {
        assert!(!available.is_empty() && queues > 0, "a process runs somewhere and a server has a queue");
        let pollers = if pollers { queues } else { 0 };
        let clients = usize::from(!client_elsewhere);
        let needed = clients + queues + pollers;
        let oversubscribed = needed > available.len();
        if oversubscribed && !oversubscribe {
            let polling = if pollers > 0 { format!(" + {pollers} polling for ever") } else { String::new() };
            let client = if client_elsewhere { "" } else { "1 client + " };
            let why = format!("{client}{queues} worker{}{polling}", if queues == 1 { "" } else { "s" });
            return Err(TooFewCpus { needed, available: available.len(), why });
        }
        // The client keeps its own processor as long as there are two, so that it measures rather than waits.
        let shared: &[usize] = if available.len() > 1 && !client_elsewhere { &available[1..] } else { available };
        let at = |index: usize| shared[index % shared.len()];
        Ok(Self {
            client: available[0],
            client_elsewhere,
            workers: (0..queues).map(at).collect(),
            pollers: (queues..queues + pollers).map(at).collect(),
            oversubscribed,
        })
    }
}

impl CpuLayout {
    /// The processor of the thread that polls the instance of a queue: its own if there are pollers, else its worker's.
    pub(crate) fn poller(&self, queue: usize) -> Option<usize> {
        self.pollers.get(queue).or(self.workers.get(queue)).copied()
    }

    /// How many processors the server has: workers and pollers.
    #[must_use]
    pub fn server_cpus(&self) -> usize {
        self.of_server().len()
    }

    /// The processor of the load generator, if it has one here.
    pub(crate) fn of_client(&self) -> Option<usize> {
        (!self.client_elsewhere).then_some(self.client)
    }

    /// Processors of the server, each once.
    pub(crate) fn of_server(&self) -> Vec<usize> {
        let mut cpus = [self.workers.as_slice(), self.pollers.as_slice()].concat();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

impl fmt::Display for CpuLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        match self.client_elsewhere {
            true => write!(f, "client elsewhere, workers on {}", list(&self.workers))?,
            false => write!(f, "client on CPU {}, workers and their softirqs on {}", self.client, list(&self.workers))?,
        }
        if !self.pollers.is_empty() {
            write!(f, ", pollers on {}", list(&self.pollers))?;
        }
        if self.oversubscribed {
            f.write_str(" (oversubscribed)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_hold_client_and_worker() {
        let layout = CpuLayout::choose(&[0, 1], 1, false, false).unwrap();
        assert_eq!((layout.client, layout.workers, layout.oversubscribed), (0, vec![1], false));
    }

    #[test]
    fn a_poller_needs_a_third() {
        let refused = CpuLayout::choose(&[0, 1], 1, true, false).unwrap_err();
        assert_eq!((refused.needed, refused.available), (3, 2));
        let shared = CpuLayout::choose(&[0, 1], 1, true, true).unwrap();
        assert_eq!((shared.client, shared.workers, shared.pollers), (0, vec![1], vec![1]));
        assert!(shared.oversubscribed);
        let roomy = CpuLayout::choose(&[2, 4, 6], 1, true, false).unwrap();
        assert_eq!((roomy.client, roomy.workers, roomy.pollers), (2, vec![4], vec![6]));
    }

    #[test]
    fn a_client_elsewhere_takes_none() {
        let layout = CpuLayout::of_server_alone(&[0, 1], 1, true, false).unwrap();
        assert_eq!((layout.of_client(), layout.workers, layout.pollers), (None, vec![0], vec![1]));
        let refused = CpuLayout::of_server_alone(&[0], 1, true, false).unwrap_err();
        assert!(refused.to_string().contains("needs 2 CPUs (1 worker + 1 polling"), "{refused}");
    }

    #[test]
    fn one_cpu_is_shared_only_on_request() {
        assert!(CpuLayout::choose(&[3], 1, false, false).is_err());
        let shared = CpuLayout::choose(&[3], 2, false, true).unwrap();
        assert_eq!((shared.client, shared.workers), (3, vec![3, 3]));
    }
}
