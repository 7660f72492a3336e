//! `[machine]`, `[[device]]`, `[[thread]]`, `[[socket]]`, `[[epoll]]`.

use napier_core::completion::Tunables;
use napier_core::control::{DEFER_HARD_IRQS_MAX, ThreadedSetting};
use napier_core::event::EpollParams;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;

use super::ParseError;
use super::common::{CTL, SYSCTLS, policy};
use super::lookup::{Names, new_name};
use super::node::{Node, Table};
use super::transmit;
use crate::{
    Costs, CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Sysctl, Thread, Topology,
};

type Result<T> = std::result::Result<T, ParseError>;

const CPUS_MAX: i128 = 64;
const QUEUES_MAX: i128 = 64;
const DEVICES_MAX: usize = 64;
const THREADS_MAX: usize = 256;
const SOCKETS_MAX: usize = 4096;
const EPOLLS_MAX: usize = 256;
const HZ_MAX: i128 = 10_000;
const RING_MAX: i128 = 65_536;
const SOCKET_QUEUE_MAX: i128 = 1 << 20;
/// The most that the kernel's `int` options hold.
const INT_MAX: i128 = i32::MAX as i128;

pub(super) fn read(whole: &Table<'_>) -> Result<Machine> {
    let mut machine = machine(whole)?;
    for node in whole.list("device", DEVICES_MAX, "[[device]] tables")? {
        let device = device(&node, &machine)?;
        machine.devices.push(device);
    }
    if machine.devices.is_empty() {
        machine.devices.push(default_device("eth0".to_owned(), machine.cpus));
    }
    for node in whole.list("thread", THREADS_MAX, "[[thread]] tables")? {
        let thread = thread(&node, &machine)?;
        machine.threads.push(thread);
    }
    if !machine.threads.iter().any(|thread| thread.name == CTL) {
        let cpu = CpuIx(machine.cpus - 1);
        machine.threads.push(Thread { name: CTL.to_owned(), cpu, policy: Policy::Fair, cap_net_admin: true });
    }
    for node in whole.list("socket", SOCKETS_MAX, "[[socket]] tables")? {
        let socket = socket(&node, &machine)?;
        machine.sockets.push(socket);
    }
    for node in whole.list("epoll", EPOLLS_MAX, "[[epoll]] tables")? {
        let epoll = epoll(&node, &machine)?;
        machine.epolls.push(epoll);
    }
    super::group::read(whole, &mut machine)?;
    Ok(machine)
}

fn machine(whole: &Table<'_>) -> Result<Machine> {
    let mut machine = Machine {
        cpus: 1,
        topology: Topology::FLAT,
        hz: 250,
        seed: 1,
        jitter: false,
        late_interrupts: false,
        sysctl: Sysctl::defaults(250),
        costs: Costs::default(),
        devices: Vec::new(),
        threads: Vec::new(),
        sockets: Vec::new(),
        epolls: Vec::new(),
        groups: Vec::new(),
    };
    let Some(node) = whole.get("machine") else { return Ok(machine) };
    let table = node.table("the table [machine]")?;
    let table = table.only(&[
        "cpus",
        "threads-per-core",
        "nodes",
        "hz",
        "seed",
        "jitter",
        "late-interrupts",
        "sysctl",
        "costs",
    ])?;
    machine.cpus = table.number("cpus", 1..=CPUS_MAX, machine.cpus)?;
    machine.topology = Topology {
        threads_per_core: table.number("threads-per-core", 1..=CPUS_MAX, 1)?,
        nodes: table.number("nodes", 1..=CPUS_MAX, 1)?,
    };
    if !machine.topology.fits(machine.cpus) {
        return Err(table.error(
            "cores have equally many CPUs, and nodes equally many cores: take other cpus, threads-per-core or nodes",
        ));
    }
    machine.hz = table.number("hz", 1..=HZ_MAX, machine.hz)?;
    machine.seed = table.number("seed", 0..=i128::from(u64::MAX), machine.seed)?;
    machine.jitter = table.flag("jitter", machine.jitter)?;
    machine.late_interrupts = table.flag("late-interrupts", machine.late_interrupts)?;
    machine.sysctl = Sysctl::defaults(machine.hz);
    if let Some(node) = table.get("sysctl") {
        sysctl(&node, &mut machine.sysctl)?;
    }
    if let Some(node) = table.get("costs") {
        costs(&node, &mut machine.costs)?;
    }
    Ok(machine)
}

