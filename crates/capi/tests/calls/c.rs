//! The calls as a program in C makes them, with what its pointers point to kept here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::SocketAddr;
use std::ptr::null;

use libc::{epoll_event, sockaddr_in};
use napier::*;

pub(crate) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().expect("a number")
}

pub(crate) fn last_error() -> String {
    // SAFETY: the text stays until the next failure of this thread.
    unsafe { CStr::from_ptr(napier_last_error()) }.to_str().expect("text").to_owned()
}

/// What a call gave, or the test fails with what it says.
#[track_caller]
pub(crate) fn fine<N: TryInto<i64> + Copy>(result: N) -> N {
    let is_failure = result.try_into().is_ok_and(|number| number < 0);
    assert!(!is_failure, "{}", last_error());
    result
}

/// The call failed by this number.
#[track_caller]
pub(crate) fn refused<N: TryInto<i64>>(result: N, number: c_int) {
    let said = errno();
    assert!(result.try_into().is_ok_and(|result| result == -1), "it did not fail");
    assert_eq!(said, number, "{}", last_error());
}

pub(crate) fn engine() -> c_int {
    // SAFETY: NULL is all defaults.
    fine(unsafe { napier_engine_start(null()) })
}

pub(crate) struct Texts(CString, CString);

pub(crate) fn texts(name: &str, addresses: &str) -> Texts {
    Texts(CString::new(name).expect("a name"), CString::new(addresses).expect("addresses"))
}

impl Texts {
    pub(crate) fn options(&self, netns: c_int) -> NapierDeviceOptions {
        NapierDeviceOptions {
            size: size_of::<NapierDeviceOptions>(),
            name: self.0.as_ptr(),
            addresses: self.1.as_ptr(),
            netns,
            queues: 0,
            ring_size: 256,
            frame_bytes: 0,
            mac: [0; 6],
            reserved: [0; 2],
        }
    }
}

/// An engine, with a link between its first name space (10.0.0.1) and another one (10.0.0.2).
pub(crate) struct Rig {
    pub(crate) engine: c_int,
    pub(crate) netns: c_int,
    pub(crate) devices: [c_int; 2],
}

pub(crate) fn rig() -> Rig {
    let engine = engine();
    let netns = fine(napier_netns(engine));
    let (a, b) = (texts("a0", "10.0.0.1/24,fd00::1/64"), texts("b0", "10.0.0.2/24,fd00::2/64"));
    let mut devices = [0; 2];
    // SAFETY: the texts outlive the call, and there is room for two.
    fine(unsafe { napier_add_link(engine, &a.options(0), &b.options(netns), devices.as_mut_ptr()) });
    Rig { engine, netns, devices }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A test may have stopped it.
        napier_engine_stop(self.engine);
        for handle in self.devices.into_iter().chain([self.netns]) {
            napier_close(handle);
        }
    }
}

pub(crate) fn set_mode(handle: c_int, mode: &CStr) -> c_int {
    // SAFETY: the text ends with a NUL.
    unsafe { napier_set_mode(handle, mode.as_ptr()) }
}

/// An address of IPv4 as C has it.
pub(crate) fn v4(ip: [u8; 4], port: u16) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip) },
        sin_zero: [0; 8],
    }
}

pub(crate) const LEN: libc::socklen_t = size_of::<sockaddr_in>() as u32;

pub(crate) fn bind(socket: c_int, at: &sockaddr_in) -> c_int {
    // SAFETY: the address is as long as said.
    unsafe { napier_bind(socket, (&raw const *at).cast(), LEN) }
}

pub(crate) fn connect(socket: c_int, to: &sockaddr_in) -> c_int {
    // SAFETY: the address is as long as said.
    unsafe { napier_connect(socket, (&raw const *to).cast(), LEN) }
}

pub(crate) fn accept(socket: c_int) -> c_int {
    // SAFETY: no address is asked for.
    unsafe { napier_accept(socket, std::ptr::null_mut(), std::ptr::null_mut()) }
}

pub(crate) fn send(socket: c_int, data: &[u8]) -> isize {
    // SAFETY: the bytes are as many as said.
    unsafe { napier_send(socket, data.as_ptr().cast(), data.len(), 0) }
}

pub(crate) fn sendto(socket: c_int, data: &[u8], to: &sockaddr_in) -> isize {
    // SAFETY: bytes and address are as long as said.
    unsafe { napier_sendto(socket, data.as_ptr().cast(), data.len(), 0, (&raw const *to).cast(), LEN) }
}

