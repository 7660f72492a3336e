//! Who may connect, and what both sides are told if somebody may not.

use std::os::unix::fs::PermissionsExt as _;

use napier_runtime::device::{MemifAccess, MemifConfig, MemifRole, MemifSecret};
use napier_runtime::engine::Engine;
use rustix::process::{Uid, geteuid};

use crate::common::eventually;
use crate::raw::{Raw, config, device, new_socket, serves_an_honest_client, socket};

const NOBODY: u32 = 65_534;

/// Does something as a user without rights, in a thread of its own; none if that is not allowed.
fn as_nobody<T: Send + 'static>(test: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if !geteuid().is_root() {
        napier_testkit::skip!(test, "only root can be another user");
        return None;
    }
    let thread = std::thread::spawn(move || {
        let nobody = Uid::from_raw(NOBODY);
        // Of this thread alone.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok()?;
        Some(work())
    });
    thread.join().unwrap()
}

#[test]
fn a_socket_file_has_the_mode_that_was_asked_for_and_keeps_others_out() {
    let folder = napier_testkit::Folder::new("access");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    for mode in [0o600, 0o660, 0o666] {
        let name = folder.file(&format!("{mode:o}"));
        let engine = Engine::builder().start().unwrap();
        // A group that the other user of the test is not in.
        let access = MemifAccess { mode, group: geteuid().is_root().then_some(NOBODY) };
        let _device = device(&engine, MemifConfig { access, ..config(MemifRole::Server, &name) });
        let has = std::fs::metadata(&name).unwrap().permissions().mode() & 0o777;
        assert_eq!(has, mode, "{has:o} of {name}");
        let connected = as_nobody("a_socket_file_has_the_mode_that_was_asked_for_and_keeps_others_out", move || {
            let (socket, _) = new_socket();
            rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&*name).unwrap()).is_ok()
        });
        assert!(connected.is_none_or(|connected| connected == (mode == 0o666)), "{mode:o}");
    }
}

#[test]
fn an_abstract_name_is_for_those_whom_the_mode_lets_in() {
    for mode in [0o600, 0o660, 0o666] {
        let name = socket(&format!("access-{mode:o}"));
        let engine = Engine::builder().start().unwrap();
        let access = MemifAccess { mode, group: Some(NOBODY) };
        let device = device(&engine, MemifConfig { access, ..config(MemifRole::Server, &name) });
        let asked = name.clone();
        // Its groups are the superuser's still.
        let said = as_nobody("an_abstract_name_is_for_those_whom_the_mode_lets_in", move || {
            let raw = Raw::connect(&asked);
            if mode == 0o666 { assert!(raw.receive().is_some()) } else { assert_eq!(raw.is_refused(), WHY) }
        });
        assert!(said.is_some() || !geteuid().is_root());
        serves_an_honest_client(&device, &name);
    }
}

const WHY: &str = "its user may not use this socket";

#[test]
fn a_wrong_secret_is_known_to_both_sides() {
    let name = socket("secret");
    let engine = Engine::builder().start().unwrap();
    let with = |role, secret: &[u8]| MemifConfig { secret: MemifSecret::new(secret), ..config(role, &name) };
    let server = device(&engine, with(MemifRole::Server, b"sesame"));
    for (secret, said) in [(&b"parsley"[..], "wrong secret"), (b"", "secret required")] {
        let other = Engine::builder().start().unwrap();
        let client = device(&other, with(MemifRole::Client, secret));
        eventually("the client knows", || client.link_state().reason.is_some_and(|reason| reason.ends_with(said)));
        eventually("the server knows", || server.link_state().reason.is_some_and(|reason| reason.ends_with(said)));
        assert!(!client.link_state().carrier && !server.link_state().carrier);
    }
    let other = Engine::builder().start().unwrap();
    let client = device(&other, with(MemifRole::Client, b"sesame"));
    eventually("the right one", || client.link_state().carrier && server.link_state().carrier);
}
