//! A machine that was put into a file is read as the machine itself.

use std::fs;
use std::path::PathBuf;

use super::super::{Facts, FactsError, Picture, PictureError, Scope};
use crate::doctor::diagnose;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("napier-picture-{}-{name}.json", std::process::id()))
}

#[test]
fn a_picture_says_what_the_machine_says() {
    let taken = Picture::take(None).expect("taken");
    let path = file("own");
    fs::write(&path, serde_json::to_vec(&taken).expect("JSON")).expect("written");
    let read = Picture::read(&path).expect("read");
    fs::remove_file(&path).expect("removed");
    assert_eq!(read, taken);
    let (mut shown, mut own) = (read.facts(None).expect("facts"), Facts::read(&Scope::default()).expect("facts"));
    // These go on, and other tests make interfaces.
    for facts in [&mut shown, &mut own] {
        facts.losses = Default::default();
        facts.devices.retain(|device| device.name() == "eth0");
        facts.devices.iter_mut().flat_map(|device| device.instances.iter_mut().flatten()).for_each(|instance| {
            instance.thread = None;
        });
        facts.napi_ids.clear();
        facts.cpus.irqbalance_pid = None;
    }
    assert_eq!(shown, own);
    assert_eq!(diagnose(&shown), diagnose(&own));
    let contents = taken.contents();
    assert!(contents.files > 10 && contents.interfaces.contains(&"lo".to_owned()), "{contents:?}");
}

/// No process but the one that moves interrupts, and no file that may hold a secret.
#[test]
fn a_picture_holds_no_other_process() {
    let text = serde_json::to_string(&Picture::take(None).expect("taken")).expect("JSON");
    assert!(!text.contains(&format!("/proc/{}/", std::process::id())), "{text}");
    for secret in ["/proc/cmdline", "/etc/", "environ", "hostname", "address"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn what_is_no_picture_is_said() {
    let said = |text: &str| {
        let path = file(&text.len().to_string());
        fs::write(&path, text).expect("written");
        let error = Picture::read(&path).expect_err("no picture");
        fs::remove_file(&path).expect("removed");
        error
    };
    assert!(matches!(said("{}"), PictureError::Shape(_)));
    assert!(matches!(said("[1, 2"), PictureError::Shape(_)));
    assert!(matches!(said(r#"{"napier_picture": 9, "more": 1}"#), PictureError::Format(9)));
    assert!(matches!(said(r#"{"napier_picture": 1, "files": 3}"#), PictureError::Shape(_)));
    assert!(matches!(Picture::read(&file("none")), Err(PictureError::Read(_))));
    let here = Picture::take(None).expect("taken");
    assert!(matches!(here.facts(Some("no-such")), Err(FactsError::NoDevice { .. })));
}
