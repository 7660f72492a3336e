//! Scenarios back to files. Everything is written, defaults too.

mod call;
mod group;
mod transmit;

use std::fmt::{Display, Write};

use super::duration;
use super::step::bit_names;
use crate::{
    Action, Check, CpuIx, Device, Expect, Expected, KernelPart, Machine, NapiIx, Packets, Pattern, Range, Scenario,
    SocketIx, Step, Target,
};
use napier_core::time::Span;

impl Scenario {
    /// The scenario as a file that [`Scenario::parse`] reads as the same, but for line numbers.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = Out { text: String::new(), machine: &self.machine };
        out.line("title", quote(&self.title));
        out.line("rules", quotes(&self.rules));
        out.machine();
        out.text.push_str("\n[timeline]\nsteps = [\n");
        for step in &self.timeline {
            let step = out.step(step);
            out.item(&step);
        }
        out.text.push_str("]\n");
        out.expect(&self.expect);
        out.text.push_str("\n[engine]\n");
        out.line("run", self.engine.not_runnable.is_none());
        if let Some(why) = &self.engine.not_runnable {
            out.line("why", quote(why));
        }
        if let Some(kinds) = &self.engine.watch {
            out.line("watch", quotes(&kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>()));
        }
        out.kernel(&self.kernel);
        out.text
    }
}

/// Keys and values of an inline table.
#[derive(Default)]
struct Fields(Vec<String>);

impl Fields {
    fn add(&mut self, key: &str, value: impl Display) {
        self.0.push(format!("{key} = {value}"));
    }

    fn add_if<T>(&mut self, key: &str, value: Option<T>, write: impl Fn(T) -> String) {
        if let Some(value) = value {
            self.add(key, write(value));
        }
    }
}

struct Out<'m> {
    text: String,
    machine: &'m Machine,
}

