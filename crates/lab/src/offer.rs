//! What a load generator asks for, here and at an agent.

use crate::loads::Load;
use std::time::Duration;

use napier_kv::load::net::Proto;
use napier_kv::load::plan::Plan;
use napier_kv::profile::Profile;

/// A request of a closed loop that is without an answer for so long is given up, and the flow sends another.
const GIVE_UP: Duration = Duration::from_millis(50);

/// Requests of a flow that may be without an answer in an open loop. Over datagrams the oldest one is given up then.
const WINDOW: usize = 1024;

/// What the generator asks for: mutilate's profile; in a closed loop every flow has one request out at any time.
pub fn plan(profile: &Profile, proto: Proto, pace: Load) -> Plan {
    let (depth, overruns, give_up) = match pace {
        Load::Rps(_) => (WINDOW, proto == Proto::Udp, None),
        Load::Max => (1, false, Some(GIVE_UP)),
    };
    Plan { profile: profile.clone(), value_bytes: None, depth, overruns, give_up, burst: 16 }
}
