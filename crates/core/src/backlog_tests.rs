use super::*;

#[test]
fn the_limit_follows_the_buffers() {
    let table = [
        (0, 0, 65_536),
        (131_072, 87_380, 262_144 + 43_690 + 65_536),
        (4 << 20, 4 << 20, (8 << 20) + (2 << 20) + 65_536),
        (u64::MAX, 0, u64::from(u32::MAX)),
        (0, u64::MAX, u64::from(u32::MAX)),
    ];
    for (receive, send, limit) in table {
        assert_eq!(bytes_max(receive, send), limit, "{receive} {send}");
    }
}

/// Segments without data must not wait for nothing, or a peer could leave any number of them.
#[test]
fn an_empty_segment_weighs_something() {
    assert_eq!(weight_bytes(0), SEGMENT_OVERHEAD_BYTES);
    assert_eq!(weight_bytes(1500), 1628);
    let fit = bytes_max(131_072, 131_072) / weight_bytes(40);
    assert!(fit > 64 && fit < 10_000, "{fit} acknowledgements may wait");
}
