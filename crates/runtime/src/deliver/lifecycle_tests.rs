//! What becomes of an instance when the system refuses to watch its doorbell.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::deliver::softirq::scarce::with_watches;
use crate::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig};
use crate::engine::AffinityError;
use crate::engine::Engine;
use crate::socket::UdpSocket;
use crate::test_link::{PATIENCE, end};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 7, 0, 1), Ipv4Addr::new(10, 7, 0, 2)];

/// An engine with a softirq CPU on each of the processors, and a link whose interrupts the first one takes.
fn link(cpus: &[usize]) -> (Engine, [DeviceHandle; 2]) {
    let engine = Engine::builder().softirq_cpus(cpus).fifo(false).start().unwrap();
    let end = |index: u8| EndConfig {
        addresses: vec![IfAddr { addr: IpAddr::V4(ADDRESSES[usize::from(index)]), prefix_len: 24 }],
        irq_cpus: vec![cpus[0]],
        ..end(&engine, &format!("end{index}"), index)
    };
    let (first, second) = engine.add_link(&LinkConfig::default(), end(0), end(1)).unwrap();
    (engine, [first, second])
}

/// Both directions, so that the interrupts of both ends are needed.
fn packets_pass(ends: &[DeviceHandle; 2]) {
    let sockets = [0, 1].map(|index| {
        let socket = UdpSocket::bind(ends[index].netns(), SocketAddr::from((ADDRESSES[index], 7))).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    for _ in 0..3 {
        for (from, to) in [(0, 1), (1, 0)] {
            sockets[from].send_to(b"hello", (ADDRESSES[to], 7).into()).unwrap();
            assert_eq!(sockets[to].recv(&mut [0; 16]).unwrap(), 5);
        }
    }
}

#[test]
fn an_instance_that_is_stopped_for_a_moment_needs_nothing_of_the_system_to_go_on() {
    let (_engine, ends) = link(&crate::available_cpus()[..1]);
    packets_pass(&ends);
    for _ in 0..3 {
        with_watches(0, || assert_eq!(ends[0].frames_out(), 0));
        packets_pass(&ends);
    }
}

#[test]
fn an_interrupt_that_cannot_be_moved_stays_where_it_is() {
    let cpus = crate::available_cpus();
    let Some(cpus) = cpus.get(..2) else {
        napier_testkit::skip!("an_interrupt_that_cannot_be_moved_stays_where_it_is", "one processor only");
        return;
    };
    let (engine, ends) = link(cpus);
    let id = ends[0].napi_id(0);
    let at = |cpu: usize| engine.set_irq_affinity(id, cpus[cpu]);
    // A link's line has two descriptors: the first one is refused, or the second.
    for watches in [0, 1] {
        let error = with_watches(watches, || at(1)).unwrap_err();
        assert!(matches!(error, AffinityError::Refused { errno: Errno::NOSPC, .. }), "{error}");
        assert_eq!(engine.inner.deliver.napi_by_id(id).unwrap().irq_cpu(), 0);
        packets_pass(&ends);
    }
    // Nothing is left of the attempts, or it could not be watched again.
    for cpu in [1, 0, 0, 1] {
        at(cpu).unwrap();
        packets_pass(&ends);
    }
}

#[test]
fn a_device_that_could_not_come_up_can_later() {
    let (_engine, ends) = link(&crate::available_cpus()[..1]);
    for watches in [0, 1] {
        ends[0].set_down();
        assert!(with_watches(watches, || ends[0].set_up()).is_err());
        assert!(!ends[0].device.up.load(Ordering::Relaxed));
    }
    ends[0].set_up().unwrap();
    packets_pass(&ends);
}
