//! What is read of a program and of an interface, and what is found in it, on this machine.

mod common;

use std::net::UdpSocket;
use std::os::fd::AsFd;

use common::{config, pair};
use napier_core::event::EpollParams;
use napier_linux::change::{DeviceRef, Key, NapiAttribute, NapiKey, ThreadKey, ThreadSetting};
use napier_linux::doctor::{Finding, diagnose};
use napier_linux::facts::{Facts, FactsError, Scope};
use napier_linux::{VethConfig, VethEnd, epoll};
use rustix::event::epoll as raw;
use rustix::thread::CpuSet;

fn ids(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.id).collect()
}

fn device(end: &VethEnd) -> DeviceRef {
    DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() }
}

fn read(device: &str, pid: Option<u32>) -> Facts {
    let scope = Scope { device: Some(device.to_owned()), pid, ..Scope::default() };
    Facts::read(&scope).expect("read")
}

#[test]
fn a_program_is_seen_with_its_epoll_instances_and_sockets() {
    let test = "a_program_is_seen_with_its_epoll_instances_and_sockets";
    let Some(pair) = pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() }) else { return };
    let (left, right) = (pair.left(), pair.right());
    left.netns()
        .run(|| {
            let context = raw::create(raw::CreateFlags::CLOEXEC).expect("an epoll instance");
            let bind = |_| UdpSocket::bind("10.9.0.1:0").expect("bound");
            // Flows go to both queues.
            let sockets: Vec<UdpSocket> = (0..32).map(bind).collect();
            for (at, socket) in sockets.iter().enumerate() {
                raw::add(&context, socket, raw::EventData::new_u64(at as u64), raw::EventFlags::IN).expect("added");
                let to = socket.local_addr().expect("bound");
                right.netns().run(|| UdpSocket::bind("10.9.0.2:0")?.send_to(b"x", to)).expect("entered").expect("sent");
                socket.recv(&mut [0; 8]).expect("received");
            }
            let pid = std::process::id();
            let facts = read("left", Some(pid));
            let program = facts.program.as_ref().expect("it lives");
            let found = program.epolls.iter().find(|found| found.members.len() == 32).expect("the instance");
            assert!(!program.sockets.is_empty() && !program.threads.is_empty(), "{program:?}");
            let mut seen: Vec<u32> = program.sockets.iter().filter_map(|socket| socket.napi_id).collect();
            seen.sort_unstable();
            seen.dedup();
            let napis: Vec<u32> = left.napis().expect("listed").iter().map(|napi| napi.id).collect();
            assert_eq!(seen, napis, "{found:?}");
            // It does not poll: nothing is wrong with it.
            let serious = |findings: &[Finding]| ids(findings).into_iter().any(|id| id == "epoll-mixes-instances");
            assert!(!serious(&diagnose(&facts)));
            let params = EpollParams { busy_poll_usecs: 0, busy_poll_budget: 8, prefer_busy_poll: true };
            if let Err(error) = epoll::set_params(context.as_fd(), params) {
                napier_testkit::skip!(test, "{error}");
                return;
            }
            let findings = diagnose(&read("left", Some(pid)));
            assert!(serious(&findings), "{findings:#?}");
            assert!(ids(&findings).contains(&"prefer-without-deferral"), "{findings:#?}");
            // Suspension beside a time for spinning.
            for (at, id) in napis.iter().enumerate() {
                let place = u32::try_from(at).expect("two");
                let key =
                    |attribute| Key::Napi(NapiKey { device: device(left), id: *id, place, queue: None, attribute });
                key(NapiAttribute::DeferHardIrqs).write("100").expect("set");
                key(NapiAttribute::GroFlushTimeout).write("20000").expect("set");
                key(NapiAttribute::IrqSuspendTimeout).write("20000000").expect("set");
            }
            let findings = diagnose(&read("left", Some(pid)));
            assert!(!ids(&findings).contains(&"prefer-without-deferral"), "{findings:#?}");
            assert!(!ids(&findings).contains(&"busy-poll-with-suspension"), "{findings:#?}");
            epoll::set_params(context.as_fd(), EpollParams { busy_poll_usecs: 64, ..params }).expect("set");
            let findings = diagnose(&read("left", Some(pid)));
            assert!(ids(&findings).contains(&"busy-poll-with-suspension"), "{findings:#?}");
        })
        .expect("entered");
}

#[test]
fn a_napi_thread_on_the_programs_cpu_is_found_and_moved() {
    let test = "a_napi_thread_on_the_programs_cpu_is_found_and_moved";
    let Some(pair) = pair(test, &VethConfig { gro: true, tso: false, ..config() }) else { return };
    let left = pair.left();
    left.netns()
        .run(|| {
            Key::device_file(&device(left), "threaded").write("1").expect("written");
            let facts = read("left", None);
            let thread = facts.devices[0].instances()[0].thread.clone().expect("a thread");
            let Some(&cpu) = facts.cpus.online.first().filter(|_| facts.cpus.online.len() > 1) else {
                napier_testkit::skip!(test, "there is one CPU only");
                return;
            };
            let key = ThreadKey::of(thread.tid, ThreadSetting::Affinity).expect("it lives");
            if let Err(error) = Key::Thread(key).write(&cpu.to_string()) {
                napier_testkit::skip!(test, "{error}");
                return;
            }
            let mut own = CpuSet::new();
            own.set(cpu as usize);
            rustix::thread::sched_setaffinity(None, &own).expect("pinned");
            let one = || {
                let findings = diagnose(&read("left", Some(std::process::id())));
                findings.into_iter().find(|finding| finding.id == "one-cpu")
            };
            let found = one().expect("both are there");
            let [line] = &found.mend[..] else { panic!("{found:#?}") };
            line.key.write(&line.value).expect("moved");
            assert_eq!(one(), None);
        })
        .expect("entered");
}

#[test]
fn what_is_not_there_is_said() {
    let error = Facts::read(&Scope { device: Some("nowhere0".to_owned()), ..Scope::default() }).expect_err("none");
    assert!(matches!(&error, FactsError::NoDevice { there, .. } if there.contains("lo")), "{error}");
    let error = Facts::read(&Scope { pid: Some(u32::MAX), ..Scope::default() }).expect_err("none");
    assert!(matches!(error, FactsError::NoProgram { .. }), "{error}");
}

#[test]
fn this_machine_is_read() {
    let facts = Facts::read(&Scope::default()).expect("read");
    assert!(!facts.cpus.online.is_empty() && facts.kernel.version > (2, 6), "{facts:#?}");
    // Judged without a panic, whatever it is.
    assert!(diagnose(&facts).iter().all(|finding| !finding.what.is_empty()));
}
