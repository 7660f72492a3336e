use crate::wire::checksum::Sum;
use smoltcp::wire::{IpProtocol, Ipv4Address, Ipv6Address};

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut x = seed | 1;
    (0..len)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x.to_be_bytes()[0]
        })
        .collect()
}

#[test]
fn agrees_with_a_plain_sum_at_every_length() {
    for len in 0..300 {
        for seed in [0, 7, 99] {
            let data = pattern(len, seed);
            let mut plain = 0u32;
            for pair in data.chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            }
            while plain > 0xffff {
                plain = (plain & 0xffff) + (plain >> 16);
            }
            let want = !u16::try_from(plain).unwrap();
            assert_eq!(u16::from_be_bytes(Sum::ZERO.bytes(&data).field()), want, "length {len}");
        }
    }
}

#[test]
fn all_ones_neither_overflow_nor_lose_carries() {
    let data = vec![0xff; 65_536];
    assert_eq!(Sum::ZERO.bytes(&data).fold(), 0xffff);
    assert_eq!(Sum(u64::MAX >> 1).fold(), Sum::ZERO.bytes(&(u64::MAX >> 1).to_ne_bytes()).fold());
}

#[test]
fn udp_agrees_with_smoltcp() {
    use smoltcp::wire::{IpAddress, UdpPacket};
    let ends = [
        (IpAddress::Ipv4(Ipv4Address::new(10, 1, 2, 3)), IpAddress::Ipv4(Ipv4Address::new(10, 1, 2, 4))),
        (
            IpAddress::Ipv6(Ipv6Address::new(0xfd00, 0, 0, 1, 2, 3, 4, 5)),
            IpAddress::Ipv6(Ipv6Address::new(0xfd00, 0, 0, 1, 9, 8, 7, 6)),
        ),
    ];
    for (src, dst) in ends {
        for len in [0, 1, 2, 17, 64, 1472] {
            let mut udp = vec![0u8; 8];
            udp.extend(pattern(len, 5));
            let mut packet = UdpPacket::new_unchecked(&mut udp);
            packet.set_src_port(4000);
            packet.set_dst_port(5000);
            packet.set_len(u16::try_from(8 + len).unwrap());
            packet.fill_checksum(&src, &dst);
            let octets = |a: IpAddress| match a {
                IpAddress::Ipv4(a) => a.octets().to_vec(),
                IpAddress::Ipv6(a) => a.octets().to_vec(),
            };
            let pseudo = Sum::ZERO.bytes(&octets(src)).bytes(&octets(dst));
            let pseudo = pseudo.number(u16::from(u8::from(IpProtocol::Udp))).number(u16::try_from(8 + len).unwrap());
            assert!(pseudo.bytes(&udp).is_valid());
            let filled: [u8; 2] = udp[6..8].try_into().unwrap();
            udp[6..8].fill(0);
            assert_eq!(pseudo.bytes(&udp).udp_field(), filled);
        }
    }
}
