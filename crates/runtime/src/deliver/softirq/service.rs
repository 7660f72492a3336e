//! What services of kinds of devices ask of the engine.

use std::io;
use std::thread::JoinHandle;

use crate::deliver::Deliver;
use crate::napi::Context;
use crate::port::ServiceHost;
use crate::threads::ThreadRole;
use crate::tx::PerThread;

impl ServiceHost for Deliver {
    fn spawn(&self, name: &str, role: ThreadRole, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        let deliver = self.this().upgrade().expect("the caller has it");
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            deliver.unpin_thread();
            Context::begin_duty();
            PerThread::begin_duty(&deliver.threads, role);
            work();
            PerThread::end_duty(&deliver.threads);
        })
    }

    fn has_fifo(&self) -> bool {
        self.softirq.iter().any(|cpu| cpu.stats().fifo)
    }
}
