//! The active side: a port, a place in the tables, a SYN.

use std::io;
use std::sync::Arc;

use napier_core::sockopt::SocketBusy;
use napier_sys::clock::Clock;
use smoltcp::wire::IpEndpoint;

use super::super::addr::End;
use super::super::netns::Inner;
use super::super::path::{self, Way};
use super::super::registry::EPHEMERAL;
use super::super::seams::errno;
use super::super::send::Target;
use super::Tcp;
use super::conn::Conn;
use super::flows::Flow;
use super::outlet::Route;
use super::rules::Cause;
use super::settings::Settings;
use super::workspace::with_fresh;

/// Begins a connection from `local` (port 0: any that is free for this peer; wildcard or nothing: the address that
/// packets to the peer carry).
///
/// # Errors
/// ENETUNREACH, EINVAL, EACCES, EAFNOSUPPORT as for `UdpSocket::connect`; EADDRNOTAVAIL if `local` is not ours or no port
/// is free; EADDRINUSE if the connection exists, or another socket has the port that was asked for.
pub(super) fn connect(
    ns: &Arc<Inner>,
    local: Option<End>,
    target: Target,
    nodelay: bool,
    settings: &Settings,
) -> io::Result<Arc<Conn>> {
    let tcp = Tcp::of(ns)?;
    let (own, mtu) = {
        let snapshot = ns.snapshot.load();
        let Way { interface, own, .. } = path::route(&snapshot, target)?;
        match local {
            Some(end) if end.addr.is_v4() != target.dst.addr.is_v4() => return Err(errno(libc::EAFNOSUPPORT)),
            Some(end) if !end.addr.is_any() && !snapshot.is_local(end.addr) => {
                return Err(errno(libc::EADDRNOTAVAIL));
            }
            Some(end) if !end.addr.is_any() => (end.addr, interface.mtu),
            _ => (own, interface.mtu),
        }
    };
    let busy = SocketBusy::new(ns.host.sysctl_busy_read());
    let make = |port: u16| {
        let flow = Flow { local: End { addr: own, port }, peer: target.dst };
        let route = Route::new(ns, flow.local, target);
        Arc::new(Conn::new(flow, route, settings.buffers, &busy))
    };
    let asked = local.map_or(0, |end| end.port);
    let wanted = Flow { local: End { addr: own, port: asked }, peer: target.dst };
    // A table that is closed takes nothing.
    let conn = reserve(ns, tcp, asked, wanted, make).map_err(|error| ns.check_running().err().unwrap_or(error))?;
    let now = Clock.now();
    let mut core = conn.own(ns);
    core.set_patience(settings.patience);
    core.set_congestion(settings.congestion);
    if nodelay {
        core.nagle = false;
        core.socket_mut().set_nagle_enabled(false);
    }
    let (from, to): (IpEndpoint, IpEndpoint) = (endpoint(conn.flow.local), endpoint(conn.flow.peer));
    with_fresh(mtu, tcp.secret(&conn.flow, now), |interface| {
        core.socket_mut().connect(interface.context(), to, from).expect("both ends were checked");
    });
    core.drive(ns, now, None);
    core.settle(now, Cause::Segment);
    drop(core);
    Ok(conn)
}

/// Finds a port and puts the connection into the table, not yet doing anything.
fn reserve(ns: &Inner, tcp: &Tcp, asked: u16, wanted: Flow, make: impl Fn(u16) -> Arc<Conn>) -> io::Result<Arc<Conn>> {
    if asked != 0 {
        if ns.lock().tcp_registry.is_taken(wanted.local) {
            return Err(errno(libc::EADDRINUSE));
        }
        let conn = make(asked);
        return if tcp.flows.insert(&conn) { Ok(conn) } else { Err(errno(libc::EADDRINUSE)) };
    }
    let count = u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
    // Where the search begins cannot be guessed by a peer that wants to meet the next connection.
    let first = tcp.secret(&wanted, Clock.now());
    for step in 0..count {
        let offset = (first.wrapping_add(step.into()) % u64::from(count)) as u16;
        let port = EPHEMERAL.start() + offset;
        let flow = Flow { local: End { port, ..wanted.local }, ..wanted };
        if tcp.flows.find(&flow, |_| ()).is_some() || ns.lock().tcp_registry.is_taken(flow.local) {
            continue;
        }
        ns.check_running()?;
        let conn = make(port);
        if tcp.flows.insert(&conn) {
            return Ok(conn);
        }
    }
    Err(errno(libc::EADDRNOTAVAIL))
}

fn endpoint(end: End) -> IpEndpoint {
    (end.addr.ip(), end.port).into()
}