impl Out<'_> {
    fn line(&mut self, key: &str, value: impl Display) {
        writeln!(self.text, "{key} = {value}").expect("a string takes everything");
    }

    fn item(&mut self, fields: &Fields) {
        writeln!(self.text, "  {{ {} }},", fields.0.join(", ")).expect("a string takes everything");
    }

    fn machine(&mut self) {
        let machine = self.machine;
        self.text.push_str("\n[machine]\n");
        self.line("cpus", machine.cpus);
        self.line("threads-per-core", machine.topology.threads_per_core);
        self.line("nodes", machine.topology.nodes);
        self.line("hz", machine.hz);
        self.line("seed", machine.seed);
        self.line("jitter", machine.jitter);
        self.line("late-interrupts", machine.late_interrupts);
        self.text.push_str("\n[machine.sysctl]\n");
        self.line("netdev_budget", machine.sysctl.netdev_budget);
        self.line("netdev_budget_usecs", machine.sysctl.netdev_budget_usecs);
        self.line("busy_read", machine.sysctl.busy_read);
        self.line("busy_poll", machine.sysctl.busy_poll);
        self.line("gro_normal_batch", machine.sysctl.gro_normal_batch);
        self.line("dev_weight", machine.sysctl.dev_weight);
        self.line("qdisc_max_burst", machine.sysctl.qdisc_max_burst);
        self.text.push_str("\n[machine.costs]\n");
        self.line("op", span(machine.costs.op));
        self.line("poll", span(machine.costs.poll));
        self.line("packet", span(machine.costs.packet));
        self.line("irq", span(machine.costs.irq));
        self.line("syscall", span(machine.costs.syscall));
        self.line("wake", span(machine.costs.wake));
        self.line("switch", span(machine.costs.switch));
        machine.devices.iter().for_each(|device| self.device(device));
        for thread in &machine.threads {
            self.text.push_str("\n[[thread]]\n");
            self.line("name", quote(&thread.name));
            self.line("cpu", thread.cpu.0);
            self.line("policy", quote(thread.policy.name()));
            self.line("cap-net-admin", thread.cap_net_admin);
        }
        for socket in &machine.sockets {
            self.text.push_str("\n[[socket]]\n");
            self.line("name", quote(&socket.name));
            self.line("kind", quote(socket.kind.name()));
            self.line("queue-of", self.napi(socket.napi));
            self.line("connected", socket.connected);
            self.line("depth", socket.queue);
            self.line("open", socket.open);
            self.line("primed", socket.primed);
            self.line("SO_BUSY_POLL", socket.busy.busy_poll_usecs);
            self.line("SO_PREFER_BUSY_POLL", u8::from(socket.busy.prefer));
            self.line("SO_BUSY_POLL_BUDGET", socket.busy.budget);
            self.line("IP_RECVERR", u8::from(socket.recverr));
        }
        for epoll in &machine.epolls {
            self.text.push_str("\n[[epoll]]\n");
            self.line("name", quote(&epoll.name));
            self.line("busy_poll_usecs", epoll.params.busy_poll_usecs);
            self.line("busy_poll_budget", epoll.params.busy_poll_budget);
            self.line("prefer_busy_poll", u8::from(epoll.params.prefer_busy_poll));
            self.line("members", self.sockets(&epoll.members));
        }
        machine.groups.iter().for_each(|group| self.group(group));
    }

    fn device(&mut self, device: &Device) {
        self.text.push_str("\n[[device]]\n");
        self.line("name", quote(&device.name));
        self.line("queues", device.queues);
        self.line("ring", device.ring);
        self.line("irq-cpu", cpus(&device.irq_cpu));
        self.line("thread-cpu", cpus(&device.thread_cpu));
        self.line("thread-policy", quote(device.thread_policy.name()));
        self.line("persistent", device.persistent);
        self.line("no-busy-poll", device.no_busy_poll);
        self.line("up", device.up);
        self.line("defer-hard-irqs", device.tunables.defer_hard_irqs);
        self.line("gro-flush-timeout", span(device.tunables.gro_flush_timeout));
        self.line("irq-suspend-timeout", span(device.tunables.irq_suspend_timeout));
        self.line("threaded", quote(device.threaded.name()));
        self.line("rx-usecs", device.rx_usecs);
        self.line("rx-frames", device.rx_frames);
        self.line("gro", device.gro);
        self.line("weight", device.weight);
        self.transmit(device);
    }

    fn step(&self, step: &Step) -> Fields {
        let mut to = Fields::default();
        to.add("at", quote(&duration::format(step.at.ns)));
        match &step.action {
            Action::Packets(packets) => self.packets(packets, &mut to),
            Action::Interrupt { napi } => to.add("interrupt", self.napi(*napi)),
            Action::Schedule { napi, cpu } => {
                to.add("schedule", self.napi(*napi));
                to.add("cpu", cpu.0);
            }
            Action::Arm { napi, after, cpu } => {
                to.add("arm", self.napi(*napi));
                to.add("after", span(*after));
                to.add("cpu", cpu.0);
            }
            Action::Stall { thread, span: length } => {
                to.add("stall", quote(&self.machine.threads[thread.at()].name));
                to.add("for", span(*length));
            }
            Action::Hog { cpu, span: length, policy } => {
                to.add("hog", cpu.0);
                to.add("for", span(*length));
                to.add("policy", quote(policy.name()));
            }
            Action::FailThread { nth } => to.add("fail-thread", nth),
            Action::Driver { napi, quirk } => {
                to.add("driver", self.napi(*napi));
                to.add("quirk", quote(quirk.name()));
            }
            Action::Check(check) => self.check(check, &mut to),
            Action::CheckTx(check) => self.check_tx(check, &mut to),
            Action::CheckGroup(check) => self.check_group(check, &mut to),
            Action::StopCpu { cpu, span: length } => {
                to.add("stop-cpu", cpu.0);
                to.add("for", span(*length));
            }
            Action::Tx { txq, deed } => self.deed(*txq, *deed, &mut to),
            Action::Call { thread, call } => {
                to.add("by", quote(&self.machine.threads[thread.at()].name));
                to.add("call", quote(call.name()));
                self.call(call, &mut to);
            }
        }
        to
    }

    fn packets(&self, packets: &Packets, to: &mut Fields) {
        to.add("packets", packets.count);
        let target = match packets.to {
            Target::Socket(socket) => self.socket(socket),
            Target::Napi(napi) => self.napi(napi),
        };
        to.add("to", target);
        to.add("every", span(packets.every));
        to.add("flow", packets.flow);
        to.add("own-flow", packets.own_flow);
        to.add_if("hash", packets.hash, |hash| hash.to_string());
        to.add("mergeable", packets.mergeable);
        to.add("rss", packets.rss);
        to.add("loopback", packets.loopback);
        to.add_if("syn", packets.syn, |socket| self.socket(socket));
    }

    /// Of a check about several things, as no file has it, only the first is written.
    fn check(&self, check: &Check, to: &mut Fields) {
        let napi_or_none = |napi: Option<NapiIx>| napi.map_or_else(|| quote("none"), |napi| self.napi(napi));
        if let Some(napi) = check.napi {
            to.add("check", self.napi(napi));
            for (key, bits) in [("set", check.set), ("clear", check.clear)] {
                if bits.bits() != 0 {
                    to.add(key, quotes(&bit_names(bits)));
                }
            }
            to.add_if("defers-left", check.defers_left, |n| n.to_string());
            to.add_if("masked", check.masked, |flag| flag.to_string());
            to.add_if("armed", check.armed, |flag| flag.to_string());
            to.add_if("listed", check.listed, |flag| flag.to_string());
            to.add_if("thread", check.thread, |flag| flag.to_string());
            to.add_if("pending", check.pending, |n| n.to_string());
            to.add_if("held", check.held, |n| n.to_string());
        } else if let Some(socket) = check.socket {
            to.add("check", self.socket(socket));
            to.add_if("queued", check.queued, |n| n.to_string());
            to.add_if("recorded", check.recorded, napi_or_none);
        } else if let Some(epoll) = check.epoll {
            to.add("check", quote(&self.machine.epolls[epoll.at()].name));
            to.add_if("slot", check.slot, napi_or_none);
        }
    }

    fn expect(&mut self, expect: &Expect) {
        self.text.push_str("\n[expect]\n");
        self.line("watch", quotes(&expect.watch.iter().map(|kind| kind.name()).collect::<Vec<_>>()));
        let (sim, engine) = (span(expect.tolerance.sim), span(expect.tolerance.engine));
        self.line("tolerance", format_args!("{{ sim = {sim}, engine = {engine} }}"));
        self.line("drains", expect.drains);
        self.line("settle", span(expect.settle));
        self.text.push_str("events = [\n");
        for expected in &expect.events {
            self.item(&event(expected));
        }
        self.text.push_str("]\n\n[expect.counters]\n");
        for (name, value) in &expect.counters {
            self.line(&quote(name), range(*value));
        }
    }

    fn kernel(&mut self, kernel: &KernelPart) {
        self.text.push_str("\n[kernel]\n");
        self.line("run", kernel.not_runnable.is_none());
        if let Some(why) = &kernel.not_runnable {
            self.line("why", quote(why));
        }
        if let Some(kinds) = &kernel.watch {
            self.line("watch", quotes(&kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>()));
        }
        if let Some(since) = kernel.since {
            self.line("since", quote(&since.to_string()));
        }
        self.line("tolerance", kernel.tolerance.map_or_else(|| quote("order"), span));
    }

    fn napi(&self, napi: NapiIx) -> String {
        quote(&self.machine.napi_name(napi))
    }

    fn socket(&self, socket: SocketIx) -> String {
        quote(&self.machine.sockets[socket.at()].name)
    }

    fn sockets(&self, sockets: &[SocketIx]) -> String {
        quotes(&sockets.iter().map(|socket| &self.machine.sockets[socket.at()].name).collect::<Vec<_>>())
    }
}

