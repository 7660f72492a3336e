//! Two machines over a path that loses, reorders, repeats, delays and is slow; and one machine against scripts, both in made time.

mod clock;
mod goodput;
mod hostile;
mod path;
mod scripts;
mod time_wait;
mod transfers;

use super::TcpState;

/// All of them.
pub(in crate::tcp) const STATES: [TcpState; 10] = [
    TcpState::Closed,
    TcpState::SynSent,
    TcpState::SynReceived,
    TcpState::Established,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::CloseWait,
    TcpState::Closing,
    TcpState::LastAck,
    TcpState::TimeWait,
];
