//! A peer that says anything, driven by bytes.

use super::{
    ClientConfig, ClientDecision, ClientHandshake, Fault, Interface, MESSAGE_BYTES, Message, Name, RegionLayout,
    Secret, ServerDecision, ServerHandshake, ServerLimits, Taken, ring_bytes,
};

const LIMITS: ServerLimits = ServerLimits { regions: 3, bytes: 1 << 24, log2_ring_size: 12 };

/// Plays `script`: messages as they would come over the wire, each behind a byte that says whether a descriptor comes
/// along (bit 0) and whether the bytes are cut short (bit 1).
///
/// # Panics
///
/// If a handshake does what it must not: that is the finding.
pub fn fuzz_control(script: &[u8]) {
    play_server(script);
    play_client(script);
}

/// The packets of a script.
fn packets(script: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    script.chunks(1 + MESSAGE_BYTES).take(600).filter_map(|chunk| {
        let (&how, bytes) = chunk.split_first()?;
        let kept = if how & 2 == 0 { bytes.len() } else { bytes.len() / 2 };
        Some((&bytes[..kept], how & 1 != 0))
    })
}

fn play_server(script: &[u8]) {
    let interface = |id, secret| Interface { id, name: Name::new("fuzz"), secret, busy: id == 2, rings: 4 };
    let interfaces = [interface(0, None), interface(1, Secret::new(b"secret")), interface(2, None)];
    let (mut server, _) = ServerHandshake::new(Name::new("fuzz"), LIMITS, &interfaces);
    for (bytes, descriptor) in packets(script) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return check_fault(&Fault::from(error)),
        };
        match server.on_message(&message, descriptor, &interfaces) {
            ServerDecision::Admit { interface, .. } => assert!(!interfaces[interface].busy, "two peers"),
            ServerDecision::Take { taken, .. } => {
                assert!(descriptor, "a descriptor that did not come");
                if let Taken::Ring(ring) = taken {
                    let end = u64::from(ring.offset) + ring_bytes(ring.log2_ring_size);
                    assert!(end <= server.regions()[usize::from(ring.region)], "a ring outside its region");
                }
            }
            ServerDecision::Map => drop(server.mapped(Name::new("fuzz"))),
            ServerDecision::Refuse(fault) => return check_fault(&fault),
            ServerDecision::Ended(_) => return,
        }
        let regions = server.regions();
        assert!(regions.len() <= usize::from(LIMITS.regions) && regions.iter().sum::<u64>() <= LIMITS.bytes);
        assert!([true, false].iter().all(|&c2s| server.rings(c2s).len() <= 4), "more rings than allowed");
        assert!(!server.is_connected() || !server.rings(true).is_empty() && !server.rings(false).is_empty());
    }
}

fn play_client(script: &[u8]) {
    let Ok(layout) = RegionLayout::new(2, 3, 8, 2112) else { unreachable!("a layout that can be") };
    let config = ClientConfig { name: Name::new("fuzz"), id: 7, secret: None, layout };
    let mut client = ClientHandshake::new(config);
    for (bytes, _) in packets(script) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return check_fault(&Fault::from(error)),
        };
        match client.on_message(&message) {
            ClientDecision::Send { message, .. } => {
                assert_eq!(Message::decode(&message.encode()), Ok(message), "what we say can be read");
            }
            ClientDecision::Connected(_) => assert!(client.is_connected()),
            ClientDecision::Refuse(fault) => return check_fault(&fault),
            ClientDecision::Ended(_) => return,
        }
        assert!(client.layout().len() <= layout.len(), "the server made the region larger");
    }
}

/// Every refusal can be said.
fn check_fault(fault: &Fault) {
    assert!(matches!(fault.disconnect(), Message::Disconnect { reason, .. } if !reason.is_empty()));
}
