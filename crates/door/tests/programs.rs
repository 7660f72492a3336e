//! Programs that were not changed on an engine of this process, over AF_XDP on a pair of veth interfaces with the kernel's stack at the other end.

mod fast;
mod killed;
mod near;
mod peer;
mod rights;
mod stalled;
mod stand;
mod wildcard;

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::Command;
use std::time::Duration;

use napier_linux::process::HeldSends;
use napier_runtime::control::mode::Mode;
use napier_testkit::eventually;
use peer::echoes;
use stand::{Stand, Started};

#[test]
fn a_server_echoes_and_ends_halves_over_many_connections() {
    let test = "a_server_echoes_and_ends_halves_over_many_connections";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, _said) = stand.server(&["serve", "7001"]);
    echoes(stand.connect(7001).expect("connected"), 3_000_000);
    for _ in 0..20 {
        echoes(stand.connect(7001).expect("connected"), 1000);
    }
    let at_once: Vec<_> = (0..20).map(|_| stand.connect(7001).expect("connected")).collect();
    at_once.into_iter().for_each(|stream| echoes(stream, 50_000));
    eventually("only the listener is left", || stand.sockets().len() == 1);
    assert_eq!(stand.sockets()[0].state, "listening");
}

#[test]
fn a_program_that_is_killed_leaves_no_connection_and_no_port() {
    let test = "a_program_that_is_killed_leaves_no_connection_and_no_port";
    let Some(stand) = Stand::new(test, None) else { return };
    for round in 0..20 {
        let (server, _said) = stand.server(&["serve", "7004"]);
        let mut streams: Vec<_> = (0..5).map(|_| stand.connect(7004).expect("connected")).collect();
        for stream in &mut streams {
            stream.write_all(&vec![1; 1 << (round % 10 + 4)]).expect("sent");
        }
        drop(server);
        stand.nothing_is_left(streams, 7004);
    }
}

#[test]
fn edge_triggered_epoll_and_addresses_are_as_with_the_kernel() {
    let test = "edge_triggered_epoll_and_addresses_are_as_with_the_kernel";
    let Some(stand) = Stand::new(test, Some(Mode::parse("suspend20").expect("a mode"))) else { return };
    let (_server, _said) = stand.server(&["serve_by_epoll", "7002"]);
    let mut streams: Vec<_> = (0..30).map(|_| stand.connect(7002).expect("connected")).collect();
    for _ in 0..10 {
        for stream in &mut streams {
            stream.write_all(b"question").expect("sent");
        }
        for stream in &mut streams {
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("answered");
            assert_eq!(&answer, b"question");
        }
    }
}

#[test]
fn a_level_triggered_listener_is_ready_as_long_as_connections_wait() {
    let test = "a_level_triggered_listener_is_ready_as_long_as_connections_wait";
    let Some(stand) = Stand::new(test, None) else { return };
    let (server, _said) = stand.server(&["serve_when_told", "7005"]);
    let streams: Vec<_> = (0..400).map(|_| stand.connect(7005).expect("connected")).collect();
    eventually("all wait at the listener", || stand.sockets()[0].waiting == 400);
    let told = Command::new("kill").args(["-USR1", &server.0.to_string()]).status().expect("it runs");
    assert!(told.success());
    for mut stream in streams {
        stream.read_exact(&mut [0]).expect("it was accepted");
    }
}

#[test]
fn times_to_wait_go_along_with_a_socket() {
    let test = "times_to_wait_go_along_with_a_socket";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, mut said) = stand.program(&["serve_with_timeouts", "7006"]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready True True\n");
    let mut answer = String::new();
    stand.connect(7006).expect("connected").read_to_string(&mut answer).expect("answered");
    assert_eq!(answer, "True");
}

#[test]
fn a_listener_whose_other_end_no_process_has_is_let_go() {
    let test = "a_listener_whose_other_end_no_process_has_is_let_go";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_ended, mut said) = stand.program(&["leaves_itself", "7007"]);
    let mut all = String::new();
    said.read_to_string(&mut all).expect("it speaks");
    assert_eq!(all, "ready\n");
    eventually("nothing is left", || stand.sockets().is_empty());
    let (_server, _said) = stand.server(&["serve", "7007"]);
}

#[test]
fn children_accept_from_a_listener_that_they_inherit() {
    let test = "children_accept_from_a_listener_that_they_inherit";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_server, _said) = stand.server(&["serve_by_children", "7003"]);
    for _ in 0..20 {
        let mut pid = String::new();
        stand.connect(7003).expect("connected").read_to_string(&mut pid).expect("answered");
        assert!(pid.trim().parse::<u32>().is_ok(), "{pid:?}");
    }
}

#[test]
fn a_client_connects_waits_and_is_refused_as_with_the_kernel() {
    let test = "a_client_connects_waits_and_is_refused_as_with_the_kernel";
    let Some(stand) = Stand::new(test, None) else { return };
    let (listener, port) = peer::listen(&stand.pair);
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("all");
        stream.write_all(&got).expect("sent");
        drop(stream);
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut four = [0; 4];
        stream.read_exact(&mut four).expect("sent");
        stream.write_all(&four).expect("sent");
        drop(stream);
        // Closed with bytes unread: the kernel resets it.
        let (stream, _) = listener.accept().expect("a connection");
        stream.peek(&mut four).expect("sent");
    });
    let asked = stand.ended(&["ask", &port]);
    assert_eq!(asked, format!("('10.79.0.2', {port}) 10.79.0.9\ngot 300000\n"));
    let later = stand.ended(&["ask_later", &port]);
    let expected = "connect EINPROGRESS True\nevents True error 0\nb'late'\nconnect EINPROGRESS True\nevents True error ECONNREFUSED\n";
    assert_eq!(later, expected);
    assert_eq!(stand.ended(&["reset", &port]), "ECONNRESET\n");
    serving.join().expect("served");
    assert_eq!(stand.ended(&["refused"]), "ECONNREFUSED\nENOTCONN\n".repeat(2));
    assert_eq!(stand.ended(&["refused_later"]), "EINPROGRESS ECONNREFUSED ECONNABORTED\n");
    assert_eq!(stand.ended(&["interrupted"]), "writable False\n");
}

