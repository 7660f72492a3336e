//! Devices that are removed while their engine goes on.

use napier_runtime::control::{DevAttribute, DevSet, DevSetError};
use napier_runtime::device::{DeviceHandle, LinkConfig, RemoveDeviceError};
use napier_runtime::engine::Engine;
use napier_runtime::event::{Interest, Pollable as _};
use napier_runtime::group::GroupSettings;
use napier_runtime::raw::{BindRawError, RawPort};
use napier_runtime::socket::{NetNs, TcpListener, TcpStream};
use napier_runtime::tx::{QdiscConfig, TxSetupError, TxVariant};

use crate::common::{PEER_MAC, PEER_V4, TESTED_MAC, TESTED_V4, bound, end, eventually, v4};

/// Source: `include/uapi/asm-generic/errno.h`.
const ENODEV: i32 = 19;
const ENETUNREACH: i32 = 101;
const ENETRESET: i32 = 102;

/// An engine with two name spaces, which a link may join.
struct Rig {
    engine: Engine,
    here: NetNs,
    there: NetNs,
}

impl Rig {
    fn new() -> Self {
        let engine = Engine::builder().start().unwrap();
        Self { here: engine.namespace(), there: engine.namespace(), engine }
    }

    fn link(&self) -> (DeviceHandle, DeviceHandle) {
        let here = end("here", &self.here, TESTED_MAC, &[(TESTED_V4.into(), 24)]);
        let there = end("there", &self.there, PEER_MAC, &[(PEER_V4.into(), 24)]);
        self.engine.add_link(&LinkConfig::default(), here, there).unwrap()
    }
}

#[test]
fn what_goes_over_a_removed_link_is_told_and_what_came_stays() {
    let rig = Rig::new();
    let (device, peer) = rig.link();
    let listener = TcpListener::bind(&rig.there, v4(PEER_V4, 80)).unwrap();
    let stream = TcpStream::connect(&rig.here, v4(PEER_V4, 80)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (asks, answers) = (bound(&rig.here, v4(TESTED_V4, 7)), bound(&rig.there, v4(PEER_V4, 7)));
    asks.send_to(b"kept", v4(PEER_V4, 7)).unwrap();
    eventually("it has come", || answers.readiness().intersects(Interest::IN));
    std::thread::scope(|scope| {
        // It waits, or is about to.
        let waits = scope.spawn(|| stream.recv(&mut [0; 16]).unwrap_err().raw_os_error());
        rig.engine.remove_device(&device).unwrap();
        assert_eq!(waits.join().unwrap(), Some(ENETRESET));
    });
    assert_eq!(accepted.recv(&mut [0; 16]).unwrap_err().raw_os_error(), Some(ENETRESET));
    assert_eq!(asks.send_to(b"lost", v4(PEER_V4, 7)).unwrap_err().raw_os_error(), Some(ENETUNREACH));
    assert_eq!(answers.recv(&mut [0; 16]).unwrap(), 4);
    // A link goes as a whole, and once.
    assert!(rig.engine.dev_dump().is_empty() && rig.engine.napi_dump(None).unwrap().is_empty());
    let gone = RemoveDeviceError::NoSuchDevice { name: "there".to_owned() };
    assert_eq!(rig.engine.remove_device(&peer), Err(gone));
    // Another of the same names takes its place, and the sockets are on it.
    let (again, _) = rig.link();
    assert!(again.ifindex() > peer.ifindex());
    asks.send_to(b"again", v4(PEER_V4, 7)).unwrap();
    assert_eq!(answers.recv(&mut [0; 16]).unwrap(), 5);
    let stream = TcpStream::connect(&rig.here, v4(PEER_V4, 80)).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), v4(PEER_V4, 80));
}

#[test]
fn handles_of_a_removed_device_show_what_it_was_and_change_nothing() {
    let rig = Rig::new();
    let (device, peer) = rig.link();
    let port = RawPort::bind(&peer, 0).unwrap();
    device.set_qdisc(0, &QdiscConfig::pfifo()).unwrap();
    device.set_tx_variant(0, TxVariant::Owner).unwrap();
    let threaded = DevSet { attribute: DevAttribute::Threaded, value: 1 };
    device.set(threaded).unwrap();
    let sends = RawPort::bind(&device, 0).unwrap();
    sends.build(64, |frame| frame[..64].len()).unwrap();
    sends.flush();
    eventually("it has come", || port.recv());
    eventually("it is counted", || peer.stats().rx_packets == 1);
    std::thread::scope(|scope| {
        let waits = {
            let _ = port.next();
            scope.spawn(|| rig.engine.remove_device(&peer).unwrap())
        };
        assert!(!port.wait(None), "nothing comes any more");
        waits.join().unwrap();
    });
    assert_eq!((device.napi_id(0), device.queues(), peer.stats().rx_packets), (0, 1, 1));
    let state = device.link_state();
    assert!(state.gone && !state.carrier && !device.wait_link(None), "{state:?}");
    assert_eq!(device.set_up().unwrap_err().raw_os_error(), Some(ENODEV));
    device.set_down();
    assert_eq!(device.set(threaded), Err(DevSetError::NoNapi));
    assert!(rig.engine.set_mode(&device, "threaded".parse().unwrap()).is_err());
    assert!(matches!(device.set_qdisc(0, &QdiscConfig::pfifo()), Err(TxSetupError::NoSuchQueue { queues: 0, .. })));
    assert!(matches!(RawPort::bind(&device, 0), Err(BindRawError::NoSuchQueue { queues: 0, .. })));
    // The ports of before say that there is no room, and go.
    assert!(sends.build(64, |frame| frame.len()).is_err());
    drop((port, sends));
}

#[test]
fn a_removed_device_leaves_its_group_up_or_down() {
    let rig = Rig::new();
    rig.engine.group_new("polls", &napier_runtime::available_cpus()[..1], GroupSettings::default()).unwrap();
    for down in [false, true] {
        let (device, _) = rig.link();
        rig.engine.group_attach("polls", device.napi_id(0)).unwrap();
        if down {
            device.set_down();
        }
        rig.engine.remove_device(&device).unwrap();
        assert!(rig.engine.groups()[0].members.is_empty());
    }
    rig.engine.group_del("polls").unwrap();
}
