//! What a reply does to a run: which request it answers, whether it is right, how long it took.

use std::collections::VecDeque;

use anyhow::bail;

use super::codec::{Reply, read_reply};
use super::plan::{Measured, Plan};
use crate::kv::flight::Sent;
use crate::kv::{FRAME_HEADER_BYTES, value};
use crate::stats::Recorder;

/// A connection and what is out on it.
pub(super) struct Connection<S> {
    pub(super) socket: S,
    pub(super) pending: VecDeque<(u16, Sent)>,
    pub(super) next_id: u16,
    pub(super) inbox: Vec<u8>,
    pub(super) outbox: Vec<u8>,
    pub(super) outbox_at: usize,
}

/// One run in progress.
pub(super) struct Run {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) out: Measured,
}

impl Run {
    pub(super) fn new(from_ns: u64, until_ns: u64) -> Self {
        let out = Measured {
            recorder: Recorder::new(),
            answered: 0,
            sent: 0,
            missing: 0,
            refused: 0,
            wrong: 0,
            lost: 0,
            window_ns: until_ns - from_ns,
        };
        Self { from_ns, until_ns, out }
    }

    pub(super) fn counts(&self, intended_ns: u64) -> bool {
        intended_ns >= self.from_ns && intended_ns < self.until_ns
    }

    pub(super) fn on_datagram<S>(&mut self, connection: &mut Connection<S>, plan: &Plan, datagram: &[u8], now_ns: u64) {
        let Some((header, body)) = datagram.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            self.out.wrong += 1;
            return;
        };
        let id = u16::from_be_bytes([header[0], header[1]]);
        let Some(at) = connection.pending.iter().position(|(other, _)| *other == id) else { return };
        let (_, sent) = connection.pending.remove(at).expect("it was found");
        match read_reply(plan.format, body) {
            Ok(Some((_, reply))) if header[4..6] == [0, 1] => self.on_reply(plan, &sent, &reply, now_ns),
            _ => self.out.wrong += 1,
        }
    }

    /// The replies of a stream come in the order of the requests; returns the bytes used up.
    pub(super) fn on_stream<S>(
        &mut self,
        connection: &mut Connection<S>,
        plan: &Plan,
        input: &[u8],
        now_ns: u64,
    ) -> anyhow::Result<usize> {
        let mut used = 0;
        while let Some((bytes, reply)) = read_reply(plan.format, &input[used..])? {
            let Some((_, sent)) = connection.pending.pop_front() else {
                bail!("the server sent a reply without a request");
            };
            used += bytes;
            self.on_reply(plan, &sent, &reply, now_ns);
        }
        Ok(used)
    }

    fn on_reply(&mut self, plan: &Plan, sent: &Sent, reply: &Reply<'_>, now_ns: u64) {
        match (sent.is_set, reply) {
            (true, Reply::Stored) => {}
            (false, Reply::Missing) => self.out.missing += 1,
            (_, Reply::Refused) => self.out.refused += 1,
            (false, Reply::Value { flags, value }) => {
                let key = plan.profile.key(sent.record);
                let flags = flags.unwrap_or_else(|| value::value_flags(key, value.len()));
                self.out.wrong += u64::from(!value::is_genuine(key, flags, value));
            }
            _ => self.out.wrong += 1,
        }
        if now_ns >= self.from_ns && now_ns < self.until_ns {
            self.out.answered += 1;
        }
        if self.counts(sent.intended_ns) {
            self.out.recorder.record(sent.intended_ns, sent.actual_ns, now_ns);
        }
    }
}
