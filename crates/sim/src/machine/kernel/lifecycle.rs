//! Adding, enabling, disabling and deleting instances, and who polls them: `netif_napi_add`, `napi_enable`,
//! `napi_disable`, `napi_set_threaded`. All under the device lock.

use napier_core::completion::Flush;
use napier_core::control::{Errno, ThreadedSetting, device_threaded_in_force};
use napier_core::state::{DISABLE_PAUSE_MIN, STOP_THREAD_PAUSE, State, StopThread};
use napier_core::time::{Deadline, Span};

use crate::machine::dev::napi::NapiOwner;
use crate::machine::kernel::schedule::device_interrupt;
use crate::machine::kernel::tx::lifecycle::{tx_deactivate, tx_down, tx_up};
use crate::machine::sim::coverage::Decision;
use crate::machine::vm::K;
use napier_scenario::Event;

/// Takes the device lock.
pub(crate) async fn dev_lock(k: &K, dev: usize) {
    loop {
        {
            let mut w = k.w();
            if !std::mem::replace(&mut w.devs[dev].locked, true) {
                return;
            }
            w.devs[dev].lock_waiters.push(k.me);
        }
        k.block(Deadline::NEVER).await;
    }
}

/// Gives it back.
pub(crate) fn dev_unlock(k: &K, dev: usize) {
    let mut w = k.w();
    w.devs[dev].locked = false;
    for ctx in std::mem::take(&mut w.devs[dev].lock_waiters) {
        w.wake(ctx);
    }
}

/// Device up: every queue in use gets its instance, and it is enabled.
pub(crate) async fn dev_up(k: &K, dev: usize) -> Result<(), Errno> {
    if k.w().devs[dev].up {
        return Ok(());
    }
    k.w().devs[dev].up = true;
    let (first, queues) = k.w().queues(dev);
    for napi in first..first + queues {
        napi_add(k, napi).await;
        napi_enable(k, napi).await;
    }
    tx_up(k, dev).await;
    Ok(())
}

/// Device down: every instance is disabled; a driver without persistent configuration deletes it.
pub(crate) async fn dev_down(k: &K, dev: usize) -> Result<(), Errno> {
    if !k.w().devs[dev].up {
        return Ok(());
    }
    k.w().devs[dev].up = false;
    if k.w().transmits(dev) {
        tx_deactivate(k, dev).await;
    }
    let (first, queues) = k.w().queues(dev);
    for napi in first..first + queues {
        if !k.w().napis[napi].present {
            continue;
        }
        napi_disable(k, napi).await;
        k.w().drop_all(napi);
        if !k.w().devs[dev].persistent {
            napi_del(k, napi).await;
        }
    }
    tx_down(k, dev);
    Ok(())
}

/// Changes how many queues are in use.
pub(crate) async fn set_queues(k: &K, dev: usize, queues: u16) -> Result<(), Errno> {
    let (first, before, up, all) = {
        let w = k.w();
        let d = &w.devs[dev];
        (d.first_napi, usize::from(d.queues), d.up, d.all_queues)
    };
    if queues == 0 || queues > all {
        return Err(Errno::EINVAL);
    }
    k.w().devs[dev].queues = queues;
    let after = usize::from(queues);
    for napi in first + after..first + before.max(after) {
        if k.w().napis[napi].present {
            if up {
                napi_disable(k, napi).await;
            }
            k.w().drop_all(napi);
            napi_del(k, napi).await;
        }
    }
    for napi in first + before..first + after.max(before) {
        if up {
            napi_add(k, napi).await;
            napi_enable(k, napi).await;
        }
    }
    k.w().tx_requeued(dev);
    Ok(())
}

/// `netif_napi_add`; nothing if the instance is listed already.
async fn napi_add(k: &K, napi: usize) {
    if k.w().napis[napi].present {
        return;
    }
    let threaded = k.w().add_instance(napi);
    if threaded != ThreadedSetting::Disabled && create_thread(k, napi).is_err() {
        let mut w = k.w();
        let dev = w.napis[napi].dev;
        w.devs[dev].settings.threaded = device_threaded_in_force(threaded, false);
        w.napis[napi].threaded = ThreadedSetting::Disabled;
    }
    k.op().await;
}

/// `napi_enable`.
async fn napi_enable(k: &K, napi: usize) {
    k.w().restore_config(napi);
    // Configuration may ask for a thread that add did not make.
    if k.w().napis[napi].threaded != ThreadedSetting::Disabled && create_thread(k, napi).is_err() {
        k.w().napis[napi].threaded = ThreadedSetting::Disabled;
    }
    k.op().await;
    {
        let mut w = k.w();
        w.napis[napi].id_visible = w.napis[napi].id != 0;
        let threaded = w.napis[napi].threaded.threaded();
        w.transition(napi, |word| (word.enable(threaded).expect("disabled, under the device lock"), ()));
        w.napis[napi].missed_kept = w.napis[napi].word.contains(State::MISSED);
        w.napis[napi].armed_late = false;
        w.disown(napi);
        // As a driver does: the interrupt is unmasked, and what came meanwhile is looked for.
        w.rearm_irq(napi);
        w.napis[napi].finishing += 1;
    }
    k.op().await;
    if !k.w().napis[napi].ring.is_empty() {
        k.bh_off();
        device_interrupt(k, napi).await;
        k.bh_on().await;
    }
    k.w().finished(napi);
}

