use super::*;

#[test]
fn one_ring_each_way_of_1024_with_2048_byte_buffers_is_the_usual_region() {
    let layout = RegionLayout::new(1, 1, 10, 2048).expect("layout");
    assert_eq!((layout.ring(true, 0), layout.ring(false, 0)), (0, 16512));
    assert_eq!(layout.len(), 4_227_328);
}

#[test]
fn rings_and_buffers_follow_each_other_without_overlap() {
    for (c2s, s2c, log2) in [(1, 1, 1), (3, 2, 1), (2, 5, 4), (4, 1, 6)] {
        let layout = RegionLayout::new(c2s, s2c, log2, 64).expect("layout");
        let rings = (0..c2s).map(|ring| (true, ring)).chain((0..s2c).map(|ring| (false, ring)));
        let ring_ranges = rings.clone().map(|(c2s, ring)| (layout.ring(c2s, ring), ring_bytes(log2)));
        let buffer_ranges = rings.map(|(c2s, ring)| (layout.buffers(c2s, ring), 64 << log2));
        let mut end = 0;
        for (start, bytes) in ring_ranges.chain(buffer_ranges) {
            assert!(u64::from(start) >= end && start.is_multiple_of(64));
            end = u64::from(start) + bytes;
        }
        assert_eq!(end, layout.len());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    use RegionLayoutError as E;
    for (c2s, s2c, log2, buffer, error) in [
        (0, 1, 10, 2048, E::Rings),
        (1, 0, 10, 2048, E::Rings),
        (257, 1, 10, 2048, E::Rings),
        (1, 1, 0, 2048, E::RingSize),
        (1, 1, 15, 2048, E::RingSize),
        (1, 1, 10, 0, E::BufferBytes),
        (1, 1, 10, 100, E::BufferBytes),
        (1, 1, 10, 65600, E::BufferBytes),
        (256, 256, 14, 2048, E::TooLarge),
    ] {
        assert_eq!(RegionLayout::new(c2s, s2c, log2, buffer), Err(error));
    }
}

#[test]
fn a_layout_that_cannot_be_says_what_can() {
    let error = RegionLayout::new(1, 1, 10, 63).expect_err("it is no multiple of 64");
    assert_eq!(alloc::format!("{error}"), "a memif buffer has 64 to 65536 bytes, a multiple of 64");
}
