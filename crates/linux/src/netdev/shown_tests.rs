use super::*;
use crate::netdev::wire::{push, push_uint};

fn bytes(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    attributes.iter().for_each(|(kind, value)| push(&mut bytes, *kind, value));
    bytes
}

#[test]
fn a_queue_has_what_the_kernel_tells_of_it() {
    let one = 1_u32.to_ne_bytes();
    let base: [(u16, &[u8]); 3] = [(1, &[4, 0, 0, 0]), (3, &one), (2, &[9, 0, 0, 0])];
    let info = QueueInfo { id: 4, ifindex: 9, kind: QueueKind::Tx, napi_id: None };
    let plain = KernelQueue { info, dmabuf: None, io_uring: None, xsk: false, lease: None };
    assert_eq!(queue(&bytes(&base)), Some(plain));

    let mut lease = bytes(&[(1, &[2, 0, 0, 0]), (3, &(-1_i32).to_ne_bytes())]);
    push(&mut lease, 2 | 0x8000, &bytes(&[(1, &[7, 0, 0, 0]), (3, &[0; 4])]));
    let memory = bytes(&[(1, &(1_u64 << 33).to_ne_bytes())]);
    let rest: [(u16, &[u8]); 6] =
        [(4, &one), (5, &one), (6 | 0x8000, &memory), (7 | 0x8000, &[]), (8 | 0x8000, &lease), (77, &[1])];
    let full = queue(&bytes(&[&base[..], &rest].concat())).expect("a queue");
    assert_eq!((full.info.napi_id, full.dmabuf, full.xsk), (Some(1), Some(1), true));
    assert_eq!(full.io_uring, Some(IoUring { rx_buf_len: Some(1 << 33) }));
    let leased = Lease { ifindex: Some(2), queue: Some((7, QueueKind::Rx)), netns_id: Some(-1) };
    assert_eq!(full.lease, Some(leased));

    assert_eq!(queue(&bytes(&base[..2])), None, "no device");
    assert_eq!(queue(&bytes(&[base[0], (3, &[2, 0, 0, 0]), base[2]])), None, "a type that is not known");
}

#[test]
fn a_device_and_its_counters_are_read_in_both_lengths() {
    let mut some = bytes(&[(1, &[3, 0, 0, 0]), (3, &0x7f_u64.to_ne_bytes()), (4, &[5, 0, 0, 0])]);
    push_uint(&mut some, 6, 3);
    let info = device(&some).expect("a device");
    assert_eq!((info.ifindex, info.xdp_features, info.xdp_zc_max_segs), (3, Some(0x7f), Some(5)));
    assert_eq!((info.xdp_rx_metadata_features, info.xsk_features), (None, Some(3)));
    assert_eq!((device(&[]), device(&bytes(&[(1, &[3])]))), (None, None));

    let mut some = bytes(&[(1, &[3, 0, 0, 0]), (2, &[0; 4]), (3, &[2, 0, 0, 0])]);
    push_uint(&mut some, 8, 5);
    push_uint(&mut some, 34, 5_000_000_000);
    push_uint(&mut some, 35, 1);
    let stats = qstats(&some).expect("counters");
    assert_eq!((stats.ifindex, stats.queue), (3, Some((QueueKind::Rx, 2))));
    assert!(stats.counted().eq([("rx-packets", 5), ("tx-wake", 5_000_000_000)]), "35 is not known yet");
    push(&mut some, 9, &[1, 2]);
    assert_eq!(qstats(&some), None);
}
