//! What transmit paths ask of the engine.

use std::sync::Arc;

use napier_core::time::Instant;

use crate::deliver::Deliver;
use crate::napi::Context;
use crate::threads::ThreadRole;
use crate::tx::{PerThread, TxHost, TxPath};
use napier_stack::NetNs;
use napier_sys::sched::pin_current_thread;

impl TxHost for Deliver {
    fn device_queues(&self, index: u32) -> &[Arc<TxPath>] {
        &self.napi_at(index).device.tx
    }

    fn netns(&self, index: u32) -> &NetNs {
        &self.napi_at(index).device.netns
    }

    fn watchdog_armed(&self, cpu: u32, at: Instant) {
        self.softirq[cpu as usize].watchdog_armed(Context::current(), at);
    }

    fn raise_tx(&self, index: u32, by_caller: bool) {
        let cx = Context::current();
        self.softirq.of(cx, self.napi_at(index)).raise_tx(cx, self, index, by_caller);
    }

    fn thread_begins(&self, name: &str, cpu: Option<usize>) {
        match cpu {
            Some(cpu) => pin_current_thread(cpu),
            None => self.unpin_thread(),
        }
        PerThread::begin_duty(&self.threads, ThreadRole::Program { name: name.to_owned() });
    }

    fn thread_ends(&self) {
        PerThread::end_duty(&self.threads);
    }

    fn unless_closing(&self, act: &mut dyn FnMut()) -> bool {
        let _control = self.control();
        if self.is_closing() {
            return false;
        }
        act();
        true
    }
}
