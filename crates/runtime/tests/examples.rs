//! The examples run to their end; each checks what it has counted.

#[path = "../examples/echo_server.rs"]
mod echo_server;
#[path = "../examples/ping_pong.rs"]
mod ping_pong;
#[path = "../examples/raw_forwarder.rs"]
mod raw_forwarder;

#[test]
fn echo_server_runs() {
    echo_server::main().unwrap();
}

#[test]
fn ping_pong_runs() {
    ping_pong::main().unwrap();
}

#[test]
fn raw_forwarder_runs() {
    raw_forwarder::main().unwrap();
}