fn sysctl(node: &Node<'_>, to: &mut Sysctl) -> Result<()> {
    let table = node.table("the table [machine.sysctl]")?.only(SYSCTLS)?;
    to.netdev_budget = table.number("netdev_budget", i128::from(i32::MIN)..=INT_MAX, to.netdev_budget)?;
    to.netdev_budget_usecs = table.number("netdev_budget_usecs", 0..=INT_MAX, to.netdev_budget_usecs)?;
    to.busy_read = table.number("busy_read", 0..=INT_MAX, to.busy_read)?;
    to.busy_poll = table.number("busy_poll", 0..=INT_MAX, to.busy_poll)?;
    to.gro_normal_batch = table.number("gro_normal_batch", 1..=INT_MAX, to.gro_normal_batch)?;
    to.dev_weight = table.number("dev_weight", 1..=INT_MAX, to.dev_weight)?;
    to.qdisc_max_burst = table.number("qdisc_max_burst", i128::from(i32::MIN)..=INT_MAX, to.qdisc_max_burst)?;
    Ok(())
}

fn costs(node: &Node<'_>, to: &mut Costs) -> Result<()> {
    let table = node.table("the table [machine.costs]")?;
    let table = table.only(&["op", "poll", "packet", "irq", "syscall", "wake", "switch"])?;
    to.op = table.short_span("op", to.op)?;
    to.poll = table.short_span("poll", to.poll)?;
    to.packet = table.short_span("packet", to.packet)?;
    to.irq = table.short_span("irq", to.irq)?;
    to.syscall = table.short_span("syscall", to.syscall)?;
    to.wake = table.short_span("wake", to.wake)?;
    to.switch = table.short_span("switch", to.switch)?;
    match table.get("poll") {
        Some(node) if to.poll.is_zero() => Err(node.wrong("at least \"1ns\": polls that take no time never end")),
        _ => Ok(()),
    }
}

fn default_device(name: String, cpus: u16) -> Device {
    let each_cpu: Vec<_> = (0..cpus).map(CpuIx).collect();
    Device {
        name,
        queues: 1,
        ring: 256,
        irq_cpu: each_cpu.clone(),
        thread_cpu: each_cpu,
        thread_policy: Policy::Fair,
        persistent: true,
        no_busy_poll: false,
        up: true,
        tunables: Tunables { defer_hard_irqs: 0, gro_flush_timeout: Span::ZERO, irq_suspend_timeout: Span::ZERO },
        threaded: ThreadedSetting::Disabled,
        rx_usecs: 0,
        rx_frames: 0,
        gro: false,
        weight: 64,
        transmit: None,
    }
}

fn device(node: &Node<'_>, machine: &Machine) -> Result<Device> {
    let table = node.table("a table [[device]]")?.only(&[
        "name",
        "queues",
        "ring",
        "irq-cpu",
        "thread-cpu",
        "thread-policy",
        "persistent",
        "no-busy-poll",
        "up",
        "defer-hard-irqs",
        "gro-flush-timeout",
        "irq-suspend-timeout",
        "threaded",
        "rx-usecs",
        "rx-frames",
        "gro",
        "weight",
        "qdisc",
        "qdisc-options",
        "tx-queues",
        "mq",
        "tx-ring",
        "bql",
        "tx-time",
        "lower",
    ])?;
    let names = Names(machine);
    let name = new_name(&table.need("name")?, &names.devices())?;
    let mut to = default_device(name, machine.cpus);
    to.queues = table.number("queues", 1..=QUEUES_MAX, to.queues)?;
    to.ring = table.number("ring", 1..=RING_MAX, to.ring)?;
    to.irq_cpu = table.map("irq-cpu", |node| cpus(node, names))?.unwrap_or(to.irq_cpu);
    to.thread_cpu = table.map("thread-cpu", |node| cpus(node, names))?.unwrap_or_else(|| to.irq_cpu.clone());
    to.thread_policy = table.map("thread-policy", policy)?.unwrap_or(to.thread_policy);
    to.persistent = table.flag("persistent", to.persistent)?;
    to.no_busy_poll = table.flag("no-busy-poll", to.no_busy_poll)?;
    to.up = table.flag("up", to.up)?;
    to.tunables.defer_hard_irqs = table.number("defer-hard-irqs", 0..=i128::from(DEFER_HARD_IRQS_MAX), 0)?;
    to.tunables.gro_flush_timeout = table.span("gro-flush-timeout", Span::ZERO)?;
    to.tunables.irq_suspend_timeout = table.span("irq-suspend-timeout", Span::ZERO)?;
    to.threaded = table.map("threaded", threaded)?.unwrap_or(to.threaded);
    to.rx_usecs = table.number("rx-usecs", 0..=INT_MAX, to.rx_usecs)?;
    to.rx_frames = table.number("rx-frames", 0..=INT_MAX, to.rx_frames)?;
    if let Some(node) = table.get("rx-frames").filter(|_| to.rx_usecs == 0 && to.rx_frames > 1) {
        return Err(node.wrong("0 or 1 while rx-usecs is 0: more frames without a time would wait for ever"));
    }
    to.gro = table.flag("gro", to.gro)?;
    to.weight = table.number("weight", 1..=RING_MAX, to.weight)?;
    to.transmit = transmit::device(&table, &to.name, names)?;
    Ok(to)
}

