//! Tables of the rules, and segments fed to a name space by hand.

mod challenge;
mod crossing;
mod keep_alive;
mod limits;
mod losses;
mod owned;
mod rules;
mod segments;
mod told;

use smoltcp::socket::tcp::State;

/// All of them.
pub(super) const STATES: [State; 11] = [
    State::Closed,
    State::Listen,
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];
