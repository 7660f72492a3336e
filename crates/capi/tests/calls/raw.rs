//! Raw ports: frames in place, tokens, threads.

use std::ffi::c_void;

use napier::*;

use super::c::*;

fn open(rig: &Rig) -> [i32; 2] {
    rig.devices.map(|device| fine(napier_raw_open(device, 0)))
}

/// Waits for `count` frames.
fn take(port: i32, count: usize) -> Vec<NapierFrame> {
    let mut all = Vec::new();
    while all.len() < count {
        assert_eq!(fine(napier_raw_wait(port, 10_000)), 1, "stalled with {} of {count}", all.len());
        let mut burst = [NO_FRAME; 32];
        let wanted = burst.len().min(count - all.len());
        let got = fine(rx(port, &mut burst[..wanted])) as usize;
        all.extend_from_slice(&burst[..got]);
    }
    all
}

#[test]
fn frames_go_there_and_back_in_place() {
    let rig = rig();
    let [here, there] = open(&rig);
    let mut bytes = [[1; 60], [2; 60], [3; 60]];
    let own = bytes.each_mut().map(|bytes| own_frame(bytes));
    assert_eq!(fine(tx(here, &own)), 3);
    let mut held = take(there, 3);
    assert_eq!(held.iter().map(|frame| bytes_of(frame)[0]).collect::<Vec<_>>(), [1, 2, 3]);
    // Changed in place, and one is shortened.
    for frame in &held {
        // SAFETY: the frame is held, and not empty.
        unsafe { frame.data.cast::<u8>().write(9) };
    }
    held[1].len = 40;
    assert_eq!(fine(tx(there, &held)), 3);
    refused(tx(there, &held), libc::EINVAL);
    refused(free(there, &held), libc::EINVAL);
    let back = take(here, 3);
    assert_eq!(back.iter().map(|frame| frame.len).collect::<Vec<_>>(), [60, 40, 60]);
    assert!(back.iter().all(|frame| bytes_of(frame)[0] == 9));
    assert_eq!(fine(free(here, &back)), 3);
    for port in [here, there] {
        fine(napier_close(port));
        refused(rx(port, &mut [NO_FRAME]), libc::EBADF);
    }
}

#[test]
fn frames_that_cannot_be_are_refused() {
    let rig = rig();
    let [here, there] = open(&rig);
    refused(napier_raw_open(rig.devices[0], 0), libc::EBUSY);
    refused(napier_raw_open(rig.devices[0], 5), libc::EINVAL);
    let mut bytes = [0; 60];
    let own = own_frame(&mut bytes);
    assert_eq!(fine(tx(here, &[own])), 1);
    let held = take(there, 1)[0];
    assert_eq!(fine(tx(there, &[])), 0);
    // A frame of another port, which holds one too.
    assert_eq!(fine(tx(there, &[own])), 1);
    let others = take(here, 1);
    refused(tx(here, &[held]), libc::EINVAL);
    refused(free(here, &[held]), libc::EINVAL);
    assert_eq!(fine(free(here, &others)), 1);
    for wrong in [
        NapierFrame { len: 61, ..held },
        NapierFrame { len: 0, ..held },
        NapierFrame { token: held.token + 1, ..held },
        NapierFrame { token: held.token ^ (1 << 32), ..held },
        NapierFrame { token: u64::MAX, ..held },
        NapierFrame { len: 0, ..own },
        NapierFrame { len: 65_536, ..own },
        NapierFrame { data: std::ptr::null_mut(), ..own },
    ] {
        refused(tx(there, &[wrong]), libc::EINVAL);
    }
    // What stands before the wrong one goes.
    assert_eq!(fine(free(there, &[held, held])), 1);
    fine(napier_close(here));
    fine(napier_close(there));
}

#[test]
fn a_program_holds_so_many_and_no_more() {
    let rig = rig();
    let [here, there] = open(&rig);
    let mut bytes = [0; 60];
    let own = own_frame(&mut bytes);
    assert_eq!(fine(tx(here, &[own])), 1);
    let mut held = take(there, 1);
    // Until so many are held, or the device has no frame left for more.
    for _ in 0..3 * NAPIER_FRAMES_HELD_MAX {
        tx(here, &[own]);
        let mut one = [NO_FRAME];
        match rx(there, &mut one) {
            -1 => {
                assert_eq!((errno(), held.len()), (libc::ENOBUFS, NAPIER_FRAMES_HELD_MAX as usize));
                break;
            }
            0 => std::thread::yield_now(),
            _ => held.push(one[0]),
        }
    }
    assert_eq!(fine(free(there, &held)) as usize, held.len());
    fine(tx(here, &[own]));
    assert_eq!(fine(free(there, &take(there, 1))), 1);
    // With frames that are held still.
    fine(tx(here, &[own]));
    take(there, 1);
    fine(napier_close(there));
    fine(napier_close(here));
}

unsafe extern "C" fn number(context: *mut c_void, frame: *mut c_void, room: usize) -> usize {
    let next = context.cast::<u8>();
    // SAFETY: the context is a byte of the test.
    let now = unsafe { next.read() };
    // SAFETY: the same.
    unsafe { next.write(now + 1) };
    // SAFETY: there is room for so many.
    unsafe { frame.cast::<u8>().write_bytes(now, room) };
    if now == 5 { 0 } else { room }
}

#[test]
fn frames_are_built_where_they_are_sent_from() {
    let rig = rig();
    let [here, there] = open(&rig);
    let mut next = 0_u8;
    let context = (&raw mut next).cast::<c_void>();
    // SAFETY: the function writes as much as it is told, and has its context.
    let built = unsafe { napier_tx_build(here, 100, 64, Some(number), context) };
    assert_eq!(fine(built), 5);
    let got = take(there, 5);
    assert_eq!(got.iter().map(|frame| bytes_of(frame)[63]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for (len, build, error) in
        [(0, Some(number as _), libc::EMSGSIZE), (65_536, Some(number as _), libc::EMSGSIZE), (64, None, libc::EFAULT)]
    {
        // SAFETY: it is refused.
        refused(unsafe { napier_tx_build(here, 1, len, build, context) }, error);
    }
    fine(napier_close(here));
    fine(napier_close(there));
}

#[test]
fn a_port_is_for_one_thread_at_a_time() {
    let rig = rig();
    let [here, there] = open(&rig);
    let mut bytes = [0; 60];
    let own = own_frame(&mut bytes);
    let waits = std::thread::spawn(move || napier_raw_wait(there, 10_000));
    napier_testkit::eventually("the other thread is in its call", || {
        rx(there, &mut []) == -1 && errno() == libc::EBUSY
    });
    fine(tx(here, &[own]));
    assert_eq!(waits.join().expect("no panic"), 1);
    assert_eq!(fine(rx(there, &mut [NO_FRAME])), 1);
    fine(napier_close(here));
    fine(napier_close(there));
}

#[test]
fn a_wait_ends_with_the_engine() {
    let rig = rig();
    let port = fine(napier_raw_open(rig.devices[0], 0));
    assert_eq!(fine(napier_raw_wait(port, 0)), 0);
    let waits = std::thread::spawn(move || (napier_raw_wait(port, -1), errno()));
    std::thread::sleep(std::time::Duration::from_millis(20));
    fine(napier_engine_stop(rig.engine));
    assert_eq!(waits.join().expect("no panic"), (-1, libc::ESHUTDOWN));
    refused(napier_raw_wait(port, 0), libc::ESHUTDOWN);
    fine(napier_close(port));
}
