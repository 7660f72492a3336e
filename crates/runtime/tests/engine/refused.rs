//! Devices that cannot be: refused in words, with nothing left changed. And frames that are small, which can.

use std::io::{Read as _, Write as _};
use std::net::IpAddr;

use napier_runtime::device::{AddDeviceError, AddLinkError, DeviceHandle, LinkConfig, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::socket::{DeviceError, MtuDiscovery, NetNs, TcpListener, TcpStream, UdpSocket};

use crate::common::{PATIENCE, PEER_MAC, PEER_V4, TESTED_MAC, TESTED_V4, bound, end, v4};

fn link(
    engine: &Engine,
    frame_bytes: u32,
    tested: &[(IpAddr, u8)],
) -> Result<(DeviceHandle, DeviceHandle), AddLinkError> {
    let (here, there) = (engine.namespace(), engine.namespace());
    let config = LinkConfig { frame_bytes, ring_size: 64, ..LinkConfig::default() };
    engine.add_link(&config, end("a", &here, TESTED_MAC, tested), end("b", &there, PEER_MAC, &[(PEER_V4.into(), 24)]))
}

#[test]
fn addresses_that_are_of_no_station_are_refused() {
    let engine = Engine::builder().start().unwrap();
    let refused = [
        "255.255.255.255/32",
        "224.0.0.1/24",
        "0.0.0.0/8",
        "ff02::1/64",
        "::/0",
        "10.1.0.1/33",
        "fd00::1/129",
        "::ffff:10.0.0.1/128",
        "10.1.0.0/24",
        "10.1.0.255/24",
        "10.1.0.0/30",
        "10.1.0.3/30",
        "fd00::/64",
    ];
    for text in refused {
        let (addr, prefix_len) = text.split_once('/').unwrap();
        let (addr, prefix_len): (IpAddr, u8) = (addr.parse().unwrap(), prefix_len.parse().unwrap());
        let error = link(&engine, 2048, &[(addr, prefix_len)]).err().unwrap_or_else(|| panic!("{text} was taken"));
        let AddLinkError::Device(AddDeviceError::Address(error)) = error else { panic!("{text}: {error}") };
        let same = |a: &IpAddr, p: &u8| (*a, *p) == (addr, prefix_len);
        let (DeviceError::BadAddress { addr: a, prefix_len: p } | DeviceError::NotAStation { addr: a, prefix_len: p }) =
            &error
        else {
            panic!("{text}: {error}")
        };
        assert!(same(a, p), "{text}: {error}");
        let socket = format!("@napier-refused-{}", std::process::id());
        let memif = engine.add_memif(
            MemifConfig::new(MemifRole::Server, &socket),
            end("m", &engine.namespace(), TESTED_MAC, &[(addr, prefix_len)]),
        );
        assert!(memif.is_err(), "{text}");
    }
    // Nothing is left of them: the names are free, and the engine works.
    let taken =
        ["10.1.0.0/31", "10.1.0.1/31", "10.1.0.0/32", "10.1.0.254/24", "fd00::/127", "fd00::/128", "fd00::1/64"];
    let addresses = taken.map(|text| {
        let (addr, prefix_len) = text.split_once('/').unwrap();
        (addr.parse().unwrap(), prefix_len.parse().unwrap())
    });
    link(&engine, 2048, &addresses).unwrap();
}

#[test]
fn a_name_space_of_another_engine_is_refused() {
    let (engine, other) = (Engine::builder().start().unwrap(), Engine::builder().start().unwrap());
    let ends = |ns: &NetNs| {
        let there = engine.namespace();
        let config = LinkConfig::default();
        engine.add_link(&config, end("a", ns, TESTED_MAC, &[]), end("b", &there, PEER_MAC, &[])).map(drop)
    };
    let error = ends(&other.namespace()).unwrap_err();
    assert!(matches!(error, AddLinkError::Device(AddDeviceError::ForeignNamespace)), "{error}");
    ends(&engine.namespace()).unwrap();
}

#[test]
fn frames_too_small_for_ipv6_are_refused_with_a_size_that_does() {
    let engine = Engine::builder().start().unwrap();
    let v6: (IpAddr, u8) = ("fd77::1".parse().unwrap(), 64);
    let error = link(&engine, 1280, &[v6]).err().expect("1266 bytes are less than 1280");
    let AddLinkError::Device(AddDeviceError::MtuTooSmall { mtu, least, frame_bytes, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!((mtu, least), (1266, 1280));
    link(&engine, frame_bytes, &[v6]).unwrap();
}

#[test]
fn small_frames_carry_what_fits() {
    for frame_bytes in [128, 512, 1472, 1536] {
        let engine = Engine::builder().start().unwrap();
        let (tested, peer) = link(&engine, frame_bytes, &[(TESTED_V4.into(), 24)]).unwrap();
        let payload_max = (frame_bytes as usize - 14).min(1500) - 28;
        let server = bound(tested.netns(), v4(TESTED_V4, 7));
        let client = UdpSocket::bind(peer.netns(), v4(PEER_V4, 8)).unwrap();
        client.set_mtu_discovery(MtuDiscovery::Do).unwrap();
        let refused = client.send_to(&vec![1; payload_max + 1], v4(TESTED_V4, 7)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(90), "EMSGSIZE");
        client.send_to(&vec![1; payload_max], v4(TESTED_V4, 7)).unwrap();
        assert_eq!(server.recv(&mut [0; 2048]).unwrap(), payload_max);

        let listener = TcpListener::bind(tested.netns(), v4(TESTED_V4, 80)).unwrap();
        let asking = TcpStream::connect(peer.netns(), v4(TESTED_V4, 80)).unwrap();
        let (answering, _) = listener.accept().unwrap();
        (&asking).write_all(&[7; 10_000]).unwrap();
        answering.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = vec![0; 10_000];
        (&answering).read_exact(&mut got).unwrap();
        assert_eq!(got, [7; 10_000]);
        assert_eq!(tested.netns().counters().tcp_faults + peer.netns().counters().tcp_faults, 0);
    }
}