pub(crate) fn recv(socket: c_int, data: &mut [u8], flags: c_int) -> isize {
    // SAFETY: the bytes are as many as said.
    unsafe { napier_recv(socket, data.as_mut_ptr().cast(), data.len(), flags) }
}

/// Receives a datagram, and who it is from.
pub(crate) fn recvfrom(socket: c_int, data: &mut [u8]) -> (isize, sockaddr_in) {
    let (mut from, mut len) = (v4([0; 4], 0), LEN);
    let data = (data.as_mut_ptr().cast(), data.len());
    // SAFETY: bytes and address are as long as said.
    let bytes = unsafe { napier_recvfrom(socket, data.0, data.1, 0, (&raw mut from).cast(), &raw mut len) };
    (bytes, from)
}

pub(crate) fn local_port(socket: c_int) -> u16 {
    let (mut at, mut len) = (v4([0; 4], 0), LEN);
    // SAFETY: the address is as long as said.
    fine(unsafe { napier_getsockname(socket, (&raw mut at).cast(), &raw mut len) });
    assert_eq!(len, LEN);
    u16::from_be(at.sin_port)
}

pub(crate) fn setsockopt(socket: c_int, level: c_int, name: c_int, value: c_int) -> c_int {
    // SAFETY: the value is as long as said.
    unsafe { napier_setsockopt(socket, level, name, (&raw const value).cast(), 4) }
}

pub(crate) fn getsockopt(socket: c_int, level: c_int, name: c_int) -> c_int {
    let (mut value, mut len) = (0_i32, 4);
    // SAFETY: the value is as long as said.
    fine(unsafe { napier_getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut len) });
    assert_eq!(len, 4);
    value
}

pub(crate) fn ctl(context: c_int, operation: c_int, member: c_int, events: c_int, data: u64) -> c_int {
    let event = epoll_event { events: events.cast_unsigned(), u64: data };
    // SAFETY: the event is there.
    unsafe { napier_epoll_ctl(context, operation, member, &event) }
}

/// Waits for one event at most; its data.
pub(crate) fn wait(context: c_int, timeout_ms: c_int) -> (c_int, u64) {
    let mut event = epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for one.
    let count = unsafe { napier_epoll_wait(context, &raw mut event, 1, timeout_ms) };
    (count, event.u64)
}

pub(crate) fn address_of(at: &sockaddr_in) -> SocketAddr {
    (at.sin_addr.s_addr.to_ne_bytes(), u16::from_be(at.sin_port)).into()
}

pub(crate) const NO_FRAME: NapierFrame = NapierFrame { data: std::ptr::null_mut(), len: 0, reserved: 0, token: 0 };

/// A frame of the test's own bytes.
pub(crate) fn own_frame(bytes: &mut [u8]) -> NapierFrame {
    NapierFrame { data: bytes.as_mut_ptr().cast::<c_void>(), len: bytes.len() as u32, ..NO_FRAME }
}

pub(crate) fn tx(port: c_int, frames: &[NapierFrame]) -> c_int {
    // SAFETY: the frames are as many, and as long, as said.
    unsafe { napier_tx_burst(port, frames.as_ptr(), frames.len() as u32) }
}

pub(crate) fn rx(port: c_int, frames: &mut [NapierFrame]) -> c_int {
    // SAFETY: there is room for as many as said.
    unsafe { napier_rx_burst(port, frames.as_mut_ptr(), frames.len() as u32) }
}

pub(crate) fn free(port: c_int, frames: &[NapierFrame]) -> c_int {
    // SAFETY: the frames are as many as said.
    unsafe { napier_rx_free(port, frames.as_ptr(), frames.len() as u32) }
}

/// The bytes of a frame that is held.
pub(crate) fn bytes_of(frame: &NapierFrame) -> Vec<u8> {
    // SAFETY: the frame is held, and has as many bytes as it says.
    unsafe { std::slice::from_raw_parts(frame.data.cast::<u8>(), frame.len as usize) }.to_vec()
}

/// Figures by name.
pub(crate) fn stats(handle: c_int) -> Vec<(String, u64)> {
    let mut stats = vec![NapierStat { name: [0; NAPIER_STAT_NAME_BYTES], value: 0 }; 512];
    // SAFETY: there is room for as many as said.
    let count = fine(unsafe { napier_stats(handle, stats.as_mut_ptr(), stats.len() as u32) });
    let name = |name: &[c_char]| name.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned() as char).collect();
    stats[..count as usize].iter().map(|stat| (name(&stat.name), stat.value)).collect()
}
