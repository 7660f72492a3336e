//! The transmit side of a file.

use napier_core::tx::qdisc::{FqConfig, RATE_UNLIMITED};

use super::{Fields, Out, quote, quotes, span};
use crate::parse::duration;
use crate::parse::transmit::bit_names;
use crate::{Device, QdiscSpec, Sending, TxCheck, TxDeed, TxqIx};

impl Out<'_> {
    pub(super) fn transmit(&mut self, device: &Device) {
        let Some(transmit) = &device.transmit else {
            self.line("qdisc", quote("none"));
            return;
        };
        self.line("qdisc", quote(transmit.qdisc.name()));
        let mut options = Fields::default();
        match &transmit.qdisc {
            QdiscSpec::Noqueue => {}
            QdiscSpec::Pfifo { limit } | QdiscSpec::Prio { limit } | QdiscSpec::PfifoFast { limit } => {
                options.add("limit", limit);
            }
            QdiscSpec::Fq(config) => fq(config, &mut options),
        }
        if !options.0.is_empty() {
            self.line("qdisc-options", format_args!("{{ {} }}", options.0.join(", ")));
        }
        self.line("tx-queues", transmit.queues);
        self.line("mq", transmit.one_each);
        self.line("tx-ring", transmit.ring);
        match &transmit.bql {
            None => self.line("bql", false),
            Some(limits) => {
                let mut to = Fields::default();
                to.add("limit_min", limits.min_bytes);
                to.add("limit_max", limits.max_bytes);
                to.add("hold_time", span(limits.hold));
                self.line("bql", format_args!("{{ {} }}", to.0.join(", ")));
            }
        }
        self.line("tx-time", span(transmit.wire));
        if let Some(lower) = transmit.lower {
            self.line("lower", self.txq(lower));
        }
    }

    pub(super) fn sending(&self, sending: &Sending, to: &mut Fields) {
        to.add("to", self.txq(sending.to));
        to.add_if("socket", sending.socket, |socket| self.socket(socket));
        to.add("packets", sending.packets);
        to.add("bytes", sending.bytes);
        to.add("flow", sending.flow);
        to.add("own-flow", sending.own_flow);
        to.add("priority", sending.priority);
        to.add_if("txtime", sending.txtime, |at| quote(&duration::format(at.ns)));
        to.add_if("rate", sending.rate, |rate| rate.to_string());
    }

    pub(super) fn deed(&self, txq: TxqIx, deed: TxDeed, to: &mut Fields) {
        to.add(deed.name(), self.txq(txq));
        match deed {
            TxDeed::Stop | TxDeed::Wake | TxDeed::Freeze | TxDeed::Thaw => {}
            TxDeed::Stall(length) => to.add("for", span(length)),
            TxDeed::Busy(packets) => to.add("packets", packets),
        }
    }

    pub(super) fn check_tx(&self, check: &TxCheck, to: &mut Fields) {
        let name = match (check.qdisc, check.txq) {
            (_, Some(txq)) => self.txq(txq),
            (Some(qdisc), None) => quote(&self.machine.qdisc_name(qdisc)),
            (None, None) => return,
        };
        to.add("check", name);
        for (key, qdisc, queue) in [("set", check.set, check.queue_set), ("clear", check.clear, check.queue_clear)] {
            let bits = bit_names(qdisc, queue);
            if !bits.is_empty() {
                to.add(key, quotes(&bits));
            }
        }
        for (key, number) in [
            ("qlen", check.qlen),
            ("backlog", check.backlog_bytes),
            ("deferred", check.deferred),
            ("defer-count", check.defer_count),
            ("requeued", check.requeued),
            ("in-ring", check.in_ring),
            ("limit", check.limit_bytes),
        ] {
            to.add_if(key, number, |n| n.to_string());
        }
        to.add_if("running", check.running, |flag| flag.to_string());
    }

    fn txq(&self, txq: TxqIx) -> String {
        quote(&self.machine.txq_name(txq))
    }
}

fn fq(config: &FqConfig, to: &mut Fields) {
    to.add("limit", config.limit_pkts);
    to.add("flow_limit", config.flow_limit_pkts);
    to.add("quantum", config.quantum_bytes);
    to.add("initial_quantum", config.initial_quantum_bytes);
    to.add("refill_delay", span(config.refill_delay));
    if config.flow_max_rate != RATE_UNLIMITED {
        to.add("maxrate", config.flow_max_rate);
    }
    to.add("low_rate_threshold", config.low_rate_threshold);
    to.add("pacing", config.pacing);
    to.add("horizon", span(config.horizon));
    to.add("horizon_drop", config.horizon_drop);
}
