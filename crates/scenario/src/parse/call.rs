//! Steps that are calls.

use napier_core::control::{DevAttribute, ThreadedSetting};
use napier_core::event::EpollParamsRequest;
use napier_core::sockopt::BusyOption;
use napier_core::time::{Instant, Span};

use super::ParseError;
use super::common::{CTL, SYSCTLS, U32_MAX, at};
use super::lookup::Names;
use super::node::{Node, Table};
use crate::{Action, Call, DeviceIx, NapiRef, SocketIx, SocketKind, ThreadIx};

type Result<T> = std::result::Result<T, ParseError>;

/// Every call, and its keys.
const CALLS: &[(&str, &[&str])] = &[
    ("socket", &["at", "by", "call", "socket"]),
    ("recv", &["at", "by", "call", "socket", "nonblock", "timeout"]),
    ("setsockopt", &["at", "by", "call", "socket", "option", "value", "optlen"]),
    ("getsockopt", &["at", "by", "call", "socket", "option"]),
    ("epoll-add", &["at", "by", "call", "epoll", "socket"]),
    ("epoll-mod", &["at", "by", "call", "epoll", "socket"]),
    ("epoll-del", &["at", "by", "call", "epoll", "socket"]),
    (
        "epoll-set-params",
        &["at", "by", "call", "epoll", "busy_poll_usecs", "busy_poll_budget", "prefer_busy_poll", "pad"],
    ),
    ("epoll-get-params", &["at", "by", "call", "epoll"]),
    ("epoll-wait", &["at", "by", "call", "epoll", "timeout", "maxevents"]),
    ("epoll-close", &["at", "by", "call", "epoll"]),
    ("ioctl", &["at", "by", "call", "on", "number"]),
    ("poll", &["at", "by", "call", "sockets", "timeout"]),
    ("busy-loop", &["at", "by", "call", "napi", "usecs", "prefer", "budget", "rcu"]),
    ("napi-set", &["at", "by", "call", "napi", "id", "attributes"]),
    ("napi-get", &["at", "by", "call", "napi", "id"]),
    ("napi-dump", &["at", "by", "call", "device", "ifindex"]),
    ("queue-get", &["at", "by", "call", "device", "ifindex", "queue", "type"]),
    ("write", &["at", "by", "call", "file", "value"]),
    ("read", &["at", "by", "call", "file"]),
    ("sysctl", &["at", "by", "call", "name", "value"]),
    ("up", &["at", "by", "call", "device"]),
    ("down", &["at", "by", "call", "device"]),
    ("set-queues", &["at", "by", "call", "device", "queues"]),
    ("delete", &["at", "by", "call", "napi"]),
    ("send", super::transmit::SEND_KEYS),
    ("deactivate", &["at", "by", "call", "device"]),
    ("activate", &["at", "by", "call", "device"]),
];

/// The calls of all parts.
fn all() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    CALLS.iter().chain(&super::group::CALLS)
}

pub(super) fn names() -> Vec<&'static str> {
    all().map(|(name, _)| *name).collect()
}

pub(super) fn read(table: Table<'_>, names_known: Names<'_>) -> Result<(Instant, Action)> {
    let keys = table.in_order();
    let (_, node) = keys.iter().find(|(key, _)| *key == "call").expect("the step was told by this key");
    let find = |word: &str| all().find(|(name, _)| *name == word);
    let (name, known) = *node.word(find, &names())?;
    let table = table.only(known)?;
    let thread = match table.get("by") {
        Some(node) => names_known.thread(&node)?,
        None => ctl(names_known),
    };
    let call = call(name, &table, names_known)?;
    assert_eq!(call.name(), name, "the name of a call is the same in both tables");
    Ok((at(&table)?, Action::Call { thread, call }))
}

fn ctl(names: Names<'_>) -> ThreadIx {
    let at = names.threads().iter().position(|name| *name == CTL).expect("there is always a thread ctl");
    ThreadIx(u16::try_from(at).expect("the number of threads is bounded"))
}

fn call(name: &str, table: &Table<'_>, names: Names<'_>) -> Result<Call> {
    match name {
        _ if name.starts_with("group-") => super::group::call(name, table, names).map(Call::Group),
        "socket" | "recv" | "setsockopt" | "getsockopt" => socket_call(name, table, names),
        "send" => super::transmit::sending(table, names).map(Call::Send),
        "ioctl" => Ok(Call::Ioctl {
            on: names.callable(&table.need("on")?)?,
            number: table.need("number")?.number(0..=U32_MAX)?,
        }),
        "poll" => Ok(Call::Poll { sockets: sockets(table, names)?, timeout: timeout(table)? }),
        "busy-loop" => Ok(Call::BusyLoop {
            napi: names.napi(&table.need("napi")?)?,
            usecs: table.map("usecs", |node| node.number(0..=U32_MAX))?,
            prefer: table.flag("prefer", false)?,
            budget: table.number("budget", 0..=i128::from(u16::MAX), 8)?,
            rcu: table.flag("rcu", false)?,
        }),
        _ if name.starts_with("epoll-") => epoll_call(name, table, names),
        _ => control_call(name, table, names),
    }
}

