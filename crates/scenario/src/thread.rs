//! Application threads, and the scheduling class of any thread.

use super::CpuIx;

/// Scheduling class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Fair share.
    Fair,
    /// Real time, first in first out; runs before every fair thread.
    Fifo,
}

/// `[[thread]]`: an application thread, pinned.
#[derive(Clone, PartialEq, Debug)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub cpu: CpuIx,
    /// Scheduling class. Default fair.
    pub policy: Policy,
    /// It has `CAP_NET_ADMIN`. Default true.
    pub cap_net_admin: bool,
}
