//! Devices that cannot be made leave nothing behind.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;

use napier_linux::{EndConfig as VethEnd, Veth, VethConfig};
use napier_testkit::PATIENCE;

use super::*;
use crate::deliver::softirq::scarce::with_watches;
use crate::device::{AddLinkError, IfAddr};
use crate::device::{AddXdpError, XdpConfig, XskError};
use crate::engine::Engine;
use crate::port::link::LinkConfig;
use crate::socket::NetNs;
use crate::socket::UdpSocket;

fn start() -> Engine {
    Engine::builder().softirq_cpus(&crate::available_cpus()[..1]).fifo(false).start().unwrap()
}

fn end(ns: &NetNs, name: &str, last: u8) -> EndConfig {
    let addr = IpAddr::V4(Ipv4Addr::new(10, 8, 0, last));
    let addresses = vec![IfAddr { addr, prefix_len: 24 }];
    EndConfig { name: name.to_owned(), netns: ns.clone(), mac: [2, 0, 0, 8, 0, last], addresses, irq_cpus: Vec::new() }
}

fn instances(engine: &Engine) -> usize {
    engine.napi_dump(None).unwrap().len()
}

#[test]
fn a_link_of_which_one_end_cannot_be_is_not_there_at_all() {
    let engine = start();
    let (here, there) = (engine.namespace(), engine.namespace());
    let add = || engine.add_link(&LinkConfig::default(), end(&here, "a", 1), end(&there, "b", 2));
    // Each end has two descriptors to be watched.
    for watches in 0..4 {
        let error = with_watches(watches, add).err().expect("it wants four");
        assert!(matches!(error, AddLinkError::Device(AddDeviceError::System(_))), "{error}");
        assert_eq!(instances(&engine), 0);
        assert!(engine.inner.devices.lock().entries.is_empty());
    }
    add().unwrap();
    assert_eq!(instances(&engine), 2);
    let (asking, answering) = (UdpSocket::bind(&here, "10.8.0.1:7").unwrap(), there);
    let answering = UdpSocket::bind(&answering, "10.8.0.2:7").unwrap();
    answering.set_read_timeout(Some(PATIENCE)).unwrap();
    asking.send_to(b"hello", "10.8.0.2:7".parse().unwrap()).unwrap();
    assert_eq!(answering.recv(&mut [0; 16]).unwrap(), 5);
}

#[test]
fn a_device_on_an_interface_that_cannot_be_leaves_the_interface_free() {
    let [left, right] = [("left", 1), ("right", 2)].map(|(name, last)| VethEnd::new(name, [2, 0, 0, 8, 1, last]));
    let pair = match Veth::new(&VethConfig { tx_checksum: false, tso: false, ..VethConfig::new(left, right) }) {
        Ok(pair) => pair,
        Err(error) if error.is_privilege() => {
            let test = "a_device_on_an_interface_that_cannot_be_leaves_the_interface_free";
            return napier_testkit::skip!(test, "{error}");
        }
        Err(error) => panic!("{error}"),
    };
    let netns = pair.left().netns().as_fd().try_clone_to_owned().unwrap();
    let config = XdpConfig { ring_size: 64, netns: Some(netns.into()), ..XdpConfig::on("left") };
    let engine = start();
    let error = match with_watches(0, || engine.add_xdp(&config, end(&engine.namespace(), "x", 3))) {
        Ok(_) => panic!("its socket cannot be watched"),
        Err(error @ AddXdpError::Interface(XskError::NeedsCapability { .. })) => {
            let test = "a_device_on_an_interface_that_cannot_be_leaves_the_interface_free";
            return napier_testkit::skip!(test, "{error}");
        }
        Err(error) => error,
    };
    assert!(matches!(error, AddXdpError::Device(AddDeviceError::System(_))), "{error}");
    assert_eq!(instances(&engine), 0);
    assert!(engine.inner.devices.lock().entries.is_empty());
    // Neither its program nor its socket is in the way of another, while the engine lives on.
    let other = start();
    let device = other.add_xdp(&config, end(&other.namespace(), "x", 3)).unwrap();
    assert!(device.wait_link(PATIENCE));
    drop((device, other));
    engine.add_xdp(&config, end(&engine.namespace(), "x", 3)).unwrap();
}

#[test]
fn a_removed_device_gives_its_interface_to_another_while_its_engine_goes_on() {
    let test = "a_removed_device_gives_its_interface_to_another_while_its_engine_goes_on";
    let [left, right] = [("left", 1), ("right", 2)].map(|(name, last)| VethEnd::new(name, [2, 0, 0, 8, 1, last]));
    let pair = match Veth::new(&VethConfig { tx_checksum: false, tso: false, ..VethConfig::new(left, right) }) {
        Ok(pair) => pair,
        Err(error) if error.is_privilege() => return napier_testkit::skip!(test, "{error}"),
        Err(error) => panic!("{error}"),
    };
    let netns = pair.left().netns().as_fd().try_clone_to_owned().unwrap();
    let config = XdpConfig { ring_size: 64, netns: Some(netns.into()), ..XdpConfig::on("left") };
    let (engine, other) = (start(), start());
    let device = match engine.add_xdp(&config, end(&engine.namespace(), "x", 3)) {
        Ok(device) => device,
        Err(error) if error.is_privilege() => return napier_testkit::skip!(test, "{error}"),
        Err(error) => panic!("{error}"),
    };
    assert!(device.wait_link(PATIENCE) && device.xdp_info().is_some());
    let busy = other.add_xdp(&config, end(&other.namespace(), "x", 3)).err().expect("the first has it");
    assert!(matches!(busy, AddXdpError::Interface(_)), "{busy}");
    engine.remove_device(&device).unwrap();
    let theirs = other.add_xdp(&config, end(&other.namespace(), "x", 3)).unwrap();
    assert!(theirs.wait_link(PATIENCE) && device.xdp_info().is_none() && device.link_state().gone);
    other.remove_device(&theirs).unwrap();
    engine.add_xdp(&config, end(&engine.namespace(), "x", 3)).unwrap();
}

#[test]
fn a_name_that_no_thread_can_have_is_refused() {
    let engine = start();
    let ns = engine.namespace();
    let error = engine.add_link(&LinkConfig::default(), end(&ns, "a\0b", 1), end(&ns, "b", 2)).err().unwrap();
    assert!(matches!(error, AddLinkError::Device(AddDeviceError::BadName { .. })), "{error}");
}
