//! Addresses as programs write them in memory (`ip(7)`, `ipv6(7)`). What a program writes is checked here and nowhere else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// `sizeof(struct sockaddr_storage)`: no address is longer.
pub(crate) const ADDRESS_BYTES_MAX: usize = 128;
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;
/// Without the scope. Source: `include/net/ipv6.h SIN6_LEN_RFC2133`.
const V6_BYTES_MIN: usize = 24;

/// What a program wrote.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum WrittenAddress {
    Address(SocketAddr),
    /// `AF_UNSPEC`.
    Unspecified,
}

/// Reads an address for a socket of a domain.
///
/// # Errors
/// An error of `errno(3)`: EINVAL if it is too short, EAFNOSUPPORT if it is of another family.
pub(crate) fn read(bytes: &[u8], is_v6: bool) -> Result<WrittenAddress, i32> {
    let half = |at: usize| Some([*bytes.get(at)?, *bytes.get(at + 1)?]);
    let family = i32::from(u16::from_ne_bytes(half(0).ok_or(libc::EINVAL)?));
    match family {
        libc::AF_UNSPEC => Ok(WrittenAddress::Unspecified),
        libc::AF_INET if is_v6 => Err(libc::EAFNOSUPPORT),
        libc::AF_INET => {
            let four: [u8; 4] = bytes.get(4..8).and_then(|four| four.try_into().ok()).ok_or(libc::EINVAL)?;
            if bytes.len() < V4_BYTES {
                return Err(libc::EINVAL);
            }
            let port = u16::from_be_bytes(half(2).ok_or(libc::EINVAL)?);
            Ok(WrittenAddress::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(four)), port)))
        }
        libc::AF_INET6 if !is_v6 => Err(libc::EAFNOSUPPORT),
        libc::AF_INET6 => {
            if bytes.len() < V6_BYTES_MIN {
                return Err(libc::EINVAL);
            }
            let port = u16::from_be_bytes(half(2).ok_or(libc::EINVAL)?);
            let sixteen: [u8; 16] = bytes.get(8..24).and_then(|six| six.try_into().ok()).ok_or(libc::EINVAL)?;
            let scope = bytes.get(24..28).and_then(|scope| scope.try_into().ok()).map_or(0, u32::from_ne_bytes);
            Ok(WrittenAddress::Address(SocketAddrV6::new(Ipv6Addr::from(sixteen), port, 0, scope).into()))
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// An address as a socket of a domain shows it, and its length.
pub(crate) fn write(address: SocketAddr, is_v6: bool) -> ([u8; V6_BYTES], usize) {
    let mut bytes = [0; V6_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let family = |bytes: &mut [u8; V6_BYTES], family: i32| bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    match (address, is_v6) {
        (SocketAddr::V4(four), false) => {
            family(&mut bytes, libc::AF_INET);
            bytes[4..8].copy_from_slice(&four.ip().octets());
            (bytes, V4_BYTES)
        }
        (address, _) => {
            family(&mut bytes, libc::AF_INET6);
            let (six, scope) = match address {
                SocketAddr::V4(four) => (four.ip().to_ipv6_mapped(), 0),
                SocketAddr::V6(six) => (*six.ip(), six.scope_id()),
            };
            bytes[8..24].copy_from_slice(&six.octets());
            bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
            (bytes, V6_BYTES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (text, is_v6) in [("192.0.2.1:80", false), ("[2001:db8::1]:443", true), ("[::ffff:10.0.0.1]:7", true)] {
            let address: SocketAddr = text.parse().expect("an address");
            let (bytes, len) = write(address, is_v6);
            assert_eq!(read(&bytes[..len], is_v6), Ok(WrittenAddress::Address(address)), "{text}");
            assert_eq!(read(&bytes[..len], !is_v6), Err(libc::EAFNOSUPPORT), "{text}");
        }
        let four: SocketAddr = "10.0.0.1:9".parse().expect("an address");
        let (bytes, len) = write(four, true);
        let mapped = "[::ffff:10.0.0.1]:9".parse().expect("an address");
        assert_eq!(read(&bytes[..len], true), Ok(WrittenAddress::Address(mapped)));
    }

    #[test]
    fn no_length_and_no_family_makes_it_fail_otherwise_than_by_an_error() {
        for family in 0..=u8::MAX {
            for len in 0..=V6_BYTES {
                let mut bytes = [0xff; V6_BYTES];
                bytes[..2].copy_from_slice(&u16::from(family).to_ne_bytes());
                for is_v6 in [false, true] {
                    let found = read(&bytes[..len], is_v6);
                    let is_long = len >= if is_v6 { V6_BYTES_MIN } else { V4_BYTES };
                    let is_own = i32::from(family) == if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
                    assert_eq!(
                        matches!(found, Ok(WrittenAddress::Address(_))),
                        is_long && is_own,
                        "{family} {len} {is_v6}"
                    );
                }
            }
        }
    }
}