fn socket_call(name: &str, table: &Table<'_>, names: Names<'_>) -> Result<Call> {
    let node = table.need("socket")?;
    let socket = names.socket(&node)?;
    match name {
        "socket" if names.0.sockets[socket.at()].open => {
            Err(node.error("the socket is open at the start; declare it with open = false"))
        }
        "socket" => Ok(Call::Socket { socket }),
        "recv" => {
            if names.0.sockets[socket.at()].kind == SocketKind::TcpListener {
                return Err(
                    node.error("a listener receives no data; receive from the socket that the connection makes")
                );
            }
            let nonblock = table.flag("nonblock", false)?;
            match table.get("timeout") {
                Some(node) if nonblock => Err(node.error("a call that does not block has no timeout; leave one out")),
                _ => Ok(Call::Recv { socket, nonblock, timeout: timeout(table)? }),
            }
        }
        "setsockopt" => Ok(Call::SetSockOpt {
            socket,
            option: option(&table.need("option")?)?,
            value: table.need("value")?.number(i128::from(i32::MIN)..=i128::from(i32::MAX))?,
            optlen: table.number("optlen", 0..=U32_MAX, 4)?,
        }),
        _ => Ok(Call::GetSockOpt { socket, option: option(&table.need("option")?)? }),
    }
}

const OPTIONS: [BusyOption; 4] =
    [BusyOption::BusyPoll, BusyOption::PreferBusyPoll, BusyOption::BusyPollBudget, BusyOption::IncomingNapiId];

/// An option by name or number.
fn option(node: &Node<'_>) -> Result<i32> {
    if node.is_integer() {
        return node.number(i128::from(i32::MIN)..=i128::from(i32::MAX));
    }
    let find = |word: &str| OPTIONS.into_iter().find(|option| option.name() == word).map(|option| option as i32);
    node.word(find, &OPTIONS.map(BusyOption::name))
}

fn epoll_call(name: &str, table: &Table<'_>, names: Names<'_>) -> Result<Call> {
    let epoll = names.epoll(&table.need("epoll")?)?;
    let socket = || names.socket(&table.need("socket")?);
    Ok(match name {
        "epoll-add" => Call::EpollAdd { epoll, socket: socket()? },
        "epoll-mod" => Call::EpollMod { epoll, socket: socket()? },
        "epoll-del" => Call::EpollDel { epoll, socket: socket()? },
        "epoll-set-params" => Call::EpollSetParams {
            epoll,
            params: EpollParamsRequest {
                busy_poll_usecs: table.number("busy_poll_usecs", 0..=U32_MAX, 0)?,
                busy_poll_budget: table.number("busy_poll_budget", 0..=i128::from(u16::MAX), 0)?,
                prefer_busy_poll: table.number("prefer_busy_poll", 0..=i128::from(u8::MAX), 0)?,
                pad: table.number("pad", 0..=i128::from(u8::MAX), 0)?,
            },
        },
        "epoll-get-params" => Call::EpollGetParams { epoll },
        "epoll-wait" => Call::EpollWait {
            epoll,
            timeout: timeout(table)?,
            max_events: table.number("maxevents", i128::from(i32::MIN)..=i128::from(i32::MAX), 8)?,
        },
        _ => Call::EpollClose { epoll },
    })
}

fn control_call(name: &str, table: &Table<'_>, names: Names<'_>) -> Result<Call> {
    let device = || names.device(&table.need("device")?);
    let number = |key| table.map(key, |node| node.number(0..=i128::from(u64::MAX)));
    Ok(match name {
        "napi-set" => Call::NapiSet { napi: napi_ref(table, names)?, attributes: attributes(table)? },
        "napi-get" => Call::NapiGet { napi: napi_ref(table, names)? },
        "napi-dump" => {
            let (device, ifindex) = which_device(table, names)?;
            Call::NapiDump { device, ifindex }
        }
        "queue-get" => {
            let (device, ifindex) = which_device(table, names)?;
            Call::QueueGet { device, ifindex, queue: number("queue")?, kind: table.map("type", queue_type)? }
        }
        "write" => {
            let (device, file) = file(&table.need("file")?, names)?;
            let value = table.need("value")?.text("a string: what is written, as with echo")?.to_owned();
            Call::Write { device, file, value }
        }
        "read" => {
            let (device, file) = file(&table.need("file")?, names)?;
            Call::Read { device, file }
        }
        "sysctl" => Call::Sysctl {
            name: table.need("name")?.word(|word| SYSCTLS.contains(&word).then(|| word.to_owned()), SYSCTLS)?,
            value: table.need("value")?.number(i128::from(i64::MIN)..=i128::from(i64::MAX))?,
        },
        "up" => Call::Up { device: device()? },
        "down" => Call::Down { device: device()? },
        "deactivate" => Call::Deactivate { device: transmits(table, names)? },
        "activate" => Call::Activate { device: transmits(table, names)? },
        "set-queues" => {
            let device = device()?;
            let queues_max = names.0.devices[device.at()].queues;
            Call::SetQueues { device, queues: table.need("queues")?.number(1..=i128::from(queues_max))? }
        }
        "delete" => Call::Delete { napi: names.napi(&table.need("napi")?)? },
        _ => panic!("{name} is in the table of calls and nothing reads it"),
    })
}

