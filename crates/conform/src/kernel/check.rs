//! Steps that look at something a kernel shows: the recorded id of a socket, and whether an instance has a thread.

use std::fmt::Display;

use napier_scenario::Check;

use super::napi;
use super::rig::KernelRig;

/// `SO_INCOMING_NAPI_ID`.
const INCOMING_NAPI_ID: i32 = 56;

/// Looks; both sides as text if they differ. What cannot be looked at is not as expected.
pub(super) fn look(rig: &KernelRig<'_>, check: &Check) -> Option<(String, String)> {
    if let (Some(instance), Some(expected)) = (check.napi, check.thread) {
        let (device, _) = rig.scenario.machine.queue_of(instance);
        let id = rig.id(instance);
        let seen = match rig.end(device).netns().run(|| napi::thread_of(id)) {
            Ok(Ok(thread)) => thread.is_some().to_string(),
            Ok(Err(error)) => unseen(&error),
            Err(error) => unseen(&error),
        };
        if seen != expected.to_string() {
            return Some((format!("thread = {expected}"), format!("thread = {seen}")));
        }
    }
    let (socket, recorded) = (check.socket?, check.recorded?);
    let socket = rig.socket(socket.at());
    let name =
        |id: u32| if id == 0 { "none".to_owned() } else { rig.name_of_id(id.into()).unwrap_or_else(|| id.to_string()) };
    let seen = match socket.map(|socket| napier_linux::socket::get_number(&*socket, INCOMING_NAPI_ID)) {
        None => name(0), // closed, or not made yet
        Some(Ok(id)) => name(id.unsigned_abs()),
        Some(Err(error)) => unseen(&error),
    };
    let expected = recorded.map_or_else(|| "none".to_owned(), |napi| rig.scenario.machine.napi_name(napi));
    (seen != expected).then(|| (format!("recorded = {expected}"), format!("recorded = {seen}")))
}

fn unseen(error: &dyn Display) -> String {
    format!("unknown ({error})")
}
