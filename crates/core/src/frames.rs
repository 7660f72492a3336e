//! UDP datagrams over IPv4 as frames: one header per flow, made once, completed per datagram.

use core::net::SocketAddrV4;

/// Bytes before the payload: Ethernet, IPv4 without options, UDP.
pub const HEADER_BYTES: usize = 14 + 20 + 8;

/// The headers of one flow with lengths and checksums left open.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; HEADER_BYTES],
    /// One's-complement sum of the IPv4 header without its length.
    ip_sum: u32,
    /// One's-complement sum of the pseudo header and the ports, without the length.
    udp_sum: u32,
}

impl Template {
    /// Headers from `src` to `dst`.
    #[must_use]
    pub fn new(src_mac: [u8; 6], dst_mac: [u8; 6], src: SocketAddrV4, dst: SocketAddrV4) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..6].copy_from_slice(&dst_mac);
        bytes[6..12].copy_from_slice(&src_mac);
        bytes[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
        bytes[14] = 0x45;
        bytes[20..22].copy_from_slice(&0x4000_u16.to_be_bytes());
        bytes[22] = 64;
        bytes[23] = 17;
        bytes[26..30].copy_from_slice(&src.ip().octets());
        bytes[30..34].copy_from_slice(&dst.ip().octets());
        bytes[34..36].copy_from_slice(&src.port().to_be_bytes());
        bytes[36..38].copy_from_slice(&dst.port().to_be_bytes());
        let ip_sum = sum(&bytes[14..34], 0);
        let udp_sum = sum(&bytes[26..38], 17);
        Self { bytes, ip_sum, udp_sum }
    }

    /// Completes a frame whose payload of `payload_bytes` is in place already; returns the frame's length.
    ///
    /// # Panics
    /// If the frame is too short for it, or the payload too long for a datagram.
    #[inline]
    pub fn complete(&self, frame: &mut [u8], payload_bytes: usize) -> usize {
        frame[..HEADER_BYTES].copy_from_slice(&self.bytes);
        let udp_bytes = u16::try_from(8 + payload_bytes).expect("the payload fits a datagram");
        let ip_bytes = udp_bytes + 20;
        frame[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
        frame[24..26].copy_from_slice(&(!fold(self.ip_sum + u32::from(ip_bytes))).to_be_bytes());
        frame[38..40].copy_from_slice(&udp_bytes.to_be_bytes());
        let end = HEADER_BYTES + payload_bytes;
        // The length counts twice: in the pseudo header and in the header.
        let partial = self.udp_sum + 2 * u32::from(udp_bytes);
        let checksum = match !fold(sum(&frame[HEADER_BYTES..end], partial)) {
            0 => 0xffff,
            checksum => checksum,
        };
        frame[40..42].copy_from_slice(&checksum.to_be_bytes());
        end
    }
}

/// Payload and destination port of an IPv4 UDP frame without options; `None` for anything else.
#[must_use]
#[inline]
pub fn udp_payload(frame: &[u8]) -> Option<(u16, &[u8])> {
    if frame.len() < HEADER_BYTES || frame[12..14] != [8, 0] || frame[14] != 0x45 || frame[23] != 17 {
        return None;
    }
    let port = u16::from_be_bytes([frame[36], frame[37]]);
    let udp_bytes = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    Some((port, frame.get(HEADER_BYTES..34 + udp_bytes)?))
}

/// Adds big-endian 16-bit words to `start`, an odd last byte as the high half of a word.
#[inline]
fn sum(bytes: &[u8], start: u32) -> u32 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |byte| u32::from(*byte) << 8);
    words.fold(start + last, |sum, word| sum + u32::from(u16::from_be_bytes([word[0], word[1]])))
}

#[inline]
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    u16::try_from(twice).expect("two folds leave 16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifies(bytes: &[u8], start: u32) -> bool {
        fold(sum(bytes, start)) == 0xffff
    }

    #[test]
    fn checksums_verify_for_even_and_odd_payloads() {
        let (src, dst) = ("10.1.0.2:4001".parse().unwrap(), "10.1.0.1:11211".parse().unwrap());
        let template = Template::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], src, dst);
        for payload_bytes in [0, 1, 8, 33, 500] {
            let mut frame = [0xa5; 1000];
            let end = template.complete(&mut frame, payload_bytes);
            assert_eq!(end, HEADER_BYTES + payload_bytes);
            assert!(verifies(&frame[14..34], 0));
            let udp_bytes = u32::try_from(8 + payload_bytes).unwrap();
            let pseudo = sum(&frame[26..34], 17 + udp_bytes);
            assert!(verifies(&frame[34..end], pseudo));
            assert_eq!(udp_payload(&frame[..end]), Some((11211, &frame[HEADER_BYTES..end])));
        }
        assert_eq!(udp_payload(&[0; 60]), None);
    }

    #[test]
    fn sums_are_those_of_rfc_1071() {
        assert_eq!((sum(&[1, 2, 3], 4), sum(&[1, 2, 3, 5], 0)), (0x0102 + 0x0300 + 4, 0x0102 + 0x0305));
        assert_eq!([5, 0x1234_0001, 0x1_ffff].map(fold), [5, 0x1235, 1]);
    }

    #[test]
    fn the_header_says_how_long_the_packet_is() {
        let (src, dst) = ("10.1.0.2:4001".parse().unwrap(), "10.1.0.1:11211".parse().unwrap());
        let mut frame = [0; 100];
        let end = Template::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], src, dst).complete(&mut frame, 5);
        assert_eq!((&frame[16..18], &frame[38..40]), (&[0, 33][..], &[0, 13][..]));
        // Each by itself makes another frame of it.
        for (at, byte) in [(12, 0x86), (13, 6), (14, 0x46), (23, 6)] {
            let mut other = frame;
            other[at] = byte;
            assert_eq!(udp_payload(&other[..end]), None, "{at}");
        }
        assert_eq!(udp_payload(&frame[..HEADER_BYTES - 1]), None);
    }
}
