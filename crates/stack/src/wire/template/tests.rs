use super::*;
use crate::testing::{OUR_MAC, PEER_MAC, at, udp_frame};
use crate::wire::addr::Addr;

fn build(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let ends = [src, dst].map(|text| End::from_socket_addr(&at(text)));
    let template = Template::new(OUR_MAC, PEER_MAC, (ends[0], ends[1]), Marks::default());
    let mut frame = vec![0x5a; 1600];
    frame[template.len()..template.len() + payload.len()].copy_from_slice(payload);
    let len = template.finish(&mut frame, payload.len());
    frame.truncate(len);
    frame
}

#[test]
fn frames_are_those_of_smoltcp() {
    for (src, dst) in [("10.0.0.1:7", "10.0.0.2:4000"), ("[fd00::1]:7", "[fd00::2]:65535")] {
        for len in [0, 1, 7, 8, 100, 1452] {
            let payload: Vec<u8> = (0..len).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
            let mut want = udp_frame(at(src), at(dst), OUR_MAC, PEER_MAC, &payload);
            let got = build(src, dst, &payload);
            if src.starts_with('1') {
                // smoltcp sets DF as well, so only an identification could differ; both send 0.
                assert_eq!(want[18..20], [0, 0]);
            }
            want.truncate(got.len());
            assert_eq!(got, want, "{src} {len}");
        }
    }
}

#[test]
fn a_sum_of_zero_is_sent_as_all_ones() {
    // Find a two-byte payload whose checksum would be 0, then look at what is sent.
    let seen =
        (0..=u16::MAX).filter(|word| build("10.0.0.1:7", "10.0.0.2:9", &word.to_be_bytes())[40..42] == [0xff, 0xff]);
    assert_eq!(seen.count(), 1);
    let none = (0..=u16::MAX).filter(|word| build("10.0.0.1:7", "10.0.0.2:9", &word.to_be_bytes())[40..42] == [0, 0]);
    assert_eq!(none.count(), 0);
}

#[test]
#[should_panic(expected = "one family")]
fn families_do_not_mix() {
    let v4 = End { addr: Addr::test("10.0.0.1"), port: 1 };
    let v6 = End { addr: Addr::test("fd00::1"), port: 1 };
    let _ = Template::new(OUR_MAC, PEER_MAC, (v4, v6), Marks::default());
}
