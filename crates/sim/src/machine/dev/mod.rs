//! The devices of the machine: receive rings, interrupts, and NAPI instances with their words and timers.

pub(crate) mod config;
pub(crate) mod device;
pub(crate) mod frames;
pub(crate) mod gro;
pub(crate) mod moderate;
pub(crate) mod napi;
pub(crate) mod nic;
pub(crate) mod query;
pub(crate) mod tune;

use napier_core::ids::IdAllocator;

use crate::machine::cpu::Cpus;
use crate::machine::dev::device::Dev;
use crate::machine::dev::frames::{DROP_REASONS, Frames};
use crate::machine::dev::napi::Napi;
use napier_scenario::Machine;

/// The NICs, their queues, and the NAPI instance of each.
pub(crate) struct Devices {
    below: Cpus,
    pub(crate) napis: Vec<Napi>,
    pub(crate) devs: Vec<Dev>,
    pub(crate) ids: IdAllocator,
    /// Instances to be checked after this step.
    pub(crate) dirty: Vec<usize>,
    pub(crate) frames: Frames,
    /// Packets that ever came.
    pub(crate) arrived: u64,
    pub(crate) drops: [u64; DROP_REASONS],
    /// The kernel is Linux before 7.3: a busy poll that stops polls once more, also where a timer follows.
    pub(crate) polls_at_stop: bool,
}

stands_on!(Devices, Cpus);

impl Devices {
    pub(crate) fn new(below: Cpus, machine: &Machine) -> Self {
        Self {
            below,
            napis: Vec::new(),
            devs: Vec::new(),
            ids: IdAllocator::new(u32::from(machine.cpus)),
            dirty: Vec::new(),
            frames: Frames::default(),
            arrived: 0,
            drops: [0; DROP_REASONS],
            polls_at_stop: false,
        }
    }
}
