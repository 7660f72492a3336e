//! The active side: a port, a place in the tables, a SYN.

use std::io;
use std::sync::Arc;

use napier_core::sockopt::SocketBusy;
use napier_core::tcp::seq::Seq;
use napier_sys::clock::Clock;

use crate::errno::errno;
use crate::tables::path::{Destination, Way, route};
use crate::tables::registry::EPHEMERAL;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flow::Flow;
use crate::tcp::machine::TcpMachine;
use crate::tcp::outlet::route::Route;
use crate::tcp::rules::Cause;
use crate::tcp::settings::ConnSettings;
use crate::wire::PROTO_TCP;
use crate::wire::addr::End;

/// Begins a connection from `local` (port 0: any that is free for this peer; wildcard or nothing: the address that
/// packets to the peer carry).
///
/// # Errors
/// ENETUNREACH, EINVAL, EACCES, EAFNOSUPPORT as for `UdpSocket::connect`; EADDRNOTAVAIL if `local` is not ours or no port
/// is free; EADDRINUSE if the connection exists, or another socket has the port that was asked for.
pub(super) fn connect(
    tcp: &Tcp,
    local: Option<End>,
    target: Destination,
    nodelay: bool,
    settings: &ConnSettings,
) -> io::Result<Arc<Conn>> {
    let tables = &*tcp.tables;
    let own = {
        let snapshot = tables.snapshot.load();
        // An engine that stops takes its devices away.
        let Way { own, .. } =
            route(&snapshot, target).map_err(|error| tables.check_running().err().unwrap_or(error))?;
        match local {
            Some(end) if !end.addr.is_any() && end.addr.is_v4() != target.dst.addr.is_v4() => {
                return Err(errno(libc::EAFNOSUPPORT));
            }
            Some(end) if !end.addr.is_any() && !snapshot.is_local(end.addr) => {
                return Err(errno(libc::EADDRNOTAVAIL));
            }
            Some(end) if !end.addr.is_any() => end.addr,
            _ => own,
        }
    };
    let busy = SocketBusy::new(tables.host.sysctl_busy_read());
    let make = |port: u16, first: Option<Seq>| {
        let flow = Flow { local: End { addr: own, port }, peer: target.dst };
        let route = Route::new(tables, flow.local, target);
        let now = Clock.now();
        let mut numbers = tcp.numbers(&flow, now);
        numbers.first = first.unwrap_or(numbers.first);
        let mut machine = TcpMachine::connect(now, &settings.beginning(numbers, &route));
        machine.set_nodelay(nodelay);
        Arc::new(Conn::new(tcp, flow, route, machine, &busy))
    };
    let asked = local.map_or(0, |end| end.port);
    let wanted = Flow { local: End { addr: own, port: asked }, peer: target.dst };
    // A table that is closed takes nothing.
    let conn = reserve(tcp, asked, wanted, make).map_err(|error| tables.check_running().err().unwrap_or(error))?;
    let now = Clock.now();
    let mut core = conn.own(tcp);
    core.set_patience(settings.patience, now);
    core.drive(tables, now);
    core.settle(now, Cause::Segment);
    drop(core);
    Ok(conn)
}

/// Whether these ends are free, or are made so by a connection that only waits out its end; the first number then, if it is not any.
fn place(tcp: &Tcp, flow: &Flow) -> Option<Option<Seq>> {
    if let Some(conn) = tcp.flows.find(flow, Arc::clone) {
        return tcp.takes_place(&conn, Clock.now()).map(Some);
    }
    match tcp.time_waits.find(flow) {
        None => Some(None),
        Some(remnant) => tcp.takes_place_of(&remnant, Clock.now()).map(Some),
    }
}

/// Finds a port and puts the connection into the table, not yet doing anything. `make`: with this port, and this first number if one is given.
fn reserve(tcp: &Tcp, asked: u16, wanted: Flow, make: impl Fn(u16, Option<Seq>) -> Arc<Conn>) -> io::Result<Arc<Conn>> {
    if asked != 0 {
        if tcp.tables.lock().ports(PROTO_TCP).is_taken(wanted.local) {
            return Err(errno(libc::EADDRINUSE));
        }
        let conn = place(tcp, &wanted).map(|first| make(asked, first));
        return conn.filter(|conn| tcp.flows.insert(conn)).ok_or_else(|| errno(libc::EADDRINUSE));
    }
    let count = u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    // Where the search begins cannot be guessed by a peer that wants to meet the next connection.
    let first = tcp.chance(&wanted, Clock.now());
    for step in 0..count {
        let offset = (first.wrapping_add(step.into()) % u64::from(count)) as u16;
        let port = EPHEMERAL.start() + offset;
        let flow = Flow { local: End { port, ..wanted.local }, ..wanted };
        if tcp.tables.lock().ports(PROTO_TCP).is_taken(flow.local) {
            continue;
        }
        let Some(first) = place(tcp, &flow) else { continue };
        tcp.tables.check_running()?;
        let conn = make(port, first);
        if tcp.flows.insert(&conn) {
            return Ok(conn);
        }
    }
    Err(errno(libc::EADDRNOTAVAIL))
}
