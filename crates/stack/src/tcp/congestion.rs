//! Congestion control: how much may be on its way to the peer besides what the peer's window allows.
//!
//! | | window | why not always |
//! |---|---|---|
//! | none | the peer's alone | on a shared path it takes from others, and drives itself into losses |
//! | Reno | RFC 5681, by the bytes acknowledged (see `losses`) | slow to use a long path again after a loss |
//! | CUBIC | RFC 9438, by time | its clock is smoltcp's, which runs five times as fast as it should (see `workspace`): after a loss it is back in a fifth of the time, which is not fair to others |
//!
//! Unless the program says otherwise connections have Reno, but those over a link within one process have none: no third
//! party shares it, and the ring's room is what there is.

/// Which congestion control a connection has (`TCP_CONGESTION`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// None: only the peer's window bounds what is under way.
    None,
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438), with a clock that is five times too fast: it takes more than its share from other connections on
    /// a path.
    Cubic,
}
