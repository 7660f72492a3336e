//! Addresses and control messages of datagrams, as programs write and read them (`ip(7)`, `ipv6(7)`), and what heads have for them.

use core::ffi::{c_int, c_uint, c_void};

use super::abi::{self, ControlHead, MessageHead};
use super::record::{HAS_OWN, HAS_PEER, HAS_TOS, HAS_TTL, RecordHead, RecordPeer};

const CONTROL_HEAD: usize = size_of::<ControlHead>();
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;
/// Without the scope. Source: `include/net/ipv6.h SIN6_LEN_RFC2133`.
const V6_BYTES_MIN: usize = 24;
/// Control messages that are looked at.
const MESSAGES_MAX: usize = 64;

/// Reads an address.
///
/// # Errors
/// Of `errno(3)`.
///
/// # Safety
/// So many bytes can be read there.
pub(crate) unsafe fn read_address(at: *const c_void, len: c_uint) -> Result<RecordPeer, c_int> {
    let mut bytes = [0_u8; V6_BYTES];
    let len = (len as usize).min(V6_BYTES);
    // SAFETY: as the caller promises, and the room has as many.
    unsafe { at.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
    let family = c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let mut peer = RecordPeer { port, ..RecordPeer::default() };
    match family {
        abi::AF_INET if len >= V4_BYTES => {
            peer.address[..4].copy_from_slice(&word(4));
            Ok(peer)
        }
        abi::AF_INET6 if len >= V6_BYTES_MIN => {
            peer.is_v6 = true;
            peer.address.copy_from_slice(&bytes[8..24]);
            peer.scope = u32::from_ne_bytes(word(24));
            Ok(peer)
        }
        abi::AF_INET | abi::AF_INET6 => Err(abi::EINVAL),
        _ => Err(abi::EAFNOSUPPORT),
    }
}

/// An address as a program reads it, and its length.
fn address_of(peer: &RecordPeer) -> ([u8; V6_BYTES], usize) {
    let mut bytes = [0; V6_BYTES];
    let family = if peer.is_v6 { abi::AF_INET6 } else { abi::AF_INET } as u16;
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&peer.port.to_be_bytes());
    if !peer.is_v6 {
        bytes[4..8].copy_from_slice(&peer.address[..4]);
        return (bytes, V4_BYTES);
    }
    bytes[8..24].copy_from_slice(&peer.address);
    bytes[24..].copy_from_slice(&peer.scope.to_ne_bytes());
    (bytes, V6_BYTES)
}

/// Writes the sender of a datagram where a program has room for so many bytes; the whole length.
///
/// # Safety
/// So many bytes can be written there.
pub(crate) unsafe fn write_address(head: Option<&RecordHead>, at: *mut c_void, room: c_uint) -> c_uint {
    let Some(head) = head.filter(|head| head.has(HAS_PEER)) else { return 0 };
    let (bytes, len) = address_of(&head.peer);
    // SAFETY: no more than there is room for, as the caller promises.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(at.cast::<u8>(), len.min(room as usize)) };
    len as c_uint
}

/// One control message: level and kind, where its value lies, and how long that is.
pub(crate) struct ControlMessage {
    pub(crate) what: (c_int, c_int),
    pub(crate) value: *const u8,
    pub(crate) len: usize,
}

/// A control message that says another length than there is room for.
pub(crate) struct Malformed;

/// The control messages of a message; one that is malformed is the last.
pub(crate) struct ControlMessages {
    control: *const u8,
    len: usize,
    at: usize,
}

impl ControlMessages {
    /// # Safety
    /// The control data, if there are any, can be read for as long as these are asked for.
    pub(crate) unsafe fn of(control: *const u8, len: usize) -> Self {
        Self { control, len: if control.is_null() { 0 } else { len }, at: 0 }
    }
}

impl Iterator for ControlMessages {
    type Item = Result<ControlMessage, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at + CONTROL_HEAD > self.len {
            return None;
        }
        let at = self.control.wrapping_add(self.at);
        // SAFETY: the head lies in the control data, which `of` was promised can be read; its place need not be aligned.
        let head = unsafe { at.cast::<ControlHead>().read_unaligned() };
        if head.len < CONTROL_HEAD || head.len > self.len - self.at {
            self.at = self.len;
            return Some(Err(Malformed));
        }
        self.at += head.len.next_multiple_of(size_of::<usize>());
        let (value, len) = (at.wrapping_add(CONTROL_HEAD), head.len - CONTROL_HEAD);
        Some(Ok(ControlMessage { what: (head.level, head.kind), value, len }))
    }
}

/// Takes what control messages say of a datagram that is sent.
///
/// # Errors
/// `EINVAL` for what sockets for datagrams do not have (`net/ipv4/ip_sockglue.c ip_cmsg_send`).
///
/// # Safety
/// The control data can be read.
pub(crate) unsafe fn read((control, control_len): (*const u8, usize), head: &mut RecordHead) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    for found in unsafe { ControlMessages::of(control, control_len) }.take(MESSAGES_MAX) {
        let ControlMessage { what, value: at, len } = found.map_err(|Malformed| abi::EINVAL)?;
        let mut value = [0_u8; 20];
        let len = len.min(value.len());
        // SAFETY: it lies in the control data, which can be read.
        unsafe { at.copy_to_nonoverlapping(value.as_mut_ptr(), len) };
        take(head, what, &value, len)?;
    }
    Ok(())
}

