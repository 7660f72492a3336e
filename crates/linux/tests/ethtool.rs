//! Channels, rings, coalescing and offloads of a veth interface, and threads of its instances.

mod common;

use std::process::Command;

use common::{config, pair};
use napier_core::control::ThreadedSetting;
use napier_linux::change::{
    DeviceRef, EthtoolKey, Journal, Keep, Key, KeyError, Line, NapiAttribute, NapiKey, Scope, ThreadKey, ThreadSetting,
    apply, undo,
};
use napier_linux::ethtool::{self, EthtoolError, Group};
use napier_linux::{VethConfig, VethEnd};
use napier_testkit::Folder;

fn device(end: &VethEnd) -> DeviceRef {
    DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() }
}

fn key(end: &VethEnd, group: Group, name: &str) -> Key {
    Key::Ethtool(EthtoolKey { device: device(end), group, name: name.to_owned() })
}

/// What the tool of that name says, where it is installed.
fn tool(end: &VethEnd, letter: &str) -> Option<String> {
    let ran = end.netns().run(|| Command::new("ethtool").args([letter, end.name()]).output());
    let output = ran.expect("entered").ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn journal(folder: &Folder, end: &VethEnd) -> Journal {
    let scope = Scope::device(device(end)).expect("a namespace");
    Journal::begin_in(folder, &scope, Keep::Run, 16, &mut |_| {}).expect("a journal")
}

#[test]
fn channels_are_set_and_put_back() {
    let test = "channels_are_set_and_put_back";
    let Some(pair) = pair(test, &VethConfig { queues: 4, gro: true, tso: false, ..config() }) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    end.netns()
        .run(|| {
            let channels = ethtool::get(end.ifindex(), Group::Channels).expect("veth has channels");
            assert_eq!((channels["rx"].as_str(), channels["rx-max"].as_str()), ("4", "4"), "{channels:?}");
            let lines =
                [Line::new(key(end, Group::Channels, "rx"), "2"), Line::new(key(end, Group::Channels, "tx"), "1")];
            let mut journal = journal(&folder, end);
            let entries = apply(&lines, &mut journal).expect("applied");
            assert_eq!(entries.iter().map(|entry| entry.before.as_deref()).collect::<Vec<_>>(), [Some("4"); 2]);
            if let Some(said) = tool(end, "-l") {
                let now = said.split("Current").nth(1).expect("current values");
                assert!(now.contains("RX:\t\t2") && now.contains("TX:\t\t1"), "{said}");
            }
            let undone = undo(&entries);
            assert!(undone.left.is_empty() && undone.gone.is_empty(), "{undone:?}");
            assert_eq!(ethtool::get(end.ifindex(), Group::Channels).expect("there"), channels);
            journal.close();
        })
        .expect("entered");
}

#[test]
fn offloads_are_switched_and_read() {
    let test = "offloads_are_switched_and_read";
    let Some(pair) = pair(test, &config()) else { return };
    let end = pair.left();
    end.netns()
        .run(|| {
            let gro = key(end, Group::Features, "rx-gro");
            assert_eq!(gro.read().expect("read").as_deref(), Some("off"));
            gro.write("on").expect("switched");
            assert_eq!(gro.read().expect("read").as_deref(), Some("on"));
            if let Some(said) = tool(end, "-k") {
                assert!(said.contains("generic-receive-offload: on"), "{said}");
            }
            let unknown = key(end, Group::Features, "rx-nothing");
            assert!(matches!(unknown.read(), Err(KeyError::NotHere(why)) if why.contains("rx-nothing")));
            assert!(unknown.write("on").is_err() && gro.write("perhaps").is_err());
            // One that is fixed stays as it is.
            let features = ethtool::features(end.ifindex()).expect("listed");
            assert!(features.len() > 20 && features.iter().any(|feature| !feature.changeable), "{features:?}");
        })
        .expect("entered");
}

#[test]
fn what_a_driver_lacks_and_what_is_no_value_is_said() {
    let test = "what_a_driver_lacks_and_what_is_no_value_is_said";
    let Some(pair) = pair(test, &VethConfig { queues: 2, ..config() }) else { return };
    let end = pair.left();
    end.netns()
        .run(|| {
            for (group, name) in [(Group::Rings, "rx"), (Group::Coalesce, "rx-usecs")] {
                let key = key(end, group, name);
                let said = [key.read().map(|_| ()), key.write("1")].map(|done| done.expect_err("refused").to_string());
                assert!(said.iter().all(|said| said.contains(group.name()) && said.contains("left")), "{said:?}");
            }
            let more = key(end, Group::Channels, "rx");
            let said = more.write("3").expect_err("there are two").to_string();
            assert!(said.contains("does not take that value"), "{said}");
            assert!(more.write("many").is_err());
            // What only the driver decides is shown and not set.
            assert!(key(end, Group::Channels, "rx-max").write("2").is_err());
            assert_eq!(more.read().expect("read").as_deref(), Some("2"));
            let gone = ethtool::get(4_000_000, Group::Channels).expect_err("there is none");
            assert!(matches!(gone, EthtoolError::Gone), "{gone}");
        })
        .expect("entered");
}

#[test]
fn the_thread_of_an_instance_gets_a_priority_and_a_cpu_and_its_own_back() {
    let test = "the_thread_of_an_instance_gets_a_priority_and_a_cpu_and_its_own_back";
    let Some(pair) = pair(test, &VethConfig { gro: true, tso: false, ..config() }) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    end.netns()
        .run(|| {
            let infos = end.napis().expect("listed");
            let id = infos[0].id;
            let napi = Key::Napi(NapiKey {
                device: device(end),
                id,
                place: 0,
                queue: None,
                attribute: NapiAttribute::Threaded,
            });
            if let Err(error) = napi.write(ThreadedSetting::Enabled.name()) {
                napier_testkit::skip!(test, "{error}");
                return;
            }
            let tid = end.napis().expect("listed")[0].pid.expect("a thread");
            let of = |setting| ThreadKey::of(tid, setting).expect("it lives");
            let affinity = Line::new(Key::Thread(of(ThreadSetting::Affinity)), "0");
            let scheduling = Line::new(Key::Thread(of(ThreadSetting::Scheduling)), "fifo 50");
            let mut journal = journal(&folder, end);
            let entries = match apply(&[affinity.clone(), scheduling.clone()], &mut journal) {
                Ok(entries) => entries,
                Err(error) => {
                    napier_testkit::skip!(test, "{error}");
                    return;
                }
            };
            let read = |line: &Line| line.key.read().expect("read").expect("told");
            assert_eq!((read(&affinity).as_str(), read(&scheduling).as_str()), ("0", "fifo 50"));
            let undone = undo(&entries);
            assert!(undone.left.is_empty(), "{undone:?}");
            assert_eq!(read(&scheduling), "other");
            // A thread that has ended is gone, whatever has its number.
            napi.write("disabled").expect("written");
            napier_testkit::eventually("the thread ends", || affinity.key.read().is_err());
            let undone = undo(&entries);
            assert!(undone.gone.iter().any(|gone| gone.contains("has ended")), "{undone:?}");
            journal.close();
        })
        .expect("entered");
}