fn cpus(node: &Node<'_>, names: Names<'_>) -> Result<Vec<CpuIx>> {
    let list = node.list("an array of CPU numbers such as [0, 1]")?;
    if list.is_empty() || list.len() > usize::from(u16::MAX) {
        return Err(node.wrong("at least one CPU number"));
    }
    list.iter().map(|node| names.cpu(node)).collect()
}

fn threaded(node: &Node<'_>) -> Result<ThreadedSetting> {
    // The pool of workers is the engine's own and has no place in a scenario.
    node.word(
        |word| ThreadedSetting::from_name(word).filter(|setting| setting.number().is_some()),
        &["disabled", "enabled", "busy-poll"],
    )
}

fn thread(node: &Node<'_>, machine: &Machine) -> Result<Thread> {
    let table = node.table("a table [[thread]]")?.only(&["name", "cpu", "policy", "cap-net-admin"])?;
    let names = Names(machine);
    let name = new_name(&table.need("name")?, &names.threads())?;
    let default = if name == CTL { CpuIx(machine.cpus - 1) } else { CpuIx(0) };
    Ok(Thread {
        name,
        cpu: table.map("cpu", |node| names.cpu(node))?.unwrap_or(default),
        policy: table.map("policy", policy)?.unwrap_or(Policy::Fair),
        cap_net_admin: table.flag("cap-net-admin", true)?,
    })
}

fn socket(node: &Node<'_>, machine: &Machine) -> Result<Socket> {
    let table = node.table("a table [[socket]]")?.only(&[
        "name",
        "kind",
        "queue-of",
        "connected",
        "depth",
        "open",
        "primed",
        "SO_BUSY_POLL",
        "SO_PREFER_BUSY_POLL",
        "SO_BUSY_POLL_BUDGET",
        "IP_RECVERR",
    ])?;
    let names = Names(machine);
    let name = new_name(&table.need("name")?, &names.sockets())?;
    let find = |node: &Node<'_>| node.word(SocketKind::from_name, &["udp", "tcp", "tcp-listener"]);
    let kind = table.map("kind", find)?.unwrap_or(SocketKind::Udp);
    let connected = table.flag("connected", kind == SocketKind::Tcp)?;
    match (kind, connected, table.get("connected")) {
        (SocketKind::Tcp, false, Some(node)) => return Err(node.error("a tcp socket is always connected")),
        (SocketKind::TcpListener, true, Some(node)) => return Err(node.error("a listener is never connected")),
        _ => {}
    }
    let open = table.flag("open", true)?;
    let primed = table.flag("primed", open)?;
    if let (true, false, Some(node)) = (primed, open, table.get("primed")) {
        return Err(node.error("a socket that is not open at the start has recorded no id yet"));
    }
    let mut busy = SocketBusy::new(machine.sysctl.busy_read);
    busy.busy_poll_usecs = table.number("SO_BUSY_POLL", 0..=INT_MAX, busy.busy_poll_usecs)?;
    busy.prefer = table.map("SO_PREFER_BUSY_POLL", Node::zero_or_one)?.unwrap_or(busy.prefer);
    busy.budget = table.number("SO_BUSY_POLL_BUDGET", 0..=i128::from(u16::MAX), busy.budget)?;
    Ok(Socket {
        name,
        kind,
        connected,
        napi: table.map("queue-of", |node| names.napi(node))?.unwrap_or(NapiIx(0)),
        queue: table.number("depth", 1..=SOCKET_QUEUE_MAX, 1024)?,
        open,
        busy,
        primed,
        recverr: table.map("IP_RECVERR", Node::zero_or_one)?.unwrap_or(false),
    })
}

fn epoll(node: &Node<'_>, machine: &Machine) -> Result<Epoll> {
    let table = node.table("a table [[epoll]]")?.only(&[
        "name",
        "busy_poll_usecs",
        "busy_poll_budget",
        "prefer_busy_poll",
        "members",
    ])?;
    let names = Names(machine);
    let taken = [names.sockets(), names.epolls()].concat();
    let name = new_name(&table.need("name")?, &taken)?;
    let mut members: Vec<SocketIx> = Vec::new();
    for node in table.list("members", SOCKETS_MAX, "an array of sockets")? {
        let member = names.socket(&node)?;
        if members.contains(&member) {
            return Err(node.error("the socket is a member already"));
        }
        if !machine.sockets[member.at()].open {
            return Err(node.error("the socket is not open at the start; add it with a call epoll-add"));
        }
        members.push(member);
    }
    Ok(Epoll {
        name,
        params: EpollParams {
            busy_poll_usecs: table.number("busy_poll_usecs", 0..=INT_MAX, 0)?,
            busy_poll_budget: table.number("busy_poll_budget", 0..=i128::from(u16::MAX), 0)?,
            prefer_busy_poll: table.map("prefer_busy_poll", Node::zero_or_one)?.unwrap_or(false),
        },
        members,
    })
}
