//! The programs at both ends of messages: they read what is there, and answer what is whole.

use napier_core::time::Deadline;

use crate::machine::cpu::work::Work;
use crate::machine::kernel::epoll::epoll_wait;
use crate::machine::peers::bulk::{CLIENT, SERVER};
use crate::machine::peers::link::{SEGMENT_BYTES, chunks};
use crate::machine::vm::K;
use napier_scenario::ThreadIx;

/// Events of one wait of a program at most.
const EVENTS_MAX: usize = 64;

/// A thread of a program: it waits for its flows, reads what is there, and answers what is whole. `thread` is its event context too.
pub(crate) async fn bulk_thread(k: K, end: usize, thread: usize) {
    while k.w().bulk.is_none() {
        k.block(Deadline::NEVER).await;
    }
    loop {
        k.work(Work::Syscall).await;
        let ready = epoll_wait(&k, thread, None, EVENTS_MAX, ThreadIx(thread as u16)).await;
        k.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
        for socket in ready {
            read_flow(&k, end, socket.at()).await;
        }
    }
}

async fn read_flow(k: &K, end: usize, socket: usize) {
    let (flow, is_stored, parts, segments, has_storage) = {
        let mut w = k.w();
        let (mut parts, mut segments) = (0, 0);
        while let Some(more) = w.take_segments(socket) {
            (parts, segments) = (parts + 1, segments + more);
        }
        let streams = w.bulk();
        let flows = streams.flows.len();
        (socket % flows, socket / flows == 2, parts, segments, !streams.storage_ns.is_empty())
    };
    if parts == 0 {
        return;
    }
    if !is_stored {
        let kib = kib_read(k, flow, 1 - end, segments);
        k.works(&[(Work::Syscall, 1), (Work::CopyKib, kib)]).await;
        if !k.w().is_whole(flow, parts) {
            return;
        }
        if end == CLIENT {
            k.w().note_answer(flow);
        }
        k.work(Work::Request).await;
    }
    if end == SERVER && has_storage && !is_stored {
        k.work(Work::Syscall).await;
        k.w().ask_storage(flow);
        return;
    }
    let bytes = k.w().bulk().bytes(flow, end);
    let parts = chunks(bytes).count() as u64;
    let copied = (Work::CopyKib, u64::from(bytes / 1024));
    k.works(&[(Work::Answer, 1), copied, (Work::PacketDown, parts)]).await;
    k.w().send_message(flow, end);
}

/// KiB of so many segments of a message; a message of a few bytes is none.
fn kib_read(k: &K, flow: usize, from: usize, segments: u32) -> u64 {
    let bytes = k.w().bulk().bytes(flow, from);
    u64::from((segments * SEGMENT_BYTES).min(bytes) / 1024)
}
