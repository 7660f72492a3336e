//! Congestion control: how much may be on its way to the peer besides what the peer's window allows. The rules are
//! [`napier_core::tcp::congestion`]'s.
//!
//! Unless the program says otherwise connections have CUBIC, but those over a link within one process have none: no third
//! party shares it, and the ring's room is what there is.

use napier_core::tcp::congestion::Control;

use super::outlet::route::Route;

/// Which congestion control a connection has (`TCP_CONGESTION`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// None: only the peer's window bounds what is under way.
    None,
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
}

/// The same as programs name it.
pub(super) fn control_of(control: Control) -> CongestionControl {
    match control {
        Control::None => CongestionControl::None,
        Control::Reno => CongestionControl::Reno,
        Control::Cubic => CongestionControl::Cubic,
    }
}

/// What the program wants, or what suits the device that leads to the peer.
pub(super) fn control_for(wanted: Option<CongestionControl>, route: &Route) -> Control {
    match wanted {
        None if route.is_in_process() => Control::None,
        Some(CongestionControl::None) => Control::None,
        Some(CongestionControl::Reno) => Control::Reno,
        None | Some(CongestionControl::Cubic) => Control::Cubic,
    }
}
