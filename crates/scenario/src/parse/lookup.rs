//! Names to positions.

use super::ParseError;
use super::node::Node;
use super::words::unknown;
use crate::{Callable, CpuIx, DeviceIx, EpollIx, GroupIx, Machine, NapiIx, QdiscIx, SocketIx, ThreadIx, TxqIx};

type Result<T> = std::result::Result<T, ParseError>;

/// Most characters of a name.
const NAME_BYTES_MAX: usize = 32;

/// The names that a file has declared so far.
#[derive(Copy, Clone)]
pub(super) struct Names<'m>(pub(super) &'m Machine);

fn position<T: From<u16>>(names: &[&str], name: &str) -> Option<T> {
    let at = names.iter().position(|known| *known == name)?;
    Some(u16::try_from(at).expect("the number of things in a file is bounded").into())
}

macro_rules! from_u16 {
    ($($name:ident),*) => {$(
        impl From<u16> for $name {
            fn from(position: u16) -> Self {
                Self(position)
            }
        }
    )*};
}
from_u16!(DeviceIx, ThreadIx, SocketIx, EpollIx, QdiscIx, TxqIx, GroupIx);

impl<'m> Names<'m> {
    pub(super) fn devices(self) -> Vec<&'m str> {
        self.0.devices.iter().map(|device| device.name.as_str()).collect()
    }

    pub(super) fn threads(self) -> Vec<&'m str> {
        self.0.threads.iter().map(|thread| thread.name.as_str()).collect()
    }

    pub(super) fn sockets(self) -> Vec<&'m str> {
        self.0.sockets.iter().map(|socket| socket.name.as_str()).collect()
    }

    pub(super) fn epolls(self) -> Vec<&'m str> {
        self.0.epolls.iter().map(|epoll| epoll.name.as_str()).collect()
    }

    pub(super) fn groups(self) -> Vec<&'m str> {
        self.0.groups.iter().map(|group| group.name.as_str()).collect()
    }

    fn napis(self) -> Vec<String> {
        (0..self.0.napis()).map(|napi| self.0.napi_name(NapiIx(napi))).collect()
    }

    pub(super) fn device(self, node: &Node<'_>) -> Result<DeviceIx> {
        find(node, "device", &self.devices())
    }

    pub(super) fn thread(self, node: &Node<'_>) -> Result<ThreadIx> {
        find(node, "thread", &self.threads())
    }

    pub(super) fn socket(self, node: &Node<'_>) -> Result<SocketIx> {
        find(node, "socket", &self.sockets())
    }

    pub(super) fn epoll(self, node: &Node<'_>) -> Result<EpollIx> {
        find(node, "epoll", &self.epolls())
    }

    pub(super) fn group(self, node: &Node<'_>) -> Result<GroupIx> {
        find(node, "group", &self.groups())
    }

    pub(super) fn group_named(self, name: &str) -> Option<GroupIx> {
        position(&self.groups(), name)
    }

    pub(super) fn napi_named(self, name: &str) -> Option<NapiIx> {
        position(&self.napis().iter().map(String::as_str).collect::<Vec<_>>(), name).map(|at: u16| NapiIx(at))
    }

    pub(super) fn napi(self, node: &Node<'_>) -> Result<NapiIx> {
        let name = node.text("an instance, DEVICE/QUEUE")?;
        self.napi_named(name).ok_or_else(|| {
            let napis = self.napis();
            node.error(unknown("instance", name, &napis.iter().map(String::as_str).collect::<Vec<_>>()))
        })
    }

    /// An instance, or `"none"`.
    pub(super) fn napi_or_none(self, node: &Node<'_>) -> Result<Option<NapiIx>> {
        if node.text("an instance, DEVICE/QUEUE, or \"none\"")? == "none" {
            Ok(None)
        } else {
            self.napi(node).map(Some)
        }
    }

    fn txq_names(self) -> Vec<String> {
        (0..).take(self.0.tx_queues().count()).map(|txq| self.0.txq_name(TxqIx(txq))).collect()
    }

    pub(super) fn qdisc_names(self) -> Vec<String> {
        (0..).take(self.0.qdiscs().count()).map(|qdisc| self.0.qdisc_name(QdiscIx(qdisc))).collect()
    }

    /// Transmit queues, and disciplines that serve several.
    pub(super) fn tx_names(self) -> Vec<String> {
        let mut names = self.txq_names();
        names.extend(self.qdisc_names().into_iter().filter(|name| name.ends_with("/tx")));
        names
    }

    pub(super) fn txq_named(self, node: &Node<'_>) -> Result<Option<TxqIx>> {
        let name = node.text("a transmit queue, DEVICE/tx-N")?;
        Ok(position(&strs(&self.txq_names()), name))
    }

    pub(super) fn qdisc_named(self, node: &Node<'_>) -> Result<Option<QdiscIx>> {
        let name = node.text("a discipline, DEVICE/tx-N, or DEVICE/tx with mq = false")?;
        Ok(position(&strs(&self.qdisc_names()), name))
    }

    pub(super) fn txq(self, node: &Node<'_>) -> Result<TxqIx> {
        find(node, "transmit queue", &strs(&self.txq_names()))
    }

    pub(super) fn qdisc(self, node: &Node<'_>) -> Result<QdiscIx> {
        find(node, "discipline", &strs(&self.qdisc_names()))
    }

    /// A socket or an event context.
    pub(super) fn callable(self, node: &Node<'_>) -> Result<Callable> {
        let name = node.text("a socket or epoll")?;
        if let Some(socket) = position(&self.sockets(), name) {
            return Ok(Callable::Socket(socket));
        }
        if let Some(epoll) = position(&self.epolls(), name) {
            return Ok(Callable::Epoll(epoll));
        }
        Err(node.error(unknown("socket or epoll", name, &[self.sockets(), self.epolls()].concat())))
    }

    pub(super) fn cpu(self, node: &Node<'_>) -> Result<CpuIx> {
        node.number(0..=i128::from(self.0.cpus) - 1).map(CpuIx)
    }
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn find<T: From<u16>>(node: &Node<'_>, what: &str, names: &[&str]) -> Result<T> {
    let name = node.text(&format!("the name of a {what}"))?;
    position(names, name).ok_or_else(|| node.error(unknown(what, name, names)))
}

/// A name that is new: letters, digits, `-` and `_`, and not one of those taken.
pub(super) fn new_name(node: &Node<'_>, taken: &[&str]) -> Result<String> {
    let name = node.text("a name")?;
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fine) || name == "none" {
        return Err(
            node.wrong(format_args!("a name of 1 to {NAME_BYTES_MAX} letters, digits, - and _, other than \"none\""))
        );
    }
    if taken.contains(&name) {
        return Err(node.error(format!("the name {name:?} is taken; give each thing a name of its own")));
    }
    Ok(name.to_owned())
}