/// `napi_disable`.
pub(crate) async fn napi_disable(k: &K, napi: usize) {
    k.w().transition(napi, |word| (word.disable_begin(), ()));
    k.op().await;
    loop {
        {
            let mut w = k.w();
            if w.transition_if(napi, State::disable_claim) {
                w.hit(Decision::DisableClaimed);
                w.own(napi, NapiOwner::Disabled);
                break;
            }
            w.hit(Decision::DisableWaits);
        }
        k.pause(DISABLE_PAUSE_MIN).await;
    }
    k.op().await;
    {
        let mut w = k.w();
        w.napis[napi].id_visible = false;
        w.flush(napi, Flush::All);
        w.deliver(napi);
        w.cancel_timer(napi);
        w.napis[napi].masked = true;
    }
    k.op().await;
    while k.w().napis[napi].callbacks > 0 {
        k.pause(Span::from_us(1)).await;
    }
    let mut w = k.w();
    w.save_config(napi);
    w.transition(napi, |word| (word.disable_end(), ()));
}

/// `netif_napi_del` of a disabled instance.
pub(crate) async fn napi_del(k: &K, napi: usize) {
    {
        let mut w = k.w();
        w.drop_all(napi);
        let n = &mut w.napis[napi];
        n.thread_stop = true;
        let kthread = n.kthread;
        w.wake(kthread);
    }
    while k.w().napis[napi].has_thread {
        k.pause(Span::from_us(10)).await;
    }
    let mut w = k.w();
    w.hit(Decision::Deleted);
    let n = &mut w.napis[napi];
    n.present = false;
    n.word = n.word.without(State::LISTED);
    w.touch(napi);
}

/// Makes the instance's thread, if it has none.
pub(crate) fn create_thread(k: &K, napi: usize) -> Result<(), Errno> {
    let mut w = k.w();
    if w.napis[napi].has_thread {
        return Ok(());
    }
    if w.fail_thread_in > 0 {
        w.fail_thread_in -= 1;
        if w.fail_thread_in == 0 {
            w.hit(Decision::ThreadFailed);
            return Err(Errno::ENOMEM);
        }
    }
    w.napis[napi].has_thread = true;
    w.napis[napi].thread_stop = false;
    let index = w.napis[napi].index;
    w.note(Event::KthreadStart { napi: index });
    Ok(())
}

/// `napi_set_threaded`.
pub(crate) async fn napi_set_threaded(k: &K, napi: usize, setting: ThreadedSetting) -> Result<(), Errno> {
    if setting != ThreadedSetting::Disabled {
        create_thread(k, napi)?;
    }
    {
        let mut w = k.w();
        w.napis[napi].threaded = setting;
        let (dev, queue) = (w.napis[napi].dev, w.napis[napi].queue.into());
        w.devs[dev].config.set_threaded(queue, setting);
    }
    k.op().await;
    if setting == ThreadedSetting::Disabled {
        if k.w().napis[napi].has_thread {
            stop_thread(k, napi).await;
        }
        return Ok(());
    }
    let mut w = k.w();
    // A disabled instance takes the mode from its setting when it is enabled.
    if !w.napis[napi].word.is_disabled() {
        w.transition(napi, |word| (word.set_threaded(setting.threaded()), ()));
    }
    Ok(())
}

/// `napi_stop_kthread`.
async fn stop_thread(k: &K, napi: usize) {
    loop {
        let cleared = {
            let mut w = k.w();
            let cleared = w.transition(napi, |word| match word.stop_thread_claim() {
                StopThread::Cleared(next) => (next, true),
                StopThread::Busy => (word, false),
            });
            w.hit(if cleared { Decision::StopThreadCleared } else { Decision::StopThreadBusy });
            cleared
        };
        k.op().await;
        if cleared {
            break;
        }
        k.pause(STOP_THREAD_PAUSE).await;
    }
    while !k.w().napis[napi].word.stop_thread_done() {
        k.pause(STOP_THREAD_PAUSE).await;
    }
    {
        let mut w = k.w();
        w.napis[napi].thread_stop = true;
        let kthread = w.napis[napi].kthread;
        w.wake(kthread);
    }
    while k.w().napis[napi].has_thread {
        k.pause(Span::from_us(10)).await;
    }
}