/// A device with a discipline.
fn transmits(table: &Table<'_>, names: Names<'_>) -> Result<DeviceIx> {
    let node = table.need("device")?;
    match names.device(&node)? {
        device if names.0.devices[device.at()].transmit.is_some() => Ok(device),
        _ => Err(node.error("the device has no qdisc")),
    }
}

fn sockets(table: &Table<'_>, names: Names<'_>) -> Result<Vec<SocketIx>> {
    table.need("sockets")?.list("an array of sockets")?.iter().map(|node| names.socket(node)).collect()
}

fn timeout(table: &Table<'_>) -> Result<Option<Span>> {
    Ok(table.map("timeout", Node::timeout)?.flatten())
}

fn napi_ref(table: &Table<'_>, names: Names<'_>) -> Result<NapiRef> {
    match (table.get("napi"), table.get("id")) {
        (Some(_), Some(id)) => Err(id.error("both napi and id; leave one out")),
        (Some(napi), None) => names.napi(&napi).map(NapiRef::Napi),
        (None, Some(id)) => id.number(0..=i128::from(u64::MAX)).map(NapiRef::Id),
        (None, None) => Ok(NapiRef::Missing),
    }
}

/// The device, or an interface number; which may both be left out.
fn which_device(table: &Table<'_>, names: Names<'_>) -> Result<(Option<DeviceIx>, Option<u64>)> {
    let device = table.map("device", |node| names.device(node))?;
    let ifindex = table.map("ifindex", |node| node.number(0..=i128::from(u64::MAX)))?;
    match table.get("ifindex") {
        Some(node) if device.is_some() => Err(node.error("both device and ifindex; leave one out")),
        _ => Ok((device, ifindex)),
    }
}

fn queue_type(node: &Node<'_>) -> Result<u64> {
    if node.is_integer() {
        return node.number(0..=i128::from(u64::MAX));
    }
    let find = |word: &str| ["rx", "tx"].into_iter().zip(0..).find(|(name, _)| *name == word).map(|(_, kind)| kind);
    node.word(find, &["rx", "tx"])
}

/// Any name is allowed, since a wrong one has an answer too. A time counts as ns, a threaded setting as its number.
fn attributes(table: &Table<'_>) -> Result<Vec<(String, u64)>> {
    let expected = "a table such as { defer-hard-irqs = 9 }";
    let read = |(name, node): &(&str, Node<'_>)| {
        let value = match (*name, node.is_text()) {
            ("threaded", true) => {
                let find = |word: &str| ThreadedSetting::from_name(word)?.number().map(u64::from);
                node.word(find, &["disabled", "enabled", "busy-poll"])?
            }
            (_, true) => node.span()?.ns,
            (_, false) => node.number(0..=i128::from(u64::MAX))?,
        };
        Ok(((*name).to_owned(), value))
    };
    match table.get("attributes") {
        Some(node) => node.table(expected)?.in_order().iter().map(read).collect(),
        None => Ok(Vec::new()),
    }
}

fn file(node: &Node<'_>, names: Names<'_>) -> Result<(DeviceIx, DevAttribute)> {
    let files = DevAttribute::ALL.map(DevAttribute::file_name);
    let expected = || format!("DEVICE/FILE, where FILE is {}", files.join(", "));
    let (device, file) = node.text(&expected())?.split_once('/').ok_or_else(|| node.wrong(expected()))?;
    let at = names.devices().iter().position(|name| *name == device).ok_or_else(|| node.wrong(expected()))?;
    let file = DevAttribute::ALL.into_iter().find(|known| known.file_name() == file);
    let file = file.ok_or_else(|| node.wrong(expected()))?;
    Ok((DeviceIx(u16::try_from(at).expect("the number of devices is bounded")), file))
}
