//! A veth has no large receive offload: its generic one stands for it.

use std::os::fd::AsFd as _;

use napier_linux::VethConfig;
use napier_linux::change::{Entry, EthtoolKey, Key, KeyError, undo};
use napier_linux::ethtool::Group;
use napier_testkit::Folder;
use napier_testnet::{Veth, ends, ip, pair};

use super::*;
use crate::device::Device;
use crate::serve::device::{DeviceConfig, OneDevice};

fn veth(test: &str) -> Option<Veth> {
    let ends = ends(("left", &["10.9.0.1/24"]), ("right", &["10.9.0.2/24"]));
    pair(test, &VethConfig { gro: true, tso: false, ..ends })
}

fn feature(device: &DeviceRef, name: &str) -> Key {
    Key::Ethtool(EthtoolKey { device: device.clone(), group: Group::Features, name: name.to_owned() })
}

#[test]
fn what_a_program_takes_is_back_after_it_and_after_a_kill() {
    let test = "what_a_program_takes_is_back_after_it_and_after_a_kill";
    let Some(pair) = veth(test) else { return };
    let (end, folder) = (pair.left(), Folder::new(test));
    let netns = end.netns().clone();
    let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
    let gro = feature(&device, "rx-gro");
    let now = || netns.run(|| gro.read()).expect("entered").expect("read");
    let journals = || std::fs::read_dir(&folder).expect("there").count();
    // What another test starts has the lock of the one before until it is another program.
    let begin = || {
        let (lines, mut noted) = ([Line::new(gro.clone(), "off")], None);
        napier_testkit::eventually("it is noted", || {
            noted = NotedOff::begin(&folder, device.clone(), Some(netns.clone()), &lines).ok();
            noted.is_some()
        });
        noted.expect("it is noted")
    };
    let noted = begin();
    assert_eq!((now().as_deref(), journals()), (Some("off"), 1));
    drop(noted);
    assert_eq!((now().as_deref(), journals()), (Some("on"), 0));
    // A process that is killed closes its files and does nothing else.
    let mut killed = begin();
    drop(killed.ledger.take());
    drop(killed);
    assert_eq!((now().as_deref(), journals()), (Some("off"), 1));
    // The next one finds what was there at first.
    drop(begin());
    assert_eq!((now().as_deref(), journals()), (Some("on"), 0));
    // The process that has the interface is named, and nothing is changed.
    let noted = begin();
    let lines = [Line::new(feature(&device, "tx-scatter-gather"), "off")];
    let other = Folder::new("noted-elsewhere");
    let refused = NotedOff::begin(&other, device.clone(), Some(netns.clone()), &lines).err().expect("it is held");
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused:#}");
    drop(noted);
    assert_eq!((now().as_deref(), journals()), (Some("on"), 0));
}

#[test]
fn an_offload_that_a_program_takes_is_not_said_to_be_back_while_it_is_there() {
    let test = "an_offload_that_a_program_takes_is_not_said_to_be_back_while_it_is_there";
    let Some(pair) = veth(test) else { return };
    let end = pair.left();
    let netns = Arc::new(end.netns().as_fd().try_clone_to_owned().expect("a descriptor"));
    let device = Device::Xdp { interface: Some(end.name().to_owned()) };
    let config = DeviceConfig { netns: Some(netns), ..DeviceConfig::new(device, ip("10.9.0.7"), 24) };
    let one = match OneDevice::start(&config) {
        Ok(one) => one,
        Err(why) => {
            napier_testkit::skip!(test, "{why:#}");
            return;
        }
    };
    let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
    // It is off, and this driver never switches it.
    let lro = feature(&device, "rx-lro");
    let entry = Entry { key: lro.clone(), before: Some("on".to_owned()), after: "off".to_owned(), or: None };
    let asked = end.netns().run(|| (lro.write("on"), undo(std::slice::from_ref(&entry)))).expect("entered");
    let (written, undone) = asked;
    assert!(matches!(&written, Err(KeyError::Away(why)) if why.contains("XDP program is on left")), "{written:?}");
    assert_eq!((undone.put_back.len(), undone.away, &undone.remaining), (0, 1, &vec![entry]), "{undone:?}");
    drop(one);
    // Without a program a switch that does nothing is no error, as before.
    let is_free = || end.netns().run(|| lro.write("on")).expect("entered").is_ok();
    napier_testkit::eventually("the program is gone", is_free);
}
