//! Addresses of both ends of a pair, and where threads run.

use std::net::Ipv4Addr;

use napier_scenario::DeviceIx;
use rustix::thread::CpuSet;

/// The address of the device's end (1) or of the other one (2).
pub(super) fn addr(device: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, u8::try_from(device).expect("at most 256 devices, which was checked"), end)
}

pub(super) fn mac(device: usize, end: u8) -> [u8; 6] {
    [2, 0, 0, 0x78, u8::try_from(device).expect("at most 256 devices, which was checked"), end]
}

pub(super) fn device_ix(position: usize) -> DeviceIx {
    DeviceIx(u16::try_from(position).expect("at most 256 devices, which was checked"))
}

/// Pins the calling thread.
pub(super) fn pin(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Where it is not allowed the scheduler chooses; what a file says of CPUs is compared.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}
