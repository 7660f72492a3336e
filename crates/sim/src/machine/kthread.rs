//! The thread of an instance: `napi_threaded_poll`.

use napier_core::completion::Flush;
use napier_core::state::State;
use napier_core::time::Deadline;

use super::coverage::Decision;
use super::vm::K;
use napier_scenario::PollContext;

impl K {
    /// The thread's code; it exists as long as the machine, and does nothing while the instance has no thread.
    pub(super) async fn kthread_main(self, napi: usize) {
        loop {
            let (entitled, stop) = {
                let w = self.w();
                (w.napis[napi].word.contains(State::SCHED_THREADED), w.napis[napi].thread_stop)
            };
            if entitled {
                self.threaded_turns(napi).await;
                let mut w = self.w();
                if !w.napis[napi].word.contains(State::SCHED_THREADED) {
                    w.give_worker(self.me);
                }
            } else {
                if stop {
                    self.w().thread_ended(napi);
                }
                self.block(Deadline::NEVER).await;
            }
        }
    }

    async fn threaded_turns(&self, napi: usize) {
        loop {
            self.bh_off();
            let busy = self.w().transition(napi, State::thread_turn);
            self.w().hit(if busy { Decision::ThreadBusyTurn } else { Decision::ThreadTurn });
            self.op().await;
            let context = if busy { PollContext::KthreadBusy } else { PollContext::Kthread };
            let polled = self.poll_once(napi, context).await;
            if busy {
                let mut w = self.w();
                let flush = Flush::for_hz(w.hz);
                w.flush(napi, flush);
                w.deliver(napi);
            }
            self.bh_on().await;
            if !busy && !polled.repoll {
                return;
            }
            self.cond_resched().await;
        }
    }
}
