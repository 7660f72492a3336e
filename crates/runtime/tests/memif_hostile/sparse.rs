//! Regions without memory: whoever touches them first pays.

use napier_core::memif::{Message, Name};
use napier_runtime::device::MemifRole;
use napier_runtime::engine::Engine;

use crate::common::eventually;
use crate::raw::{Client, config, device, serves_an_honest_client, socket};

#[test]
fn a_region_of_holes_is_refused_and_one_of_memory_is_not() {
    let name = socket("sparse");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let connect = |client: &Client| client.raw.send(&Message::Connect(Name::new("hostile")), None);
    for more_bytes in [8 << 20, 1 << 30, (4 << 30) - (1 << 20)] {
        let client = Client::try_announced(&name, more_bytes, false).unwrap();
        connect(&client);
        let said = client.raw.is_refused();
        assert!(said.contains(" bytes without memory in its regions"), "{said}");
        eventually("the liar is gone", || !device.link_state().carrier);
    }
    for (more_bytes, filled) in [(1 << 20, false), (8 << 20, true)] {
        let client = Client::try_announced(&name, more_bytes, filled).unwrap();
        connect(&client);
        assert!(matches!(client.raw.receive(), Some(Message::Connected(_))));
        drop(client);
        eventually("the client is gone", || !device.link_state().carrier);
    }
    serves_an_honest_client(&device, &name);
}