fn event(expected: &Expected) -> Fields {
    let mut to = Fields::default();
    to.add_if("at", expected.at, |at| quote(&duration::format(at.ns)));
    to.add_if("within", expected.within, span);
    for (position, (name, pattern)) in expected.fields.iter().enumerate() {
        // The first field is what the event is about; its key is the kind.
        let key = if position == 0 { expected.kind.name() } else { name.as_str() };
        match pattern {
            // Truth values are bare, except that a call can have returned the text.
            Pattern::Text(text) if key != "value" && (text == "true" || text == "false") => to.add(key, text),
            _ => to.add(key, value(pattern)),
        }
    }
    if expected.repeat != Range::exactly(1) {
        to.add("repeat", range(expected.repeat));
    }
    to
}

fn value(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Number(numbers) => range(*numbers),
        Pattern::Text(text) => quote(text),
        Pattern::Span(length) => span(*length),
        Pattern::Names(names) => quotes(names),
        Pattern::Attributes(attributes) => {
            let each = attributes.iter().map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

fn range(range: Range) -> String {
    if range.min == range.max { range.min.to_string() } else { format!("[{}, {}]", range.min, range.max) }
}

fn span(span: Span) -> String {
    quote(&duration::format(span.ns))
}

fn until(timeout: Option<Span>) -> String {
    timeout.map_or_else(|| quote("forever"), span)
}

fn cpus(cpus: &[CpuIx]) -> String {
    format!("[{}]", cpus.iter().map(|cpu| cpu.0.to_string()).collect::<Vec<_>>().join(", "))
}

fn quotes(texts: &[impl AsRef<str>]) -> String {
    format!("[{}]", texts.iter().map(|text| quote(text.as_ref())).collect::<Vec<_>>().join(", "))
}

/// A TOML string.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => write!(quoted, "\\u{:04X}", u32::from(c)).expect("a string takes everything"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
