//! The stack of the machine: the way of a packet to its socket, sockets, and event contexts.

pub(crate) mod calls;
pub(crate) mod epoll;
pub(crate) mod socket;
pub(crate) mod stack;

use crate::machine::dev::Devices;
use crate::machine::dev::gro::Up;
use crate::machine::net::socket::{Ep, Sock};
use napier_scenario::{Machine, Sysctl};

/// The stack: sockets and event contexts.
pub(crate) struct Network {
    below: Devices,
    pub(crate) socks: Vec<Sock>,
    pub(crate) epolls: Vec<Ep>,
    pub(crate) sysctl: Sysctl,
    /// Lists on their way to the sockets.
    up: Up,
    pub(crate) busy_poll_rx_packets: u64,
    /// Frames without data that reached their connections.
    pub(crate) acks: u64,
}

stands_on!(Network, Devices);

impl Network {
    pub(crate) fn new(below: Devices, machine: &Machine) -> Self {
        Self {
            below,
            socks: Vec::new(),
            epolls: Vec::new(),
            sysctl: machine.sysctl,
            up: Up::default(),
            busy_poll_rx_packets: 0,
            acks: 0,
        }
    }
}
