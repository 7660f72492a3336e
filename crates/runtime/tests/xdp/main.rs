//! Devices on veth interfaces, with the kernel at the other end or another device.

mod alone;
mod beside;
mod faults;
mod interrupts;
mod lossy;
mod rig;
mod traffic;
mod transmit;