/// One control message.
fn take(head: &mut RecordHead, what: (c_int, c_int), value: &[u8; 20], len: usize) -> Result<(), c_int> {
    let word = |at: usize| u32::from_ne_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
    let byte = || if len >= 4 { u8::try_from(word(0)).map_err(|_| abi::EINVAL) } else { Ok(value[0]) };
    match what {
        (abi::SOL_IP, abi::IP_PKTINFO) if len >= 12 => {
            head.flags |= HAS_OWN;
            head.ifindex = word(0);
            // As this head has addresses.
            let at = if head.peer.is_v6 { 12 } else { 0 };
            head.own[at..at + 4].copy_from_slice(&value[4..8]);
            if head.peer.is_v6 {
                head.own[10..12].fill(0xff);
            }
        }
        (abi::SOL_IPV6, abi::IPV6_PKTINFO) if len >= 20 => {
            head.flags |= HAS_OWN;
            head.ifindex = word(16);
            head.own.copy_from_slice(&value[..16]);
            // Towards the peer that it has.
            head.peer.is_v6 |= !head.has(HAS_PEER);
        }
        (abi::SOL_IP, abi::IP_TOS) | (abi::SOL_IPV6, abi::IPV6_TCLASS) if len >= 1 => {
            (head.flags, head.tos) = (head.flags | HAS_TOS, byte()?);
        }
        (abi::SOL_IP, abi::IP_TTL) | (abi::SOL_IPV6, abi::IPV6_HOPLIMIT) if len >= 4 => {
            let hops = byte()?;
            if hops == 0 {
                return Err(abi::EINVAL);
            }
            (head.flags, head.ttl) = (head.flags | HAS_TTL, hops);
        }
        // Descriptors are for Unix sockets, and ignored (`net/core/sock.c __sock_cmsg_send`).
        (abi::SOL_SOCKET, abi::SCM_RIGHTS) => {}
        _ => return Err(abi::EINVAL),
    }
    Ok(())
}

/// Writes what a program has asked to be told of a datagram into its message: sender, control messages, flags.
///
/// # Safety
/// The message's name and control data can be written, as long as it says.
pub(crate) unsafe fn fill(message: &mut MessageHead, head: Option<&RecordHead>, flags: c_int) {
    message.flags = flags;
    if !message.name.is_null() {
        let at = message.name.cast_mut();
        // SAFETY: as the caller promises.
        message.name_len = unsafe { write_address(head, at, message.name_len) };
    }
    let mut room = ControlRoom { at: message.control.cast_mut(), room: message.control_len, used: 0, was_cut: false };
    if message.control.is_null() {
        room.room = 0;
    }
    if let Some(head) = head {
        // SAFETY: as the caller promises.
        unsafe { room.tell(head) };
    }
    message.control_len = room.used;
    if room.was_cut {
        message.flags |= abi::MSG_CTRUNC;
    }
}

/// Room for control messages.
struct ControlRoom {
    at: *mut u8,
    room: usize,
    used: usize,
    was_cut: bool,
}

impl ControlRoom {
    /// # Safety
    /// It can be written.
    unsafe fn tell(&mut self, head: &RecordHead) {
        let is_v6 = head.peer.is_v6;
        let mut value = [0_u8; 20];
        if head.has(HAS_OWN) && is_v6 {
            value[..16].copy_from_slice(&head.own);
            value[16..].copy_from_slice(&head.ifindex.to_ne_bytes());
            // SAFETY: as the caller promises, here and below.
            unsafe { self.put((abi::SOL_IPV6, abi::IPV6_PKTINFO), &value) };
        } else if head.has(HAS_OWN) {
            value[..4].copy_from_slice(&head.ifindex.to_ne_bytes());
            value[4..8].copy_from_slice(&head.own[..4]);
            value[8..12].copy_from_slice(&head.own[..4]);
            // SAFETY: as above.
            unsafe { self.put((abi::SOL_IP, abi::IP_PKTINFO), &value[..12]) };
        }
        let hops = if is_v6 { (abi::SOL_IPV6, abi::IPV6_HOPLIMIT) } else { (abi::SOL_IP, abi::IP_TTL) };
        if head.has(HAS_TTL) {
            // SAFETY: as above.
            unsafe { self.put(hops, &c_int::from(head.ttl).to_ne_bytes()) };
        }
        if head.has(HAS_TOS) && is_v6 {
            // SAFETY: as above.
            unsafe { self.put((abi::SOL_IPV6, abi::IPV6_TCLASS), &c_int::from(head.tos).to_ne_bytes()) };
        } else if head.has(HAS_TOS) {
            // SAFETY: as above.
            unsafe { self.put((abi::SOL_IP, abi::IP_TOS), &[head.tos]) };
        }
    }

    /// Puts one message there, or as much as there is room for. Source: `net/core/scm.c put_cmsg`.
    ///
    /// # Safety
    /// It can be written.
    unsafe fn put(&mut self, (level, kind): (c_int, c_int), value: &[u8]) {
        let left = self.room - self.used;
        if left < CONTROL_HEAD {
            self.was_cut = true;
            return;
        }
        let len = CONTROL_HEAD + value.len();
        self.was_cut |= len > left;
        let len = len.min(left);
        let at = self.at.wrapping_add(self.used);
        let head = ControlHead { len, level, kind };
        // SAFETY: there is room for a head, as was just seen; its place need not be aligned.
        unsafe { at.cast::<ControlHead>().write_unaligned(head) };
        let to = at.wrapping_add(CONTROL_HEAD);
        // SAFETY: so many bytes are left behind the head.
        unsafe { value.as_ptr().copy_to_nonoverlapping(to, len - CONTROL_HEAD) };
        self.used += len.next_multiple_of(size_of::<usize>()).min(left);
    }
}
