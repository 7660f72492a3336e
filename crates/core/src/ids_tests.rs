use super::*;

#[test]
fn ids_start_above_the_cpus_and_count_up() {
    let mut ids = IdAllocator::new(8192);
    assert_eq!(ids.first(), 8193);
    assert_eq!(ids.allocate(|_| false), 8193);
    assert_eq!(ids.allocate(|_| false), 8194);
    assert_eq!(ids.allocate(|id| id < 8200), 8200);
    assert_eq!(ids.allocate(|_| false), 8201, "a freed id is not given again at once");
    assert!(!napi_id_valid(8192, ids.first()) && napi_id_valid(8193, ids.first()) && !napi_id_valid(0, ids.first()));
}

#[test]
fn ids_wrap_to_the_first() {
    let mut ids = IdAllocator { first: 5, last: u32::MAX - 1 };
    assert_eq!(ids.allocate(|_| false), u32::MAX);
    assert_eq!(ids.allocate(|_| false), 5);
    let mut ids = IdAllocator { first: 5, last: u32::MAX };
    assert_eq!(ids.allocate(|id| id == 5), 6);
}

#[test]
#[should_panic(expected = "every NAPI id is in use")]
fn no_id_left() {
    let cpus = u32::MAX - 4;
    let _ = IdAllocator::new(cpus).allocate(|_| true);
}
