//! `libnapier_sockets.so`, the fast door: bytes that a program writes to a connection of the engine go into memory that both have, without a system
//! call, as long as the engine is awake. It links nothing of Napier, and is compiled by `build.rs`.
//!
//! ```text
//! write, writev, send, sendto, sendmsg --> the ring of the connection (outbox.rs), if the engine is awake and the pair is empty
//!                                     \--> else the kernel's own call on the pair, counted
//! sendfile, splice, sendmmsg, pwritev2 --> the pair, counted
//! shutdown -----------------------------> the pair from then on
//! fork, dup, SCM_RIGHTS, fdopen, dprintf, syscall, posix_spawn: the connection goes on by its pair for good, and the engine is told why
//!
//! socket(SOCK_DGRAM) ------------------> a pair whose messages have heads (record.rs): put on by what sends, taken off by what receives
//! ```
//!
//! What the program reads from connections, and all that it waits for, is the kernel's own. The pair carries what comes, so epoll, poll and select say what is.
//!
//! A panic ends the fast door of the process and nothing else.

mod abi;
mod connections;
mod control;
mod datagram_io;
mod datagrams;
mod memory;
mod numbers;
#[allow(dead_code, unreachable_pub, reason = "it is a part of `ring` too, and the engine has the other side of it")]
mod outbox;
mod parts;
mod passes;
mod prints;
mod raw;
mod reads;
#[allow(dead_code, unreachable_pub, reason = "it is a part of `ring` too, and the engine has the other side of it")]
mod record;
mod sync;
mod writes;

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use connections::WhyLeft;

/// Does something of the library's own; a panic is the end of the fast door.
fn guarded<R>(default: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        memory::SharedMemory::give_up();
        default
    })
}

fn note(fd: c_int) {
    let before = abi::errno();
    guarded((), || connections::note(fd));
    abi::set_errno(before);
}

fn forget(fd: c_int, why: Option<WhyLeft>) {
    if connections::is_noted(fd) {
        guarded((), || connections::forget(fd, why));
    }
}
