//! What goes on to the kernel and is worth hearing: where neighbours are, and what routers say of our packets.
//!
//! A program on the interface gives a packet to one of two, the device or the kernel. What a neighbour or a router tells all is
//! for both, so it stays the kernel's, and a packet socket shows it to the device too. Where the kernel has the addresses
//! as well ([`XdpFilter::Ports`]) it also has the answers to what the device asks, and all errors about its packets.
//!
//! | heard | always | with ports |
//! |---|---|---|
//! | ARP of a station about itself, and replies | yes | and questions for our addresses |
//! | neighbour and router advertisements | yes | and solicitations |
//! | ICMP and ICMPv6 errors | those to our addresses are ours | yes |
//!
//! Nothing of it is answered: the kernel does. Source of the codes: `include/uapi/linux/bpf_common.h`.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use napier_sys::packet::{self, FilterCode};

use crate::filter::{ARP, ETHERNET_BYTES, ICMPV6, IPV4, IPV6, XdpFilter};

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// A byte behind the index register, which [`HEADER_LENGTH`] sets to the length of an IPv4 header.
const LOAD_BYTE_BEHIND: u16 = 0x50;
const HEADER_LENGTH: u16 = 0xb1;
const TO_INDEX: u16 = 0x07;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_EQUAL_INDEX: u16 = 0x1d;
const RETURN: u16 = 0x06;

const ICMP: u32 = 1;
/// ICMP: destination unreachable, time exceeded, parameter problem.
const ERRORS_V4: [u32; 3] = [3, 11, 12];
/// ICMPv6: the same, and packet too big.
const ERRORS_V6: [u32; 4] = [1, 2, 3, 4];
const ROUTER_ADVERTISEMENT: u32 = 134;
const SOLICITATION: u32 = 135;
const ADVERTISEMENT: u32 = 136;

/// What is loaded must equal one of these.
enum Want {
    One(Vec<u32>),
    /// The word that was loaded before.
    Same,
}

/// A filter: steps that must hold, and ways to be accepted at once.
#[derive(Default)]
struct Code {
    codes: Vec<FilterCode>,
    /// Jumps that lead to the end.
    accepting: Vec<usize>,
}

impl Code {
    fn put(&mut self, code: u16, k: u32) {
        self.codes.push(FilterCode { code, if_true: 0, if_false: 0, k });
    }

    /// Goes on only if the byte at `at` is `value`: else the packet is refused.
    fn need_byte(&mut self, at: u32, value: u32) {
        self.put(LOAD_BYTE, at);
        self.codes.push(FilterCode { code: JUMP_EQUAL, if_true: 1, if_false: 0, k: value });
        self.put(RETURN, 0);
    }

    /// Accepts if what was loaded is as wanted.
    fn accept_if(&mut self, want: Want) {
        let (code, values) = match want {
            Want::One(values) => (JUMP_EQUAL, values),
            Want::Same => (JUMP_EQUAL_INDEX, vec![0]),
        };
        for k in values {
            self.accepting.push(self.codes.len());
            self.put(code, k);
        }
    }

    /// Refuses what was not accepted.
    fn finish(mut self) -> Vec<FilterCode> {
        self.put(RETURN, 0);
        let end = self.codes.len();
        for from in self.accepting {
            self.codes[from].if_true = u8::try_from(end - from - 1).expect("at most 64 addresses");
        }
        self.codes.push(FilterCode { code: RETURN, if_true: 0, if_false: 0, k: 0xffff });
        self.codes
    }
}

fn arp(own: &[IpAddr]) -> Vec<FilterCode> {
    let at = ETHERNET_BYTES as u32;
    let mut code = Code::default();
    code.put(LOAD_HALF, at + 6);
    code.accept_if(Want::One(vec![2]));
    code.put(LOAD_WORD, at + 14);
    code.put(TO_INDEX, 0);
    code.put(LOAD_WORD, at + 24);
    code.accept_if(Want::Same);
    let own = own.iter().filter_map(|address| match address {
        IpAddr::V4(address) => Some(address.to_bits()),
        IpAddr::V6(_) => None,
    });
    code.accept_if(Want::One(own.collect()));
    code.finish()
}

fn icmpv6(shares: bool) -> Vec<FilterCode> {
    let at = ETHERNET_BYTES as u32;
    let mut code = Code::default();
    code.need_byte(at + 6, ICMPV6 as u32);
    code.put(LOAD_BYTE, at + 40);
    code.accept_if(Want::One(vec![ROUTER_ADVERTISEMENT, ADVERTISEMENT]));
    if shares {
        code.accept_if(Want::One([&ERRORS_V6[..], &[SOLICITATION]].concat()));
    }
    code.finish()
}

fn icmp() -> Vec<FilterCode> {
    let at = ETHERNET_BYTES as u32;
    let mut code = Code::default();
    code.need_byte(at + 9, ICMP);
    code.put(HEADER_LENGTH, at);
    code.put(LOAD_BYTE_BEHIND, at);
    code.accept_if(Want::One(ERRORS_V4.to_vec()));
    code.finish()
}

/// The sockets of a device with these addresses.
///
/// # Errors
///
/// As `packet(7)`.
pub(crate) fn listen(ifindex: u32, filter: &XdpFilter, own: &[IpAddr]) -> io::Result<Vec<OwnedFd>> {
    let (own, shares) = match filter {
        // It all comes to the device.
        XdpFilter::Everything => return Ok(Vec::new()),
        XdpFilter::Addresses(addresses) => (&addresses[..], false),
        XdpFilter::OwnAddresses => (own, false),
        XdpFilter::Ports { addresses, .. } => (if addresses.is_empty() { own } else { &addresses[..] }, true),
    };
    let mut sockets = Vec::new();
    if own.iter().any(IpAddr::is_ipv4) {
        sockets.push(packet::listen(ifindex, ARP, &arp(own))?);
        if shares {
            sockets.push(packet::listen(ifindex, IPV4, &icmp())?);
        }
    }
    if own.iter().any(IpAddr::is_ipv6) {
        sockets.push(packet::listen(ifindex, IPV6, &icmpv6(shares))?);
    }
    Ok(sockets)
}
