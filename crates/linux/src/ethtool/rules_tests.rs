//! Against the bytes that `ethtool` 6.1 hands to the kernel (x86-64, recorded by a library before its `ioctl`).

use super::*;

/// `ethtool -N lo flow-type tcp4 dst-port 11211 action 4 loc 63`.
const TCP4: &str = "3200000000000000050000000000000001000000000000000000000000002bcb00000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000ffff00000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000000000000004000000000000003f00000000000000000000006b000000";
/// `ethtool -N lo flow-type udp6 dst-port 11211 action 4 loc 63`.
const UDP6: &str = "320000000000000005000000000000000600000000000000000000000000000000000000000000000000000000000000\
    0000000000002bcb00000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000ffff00000000000000000000000000000000\
    00000000000000000000000000000000000000000000000004000000000000003f00000000000000000000006b000000";

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hex"))
        .collect()
}

/// What a driver reads of a request: the specification, without what `ethtool` leaves of its own stack.
fn specification(request: &[u8]) -> (u32, &[u8]) {
    (number(request, 0), &request[KIND..rxnfc::BYTES - 8])
}

#[cfg(target_endian = "little")]
#[test]
fn requests_are_those_of_ethtool() {
    for (text, flow) in [(TCP4, FlowType::Tcp4), (UDP6, FlowType::Udp6)] {
        let theirs = bytes(text);
        assert_eq!(theirs.len(), rxnfc::BYTES);
        let ours = request(flow, 11211, 4, 63);
        assert_eq!(specification(&ours), specification(&theirs), "{flow}");
        assert_eq!(parse(&theirs, flow, 11211), Some(FlowTo::Queue(4)));
        assert_eq!(parse(&theirs, flow, 11212), None);
    }
    assert_eq!(parse(&bytes(TCP4), FlowType::Udp4, 11211), None);
}

#[test]
fn a_rule_about_fewer_packets_is_another_one() {
    let plain = request(FlowType::Tcp4, 80, 1, 0);
    let with = |at: usize, value: u8| {
        let mut other = plain.clone();
        other[at] = value;
        parse(&other, FlowType::Tcp4, 80)
    };
    // From one address only; in one VLAN only.
    assert_eq!((with(MASK, 0xff), with(MASK + MASK_BYTES - 10, 0xff)), (None, None));
    // What does not count is not looked at.
    assert_eq!(with(MATCH, 10), Some(FlowTo::Queue(1)));
    // To a virtual function, to nowhere, to a context.
    assert_eq!(with(QUEUE + 4, 1), Some(FlowTo::Other));
    let mut context = plain.clone();
    put(&mut context, KIND, 0x2000_0001);
    assert_eq!(parse(&context, FlowType::Tcp4, 80), Some(FlowTo::Other));
    assert_eq!(parse(&[], FlowType::Tcp4, 80), None);
}

#[test]
fn a_free_place_is_taken_from_the_end() {
    assert_eq!(free_place(&[], 64), Some(63));
    assert_eq!(free_place(&[63, 62, 3], 64), Some(61));
    assert_eq!(free_place(&[0, 1], 2), None);
    assert_eq!(free_place(&[7], 1 << 31 | 64), Some(u32::MAX));
}
