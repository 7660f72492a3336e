use alloc::format;

use super::*;

struct V4(FlowV4, u32, u32);

const fn v4(src: [u8; 4], src_port: u16, dst: [u8; 4], dst_port: u16, addresses: u32, all: u32) -> V4 {
    V4(FlowV4 { src, dst, src_port, dst_port }, addresses, all)
}

/// The published verification suite: hash of the addresses, hash with ports.
const SUITE_V4: [V4; 5] = [
    v4([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766, 0x323e_8fc2, 0x51cc_c178),
    v4([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739, 0xd718_262a, 0xc626_b0ea),
    v4([24, 19, 198, 95], 12898, [12, 22, 207, 184], 38024, 0xd2d0_a5de, 0x5c2b_394a),
    v4([38, 27, 205, 30], 48228, [209, 142, 163, 6], 2217, 0x8298_9176, 0xafc7_327f),
    v4([153, 39, 163, 191], 44251, [202, 188, 127, 2], 1303, 0x5d18_09c5, 0x10e8_28a2),
];

fn v6(groups: [u16; 8]) -> [u8; 16] {
    core::array::from_fn(|i| groups[i / 2].to_be_bytes()[i % 2])
}

#[test]
fn published_v4_hashes() {
    let table = ToeplitzTable::default();
    for V4(flow, addresses, all) in &SUITE_V4 {
        let input = flow.input();
        assert_eq!(toeplitz(&DEFAULT_KEY, &input[..8]), *addresses);
        assert_eq!(toeplitz(&DEFAULT_KEY, &input), *all);
        assert_eq!(table.hash(&input[..8]), *addresses);
        assert_eq!(table.hash(&input), *all);
        assert_eq!(flow.reversed().reversed(), *flow);
        assert_ne!(table.hash(&flow.reversed().input()), *all);
    }
}

#[test]
fn published_v6_hashes() {
    let table = ToeplitzTable::new(&DEFAULT_KEY);
    let long = [0x3ffe, 0x1900, 0x4545, 3, 0x200, 0xf8ff, 0xfe21, 0x67cf];
    let suite = [
        (
            ([0x3ffe, 0x2501, 0x200, 0x1fff, 0, 0, 0, 7], 2794),
            ([0x3ffe, 0x2501, 0x200, 3, 0, 0, 0, 1], 1766),
            (0x2cc1_8cd5, 0x4020_7d3d),
        ),
        (
            ([0x3ffe, 0x501, 8, 0, 0x260, 0x97ff, 0xfe40, 0xefab], 14230),
            ([0xff02, 0, 0, 0, 0, 0, 0, 1], 4739),
            (0x0f0c_461c, 0xdde5_1bbf),
        ),
        ((long, 44251), ([0xfe80, 0, 0, 0, 0x200, 0xf8ff, 0xfe21, 0x67cf], 38024), (0x4b61_e985, 0x02d1_feef)),
    ];
    for ((src, src_port), (dst, dst_port), (addresses, all)) in suite {
        let flow = FlowV6 { src: v6(src), dst: v6(dst), src_port, dst_port };
        let input = flow.input();
        assert_eq!(toeplitz(&DEFAULT_KEY, &input[..32]), addresses);
        assert_eq!(toeplitz(&DEFAULT_KEY, &input), all);
        assert_eq!(table.hash(&input[..32]), addresses);
        assert_eq!(table.hash(&input), all);
        assert_eq!(flow.reversed().reversed(), flow);
        assert_eq!(flow.reversed().src, flow.dst);
    }
}

/// Every single bit of the longest input, by definition and by table, with a key of no symmetry.
#[test]
fn table_and_definition_agree_on_every_bit() {
    let key: [u8; KEY_BYTES] = core::array::from_fn(|i| (i as u8).wrapping_mul(151).wrapping_add(7));
    let table = ToeplitzTable::new(&key);
    for bit in 0..INPUT_BYTES_MAX * 8 {
        let mut input = [0u8; INPUT_BYTES_MAX];
        input[bit / 8] = 0x80 >> (bit % 8);
        assert_eq!(table.hash(&input), toeplitz(&key, &input), "bit {bit}");
    }
    assert_eq!(table.hash(&[]), 0);
}

/// 9216 words are no help in a failed assertion.
#[test]
fn debug_prints_the_tables_name_only() {
    assert_eq!(format!("{:?}", ToeplitzTable::default()), "ToeplitzTable");
}

#[test]
fn the_table_spreads_and_checks_queues() {
    let table = IndirectionTable::equal(3);
    assert_eq!(table.queue(0), 0);
    assert_eq!(table.queue(127), 1);
    assert_eq!(table.queue(128 + 5), 2, "only the low seven bits count");
    let entries = core::array::from_fn(|i| (i / 64) as u16);
    assert_eq!(IndirectionTable::from_entries(entries, 1), None);
    let halves = IndirectionTable::from_entries(entries, 2).unwrap();
    assert_eq!((halves.queue(63), halves.queue(64)), (0, 1));
    assert_eq!(halves.entries(), &entries);
}

#[test]
#[should_panic(expected = "too short")]
fn no_longer_input() {
    let _ = toeplitz(&DEFAULT_KEY, &[0; INPUT_BYTES_MAX + 1]);
}
