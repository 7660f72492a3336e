//! The functions of the header, by the pages of the manual.

mod device;
mod engine;
mod epoll;
mod message;
mod raw;
mod socket;
mod stats;
mod transfer;

pub use device::*;
pub use engine::*;
pub use epoll::*;
pub use message::*;
pub use raw::*;
pub use socket::*;
pub use stats::*;
pub use transfer::*;
