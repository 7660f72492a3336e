//! Values of a live machine changed, noted, put back: on a veth pair of the test's own.

mod common;

use common::{config, pair};
use napier_core::control::plan::{Plan, Write};
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::time::Span;
use napier_linux::change::{DeviceRef, Journal, JournalError, Keep, Key, Line, Scope, apply, lines_of, preview, undo};
use napier_linux::{Veth, VethConfig, VethEnd};
use napier_testkit::Folder;

fn pair_with_napi(test: &str) -> Option<Veth> {
    pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() })
}

fn device(end: &VethEnd) -> DeviceRef {
    DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() }
}

fn suspending() -> Plan {
    [
        NapiChange::DeferHardIrqs(100),
        NapiChange::GroFlushTimeout(Span::from_us(20)),
        NapiChange::IrqSuspendTimeout(Span::from_secs(5)),
        NapiChange::Threaded(ThreadedSetting::Enabled),
    ]
    .map(Write::Instance)
    .into_iter()
    .collect()
}

fn begin(folder: &Folder, scope: &Scope, lines: usize) -> Result<Journal, JournalError> {
    Journal::begin_in(folder, scope, Keep::Run, lines, &mut |_| {})
}

#[test]
fn lines_are_put_into_force_and_back() {
    let test = "lines_are_put_into_force_and_back";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    let state = || {
        let mut infos = end.napis().expect("listed");
        infos.iter_mut().for_each(|info| info.pid = None);
        infos
    };
    let at_first = state();
    end.netns()
        .run(|| {
            let device = device(end);
            let lines = lines_of(&suspending(), &device).expect("lines");
            assert!(preview(&lines).iter().all(|preview| preview.is_change()), "{lines:?}");
            let scope = Scope::device(device.clone()).expect("a namespace");
            let mut journal = begin(&folder, &scope, lines.len()).expect("a journal");
            // Two runs on one interface refuse each other.
            let refused = begin(&folder, &scope, 1).expect_err("it is held");
            assert!(matches!(&refused, JournalError::Busy { pid, .. } if *pid == std::process::id()), "{refused}");
            let entries = match apply(&lines, &mut journal) {
                Ok(entries) => entries,
                Err(error) => {
                    napier_testkit::skip!(test, "{error}");
                    return;
                }
            };
            assert_eq!(entries.len(), lines.len());
            assert!(!preview(&lines).iter().any(|preview| preview.is_change()));
            // Another program's change is left, and said.
            let foreign = Line::new(entries[0].key.clone(), "7");
            foreign.key.write("7").expect("written");
            let undone = undo(&entries);
            assert_eq!(undone.left.len(), 1, "{undone:?}");
            assert!(undone.left[0].contains("another program"), "{undone:?}");
            foreign.key.write(entries[0].before.as_deref().expect("told")).expect("written");
            journal.close();
        })
        .expect("entered");
    assert_eq!(state(), at_first);
}

#[test]
fn a_file_of_an_interface_notes_its_instances() {
    let test = "a_file_of_an_interface_notes_its_instances";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    end.netns()
        .run(|| {
            let device = device(end);
            let own = lines_of(&suspending(), &device).expect("lines");
            let file = Key::device_file(&device, "gro_flush_timeout");
            let lines: Vec<Line> = own.iter().cloned().chain([Line::new(file, "7000")]).collect();
            let before: Vec<_> = lines.iter().map(|line| line.key.read().ok().flatten()).collect();
            let mut journal =
                begin(&folder, &Scope::device(device).expect("a namespace"), 2 * lines.len()).expect("a journal");
            let Ok(entries) = apply(&lines, &mut journal) else {
                napier_testkit::skip!(test, "this kernel does not set instances");
                return;
            };
            let now = |at: usize| lines[at].key.read().ok().flatten();
            assert!((0..own.len()).any(|at| now(at).as_deref() == Some("7000")), "written to instances");
            let undone = undo(&entries);
            assert!(undone.left.is_empty() && undone.gone.is_empty(), "{undone:?}");
            assert_eq!((0..lines.len()).map(now).collect::<Vec<_>>(), before);
            journal.close();
        })
        .expect("entered");
}

#[test]
fn what_a_refused_line_left_is_put_back() {
    let test = "what_a_refused_line_left_is_put_back";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    let at_first = end.napis().expect("listed");
    end.netns()
        .run(|| {
            let device = device(end);
            let mut lines = lines_of(&suspending(), &device).expect("lines");
            lines.truncate(2);
            let bad = Key::device_file(&device, "napi_defer_hard_irqs");
            lines.push(Line::new(bad, "4294967295"));
            let mut journal = begin(&folder, &Scope::device(device).expect("a namespace"), 8).expect("a journal");
            let error = apply(&lines, &mut journal).expect_err("it is out of range");
            assert!(error.left.is_empty() && error.to_string().contains("napi_defer_hard_irqs"), "{error}");
            journal.close();
        })
        .expect("entered");
    assert_eq!(end.napis().expect("listed"), at_first);
}

#[test]
fn an_instance_that_had_the_value_of_a_file_keeps_it() {
    let test = "an_instance_that_had_the_value_of_a_file_keeps_it";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    end.netns()
        .run(|| {
            let device = device(end);
            let own = lines_of(&suspending(), &device).expect("lines");
            if own[0].key.write("100").is_err() {
                napier_testkit::skip!(test, "this kernel does not set instances");
                return;
            }
            let before: Vec<_> = own.iter().map(|line| line.key.read().ok().flatten()).collect();
            let file = Key::device_file(&device, "napi_defer_hard_irqs");
            let mut journal = begin(&folder, &Scope::device(device).expect("a namespace"), 8).expect("a journal");
            let entries = apply(&[Line::new(file, "100")], &mut journal).expect("applied");
            let undone = undo(&entries);
            assert!(undone.left.is_empty() && undone.gone.is_empty(), "{undone:?}");
            assert_eq!(own.iter().map(|line| line.key.read().ok().flatten()).collect::<Vec<_>>(), before);
            journal.close();
        })
        .expect("entered");
}

#[test]
fn an_interface_that_is_down_is_not_gone() {
    let test = "an_interface_that_is_down_is_not_gone";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let folder = Folder::new(test);
    let entries = end.netns().run(|| {
        let device = device(end);
        let lines = lines_of(&suspending(), &device).expect("lines");
        let mut journal = begin(&folder, &Scope::device(device).expect("a namespace"), 16).expect("a journal");
        let entries = apply(&lines[..2], &mut journal).ok();
        journal.close();
        entries
    });
    let Some(entries) = entries.expect("entered") else {
        napier_testkit::skip!(test, "this kernel does not set instances");
        return;
    };
    end.set_up(false).expect("down");
    let undone = end.netns().run(|| undo(&entries)).expect("entered");
    assert!(undone.is_refused && undone.gone.is_empty() && undone.left[0].contains("is down"), "{undone:?}");
    end.set_up(true).expect("up");
}
