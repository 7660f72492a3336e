//! The thread of an instance: `napi_threaded_poll`.

use napier_core::completion::Flush;
use napier_core::state::State;
use napier_core::time::Deadline;

use crate::machine::kernel::poll::poll_once;
use crate::machine::sim::coverage::Decision;
use crate::machine::vm::K;
use napier_scenario::PollContext;

/// The thread's code; it exists as long as the machine, and does nothing while the instance has no thread.
pub(crate) async fn kthread_main(k: K, napi: usize) {
    loop {
        let (entitled, stop) = {
            let w = k.w();
            (w.napis[napi].word.contains(State::SCHED_THREADED), w.napis[napi].thread_stop)
        };
        if entitled {
            threaded_turns(&k, napi).await;
            let mut w = k.w();
            if !w.napis[napi].word.contains(State::SCHED_THREADED) {
                w.give_worker(k.me);
            }
        } else {
            if stop {
                k.w().thread_ended(napi);
            }
            k.block(Deadline::NEVER).await;
        }
    }
}

async fn threaded_turns(k: &K, napi: usize) {
    loop {
        k.bh_off();
        let busy = k.w().transition(napi, State::thread_turn);
        k.w().hit(if busy { Decision::ThreadBusyTurn } else { Decision::ThreadTurn });
        k.op().await;
        let context = if busy { PollContext::KthreadBusy } else { PollContext::Kthread };
        let polled = poll_once(k, napi, context).await;
        if busy {
            let mut w = k.w();
            let flush = Flush::for_hz(w.hz);
            w.flush(napi, flush);
            w.deliver(napi);
        }
        k.bh_on().await;
        if !busy && !polled.repoll {
            return;
        }
        k.cond_resched().await;
    }
}
