//! Over memif: the program is one process, the test the other.

use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use napier::*;
use napier_testkit::PATIENCE;

use crate::c::*;
use crate::work::{Program, build, build_static};

/// Another socket for each test.
fn socket() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("@napier-capi-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An engine with one memif device, 10.0.0.2.
fn memif(socket: &str, role: u32) -> [c_int; 2] {
    let engine = engine();
    let (texts, socket) = (texts("m0", "10.0.0.2/24"), CString::new(socket).expect("a name"));
    let options = NapierMemifOptions {
        size: size_of::<NapierMemifOptions>(),
        socket: socket.as_ptr(),
        role,
        id: 0,
        secret: std::ptr::null(),
        access: 0,
        keep_connections: 0,
    };
    // SAFETY: the texts outlive the call.
    let device = fine(unsafe { napier_add_memif(engine, &options, &texts.options(0)) });
    [engine, device]
}

/// Whether a question is answered within the client's time. What is sent before the program's socket is there is refused.
fn is_answered(client: c_int, round: u32) -> bool {
    let is_lost = || assert!([libc::EAGAIN, libc::ECONNREFUSED].contains(&errno()), "{}", last_error());
    if send(client, &round.to_ne_bytes()) < 0 {
        is_lost();
        return false;
    }
    let mut answer = [0; 16];
    loop {
        if recv(client, &mut answer, 0) != 4 {
            is_lost();
            return false;
        }
        // One that is late is of a question before.
        if answer[..4] == round.to_ne_bytes() {
            return true;
        }
    }
}

/// Asks the program so many times and checks each answer; it ends by itself after some more. Its last answers go with its link.
fn ask(program: &Program, times: u32) {
    let socket = socket();
    let mut echo = program.start(&[&format!("memif:{socket}"), "10.0.0.1/24", &(times + 100).to_string()]);
    let [engine, device] = memif(&socket, NAPIER_MEMIF_CLIENT);
    assert_eq!(fine(napier_wait_link(device, 60_000)), 1, "no link");
    let client = fine(napier_socket(engine, libc::AF_INET, libc::SOCK_DGRAM, 0));
    fine(connect(client, &v4([10, 0, 0, 1], 7)));
    let second = libc::timeval { tv_sec: 1, tv_usec: 0 };
    let size = size_of::<libc::timeval>() as u32;
    // SAFETY: the value is as long as said.
    fine(unsafe { napier_setsockopt(client, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const second).cast(), size) });
    let (mut round, mut answered) = (0_u32, 0);
    napier_testkit::eventually("the program has bound its socket", || is_answered(client, u32::MAX));
    while answered < times {
        assert!(round < 60 + times, "{answered} of {round} were answered in time");
        answered += u32::from(is_answered(client, round));
        round += 1;
    }
    echo.until_it_ends(|| {
        send(client, b"more");
    });
    echo.end();
    fine(napier_close(client));
    fine(napier_engine_stop(engine));
    fine(napier_close(device));
}

#[test]
fn a_c_program_answers_over_memif() {
    if let Some(program) = build("a_c_program_answers_over_memif", "echo") {
        ask(&program, 1000);
    }
}

#[test]
fn the_static_library_does_as_well() {
    if let Some(program) = build_static("the_static_library_does_as_well", "echo") {
        ask(&program, 100);
    }
}

#[test]
fn valgrind_finds_nothing_in_a_server() {
    let test = "valgrind_finds_nothing_in_a_server";
    if let Some(program) = build(test, "echo").and_then(|program| program.under_valgrind(test)) {
        ask(&program, 20);
    }
}

/// Takes the frames that a program sends. Their numbers grow, and what is missing between two was counted: a device that is too slow for its
/// peer loses what it has no frames for.
fn sink(program: &Program, frames: u64) {
    let socket = socket();
    let [engine, device] = memif(&socket, NAPIER_MEMIF_SERVER);
    let port = fine(napier_raw_open(device, 0));
    let mut sender = program.start(&[&socket, &frames.to_string()]);
    let (mut next, mut received, mut lost) = (0_u64, 0_u64, 0_u64);
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < 3 * PATIENCE, "the sender does not end: {received} received");
        let ended = sender.has_ended();
        if fine(napier_raw_wait(port, 100)) == 0 {
            if ended {
                break;
            }
            continue;
        }
        let mut burst = [NO_FRAME; 64];
        let count = fine(rx(port, &mut burst)) as usize;
        for frame in &burst[..count] {
            let bytes = bytes_of(frame);
            assert_eq!((bytes.len(), &bytes[12..14]), (64, &[0x88, 0xb5][..]));
            let number = u64::from_ne_bytes(bytes[14..22].try_into().expect("eight bytes"));
            assert!(number >= next, "{number} after {next}");
            lost += number - next;
            received += 1;
            next = number + 1;
        }
        assert_eq!(fine(free(port, &burst[..count])) as usize, count);
    }
    assert_eq!(sender.end(), format!("{frames} frames\n"));
    let counted = stats(device).iter().find(|(name, _)| name == "rx_no_frame").map(|(_, value)| *value);
    assert!(
        received > 0 && counted.is_some_and(|counted| counted >= lost),
        "{received} received, {lost} lost, {counted:?}"
    );
    fine(napier_close(port));
    fine(napier_engine_stop(engine));
    fine(napier_close(device));
}

#[test]
fn a_c_program_sends_frames_over_memif() {
    if let Some(program) = build("a_c_program_sends_frames_over_memif", "memif_sender") {
        sink(&program, 100_000);
    }
}

#[test]
fn valgrind_finds_nothing_in_a_sender() {
    let test = "valgrind_finds_nothing_in_a_sender";
    if let Some(program) = build(test, "memif_sender").and_then(|program| program.under_valgrind(test)) {
        sink(&program, 2000);
    }
}

/// Over a link in the program itself.
#[test]
fn a_ring_of_io_uring_waits_for_a_context() {
    let test = "a_ring_of_io_uring_waits_for_a_context";
    let Some(program) = build(test, "ring") else { return };
    let (status, _, said) = program.start(&[]).ended();
    match status.code() {
        Some(0) => {}
        Some(77) => napier_testkit::skip!(test, "there is no io_uring here"),
        _ => panic!("{status}: {said}"),
    }
}