#[test]
fn errors_and_options_have_the_kernels_numbers() {
    let test = "errors_and_options_have_the_kernels_numbers";
    let Some(stand) = Stand::new(test, None) else { return };
    let said = stand.ended(&["errors"]);
    let expected = "accept EINVAL\nbind ok\nagain EINVAL\ntaken EADDRINUSE\nfree ok\nlisten ok\nconnect EISCONN\npeer ENOTCONN\nnone EAGAIN\n\
                    nodelay ok\nulp ENOENT\nfastopen EOPNOTSUPP\nlinger ok\n1 1\nTrue ('10.79.0.9', 7070)\nfamily ";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn an_address_on_a_connection_is_ignored_if_such_calls_are_held() {
    let test = "an_address_on_a_connection_is_ignored_if_such_calls_are_held";
    let Some(stand) = Stand::new(test, None) else { return };
    let (listener, port) = peer::listen(&stand.pair);
    let serving = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            // There is no room for a while.
            std::thread::sleep(Duration::from_millis(100));
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("all");
            stream.write_all(&got).expect("sent");
        }
    });
    let said = |sends| stand.ended_with(sends, &["sends_with_address", &port]);
    // By the fast door the library ignores the address of a connection in any case.
    let without = if fast::is_asked_for() { "EISCONN\nok\nTrue 4\n" } else { "EISCONN\nEISCONN\n" };
    assert_eq!(said(HeldSends::None), without);
    assert_eq!(said(HeldSends::Addressed), "EPIPE\nok\nTrue 4\n");
    serving.join().expect("served");
}

#[test]
fn accept_and_connect_wait_no_longer_than_the_program_says() {
    let test = "accept_and_connect_wait_no_longer_than_the_program_says";
    let Some(stand) = Stand::new(test, None) else { return };
    assert_eq!(stand.ended(&["waits_so_long"]), "EAGAIN\nEAGAIN\nEINPROGRESS\nwritable False\n");
}

#[test]
fn a_call_that_waits_beyond_the_limit_is_refused_and_counted() {
    let test = "a_call_that_waits_beyond_the_limit_is_refused_and_counted";
    let Some(stand) = Stand::new(test, None) else { return };
    let (_program, mut said) = stand.program(&["waits_too_often", "7010"]);
    let mut line = String::new();
    said.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ENOBUFS\n");
    let counts = stand.shown().counts;
    let over: Vec<_> = counts.over.iter().collect();
    assert_eq!(over, [("calls that wait (256, or 16 of one socket)", 1)]);
    // The others have their place: a connection reaches one of them.
    let _stream = stand.connect(7010).expect("connected");
    eventually("it is accepted", || stand.shown().counts.accepted == 1);
}

#[test]
fn a_port_is_shared_only_if_all_programs_are_of_one_user() {
    let test = "a_port_is_shared_only_if_all_programs_are_of_one_user";
    for (for_all_users, said) in [(false, "ok\n"), (true, "ENOPROTOOPT\n")] {
        let Some(stand) = Stand::of(test, None, for_all_users) else { return };
        assert_eq!(stand.ended(&["shares_port"]), said);
    }
}

#[test]
fn whatever_a_program_calls_nothing_of_it_is_left_and_others_are_served() {
    let test = "whatever_a_program_calls_nothing_of_it_is_left_and_others_are_served";
    let Some(stand) = Stand::new(test, None) else { return };
    for seed in ["1", "2", "3"] {
        assert_eq!(stand.ended(&["anything", seed]), "done True\n", "seed {seed}");
    }
    // And one that ends in the middle, for it would go on for long.
    let (program, _said) = stand.program(&["anything", "4", "1000000"]);
    eventually("it makes sockets", || !stand.sockets().is_empty());
    drop(program);
    eventually("nothing is left", || stand.sockets().is_empty());
    let (_server, _said) = stand.server(&["serve", "7001"]);
    echoes(stand.connect(7001).expect("connected"), 100_000);
}

#[test]
fn a_program_goes_on_with_the_kernel_when_the_door_closes_in_a_process_that_lives_on() {
    let test = "a_program_goes_on_with_the_kernel_when_the_door_closes_in_a_process_that_lives_on";
    let Some(stand) = Stand::with_loopback(test) else { return };
    let (_listener, port) = peer::listen(&stand.pair);
    let (_program, mut said) = stand.server(&["goes_on", &port]);
    let Stand { door, device: _device, pair: _pair } = stand;
    drop(door);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("it speaks");
    assert_eq!(rest, "ended True accept True\nb'here' True True\n");
}

#[test]
fn loopback_stays_the_kernels() {
    let Some(stand) = Stand::with_loopback("loopback_stays_the_kernels") else { return };
    assert_eq!(stand.ended(&["loopback"]), "b'here' True True\n");
    let watched = "True True 0\nTrue b'here'\n[]\n".repeat(2);
    assert_eq!(stand.ended(&["watches_first"]), watched);
}
