//! Which connection: both ends.

use crate::wire::addr::End;

/// Both ends of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) local: End,
    pub(super) peer: End,
}
