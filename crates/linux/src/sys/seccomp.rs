//! System calls of a child, held until its supervisor has answered (`seccomp_unotify(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::keeper::Keeper;

/// The instruction set whose numbers a filter is made of. Source: `include/uapi/linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// `epoll_create`, which only some instruction sets have.
#[cfg(target_arch = "x86_64")]
pub(crate) const EPOLL_CREATE: Option<i32> = Some(libc::SYS_epoll_create as i32);
#[cfg(target_arch = "aarch64")]
pub(crate) const EPOLL_CREATE: Option<i32> = None;
/// `epoll_create1`.
pub(crate) const EPOLL_CREATE1: i32 = libc::SYS_epoll_create1 as i32;
/// `socket`.
pub(crate) const SOCKET: i32 = libc::SYS_socket as i32;
/// `io_uring_register`, of which the enabling of a ring is held alone.
pub(crate) const ENABLE_RINGS: i32 = libc::SYS_io_uring_register as i32;
/// `io_uring_setup`, which is answered with ENOSYS: what a ring is asked for passes no filter.
pub(crate) const MAKE_RING: i32 = libc::SYS_io_uring_setup as i32;
/// Calls on sockets that are answered by another than the kernel. `ioctl` is not among them: `FIONREAD` and `SIOCOUTQ` of a pair of Unix sockets
/// are right as they are.
pub(crate) const OF_SOCKETS: [i32; 12] = [
    SOCKET,
    libc::SYS_bind as i32,
    libc::SYS_listen as i32,
    libc::SYS_accept as i32,
    libc::SYS_accept4 as i32,
    libc::SYS_connect as i32,
    libc::SYS_getsockname as i32,
    libc::SYS_getpeername as i32,
    libc::SYS_getsockopt as i32,
    libc::SYS_setsockopt as i32,
    RECVFROM,
    MAKE_RING,
];
/// `recvfrom`, which is held only if it has room for one byte: how a program looks whether a socket has a connection.
pub(crate) const RECVFROM: i32 = libc::SYS_recvfrom as i32;
/// `sendto`, which is held only if it names an address.
pub(crate) const SENDTO: i32 = libc::SYS_sendto as i32;
/// `IORING_REGISTER_ENABLE_RINGS`, and the same with a ring that the thread has registered (`IORING_REGISTER_USE_REGISTERED_RING`).
/// Source: `include/uapi/linux/io_uring.h`.
const ENABLE: [u32; 2] = [12, 12 | 1 << 31];

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    /// The thread that makes it.
    pub(crate) tid: u32,
    /// Its number.
    pub(crate) number: i32,
    pub(crate) arguments: [u64; 6],
}

/// An instruction: operation, jumps if true and if not, operand.
fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
/// The lower half of the first argument, and of the second.
const DOMAIN_AT: u32 = 16;
const SECOND_AT: u32 = 24;
/// The two halves of the third argument, as below.
const THIRD_AT: [u32; 2] = [32, 36];
/// The two halves of the fifth argument: the lower one first, in both instruction sets.
const FIFTH_AT: [u32; 2] = [48, 52];

/// A filter that holds those calls, `socket` only for IPv4 and IPv6, `io_uring_register` only to enable a ring, `sendto` only with an address that is
/// not null, `recvfrom` only with room for one byte, `epoll_create1` only if it is the program's and not that of the library in it. Another instruction set's calls, and those of x32, pass.
fn filter(calls: &[i32]) -> Vec<libc::sock_filter> {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF};
    let load = |at| instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
    let is = |k, jt, jf| instruction(BPF_JMP | BPF_JEQ | BPF_K, jt, jf, k);
    let answer = |what| instruction(BPF_RET | BPF_K, 0, 0, what);
    let mut program = vec![load(ARCH_AT), is(ARCH, 1, 0), answer(SECCOMP_RET_ALLOW), load(NUMBER_AT)];
    for call in calls {
        let one_of = match *call {
            SOCKET => Some((DOMAIN_AT, [libc::AF_INET, libc::AF_INET6].map(i32::cast_unsigned))),
            ENABLE_RINGS => Some((SECOND_AT, ENABLE)),
            _ => None,
        };
        if *call == MAKE_RING {
            program.push(is(call.cast_unsigned(), 0, 1));
            program.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()));
        } else if let Some((at, [first, second])) = one_of {
            program.push(is(call.cast_unsigned(), 0, 5));
            program.push(load(at));
            program.push(is(first, 1, 0));
            program.push(is(second, 0, 1));
            program.push(answer(SECCOMP_RET_USER_NOTIF));
            program.push(answer(SECCOMP_RET_ALLOW));
        } else if *call == SENDTO {
            let [low, high] = FIFTH_AT;
            program.push(is(call.cast_unsigned(), 0, 6));
            program.push(load(low));
            program.push(is(0, 0, 2));
            program.push(load(high));
            program.push(is(0, 1, 0));
            program.push(answer(SECCOMP_RET_USER_NOTIF));
            program.push(answer(SECCOMP_RET_ALLOW));
        } else if *call == RECVFROM {
            let [low, high] = THIRD_AT;
            program.push(is(call.cast_unsigned(), 0, 6));
            program.push(load(low));
            program.push(is(1, 0, 3));
            program.push(load(high));
            program.push(is(0, 0, 1));
            program.push(answer(SECCOMP_RET_USER_NOTIF));
            program.push(answer(SECCOMP_RET_ALLOW));
        } else if *call == EPOLL_CREATE1 {
            program.push(is(call.cast_unsigned(), 0, 4));
            program.push(load(SECOND_AT));
            program.push(is(napier_preload::marks::OWN_CALL, 1, 0));
            program.push(answer(SECCOMP_RET_USER_NOTIF));
            program.push(answer(SECCOMP_RET_ALLOW));
        } else {
            program.push(is(call.cast_unsigned(), 0, 1));
            program.push(answer(SECCOMP_RET_USER_NOTIF));
        }
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    program
}

/// Starts a command whose calls, and those of all processes that it starts, are held from before its program begins. The keeper has the
/// listener before that, too.
pub(crate) fn spawn(
    command: &mut Command,
    calls: &[i32],
    keeper: Keeper,
) -> io::Result<(std::process::Child, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let program = filter(calls);
    // SAFETY: what runs between fork and exec calls the system only: no allocation, no lock.
    unsafe {
        command.pre_exec(move || {
            let listener = install(&program)?;
            pass(keeper.as_fd(), listener.as_fd())?;
            pass(theirs.as_fd(), listener.as_fd())
        })
    };
    let child = command.spawn()?;
    Ok((child, taken(ours.as_fd(), RecvFlags::DONTWAIT)?))
}

/// Whether a filter needs `PR_SET_NO_NEW_PRIVS`, which takes setuid programs their privilege: without `CAP_SYS_ADMIN`.
fn install(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let set = || {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // SAFETY: `program` names instructions that live through the call, which only reads them.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let mut fd = set();
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        rustix::thread::set_no_new_privs(true)?;
        fd = set();
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Passes a descriptor along.
pub(crate) fn pass(to: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[io::IoSlice::new(b"x")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// A descriptor that was passed.
pub(super) fn taken(from: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<OwnedFd> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [io::IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC | flags)?;
    let mut messages = control.drain();
    let fd = messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Room for a call.
fn room() -> libc::seccomp_notif {
    // SAFETY: all of its fields are numbers.
    unsafe { std::mem::zeroed() }
}

/// The next call, written to `found`; `None` if its thread has ended meanwhile.
pub(crate) fn receive(listener: BorrowedFd<'_>, found: &mut libc::seccomp_notif) -> io::Result<Option<Call>> {
    // The kernel takes no other.
    *found = room();
    // SAFETY: the descriptor is open while it is borrowed; `found` lives through the call, which writes no more than its size.
    let failed = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut *found) };
    if failed < 0 {
        let error = io::Error::last_os_error();
        let gone = [libc::ENOENT, libc::EINTR].contains(&error.raw_os_error().unwrap_or(0));
        return if gone { Ok(None) } else { Err(error) };
    }
    let libc::seccomp_data { nr, args, arch, .. } = found.data;
    // Another program's filter may hold calls of another instruction set, whose numbers mean other calls.
    let number = if arch == ARCH { nr } else { -1 };
    Ok(Some(Call { id: found.id, tid: found.pid, number, arguments: args }))
}

/// Whether the call still waits: its thread is the one that was named then.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, call: &Call) -> bool {
    // SAFETY: the descriptor is open while it is borrowed, and the id lives through the call, which only reads it.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
}

/// Lets a call go on as if it had not been held. It may have been answered, or its thread have ended, which is no error.
pub(crate) fn let_go(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the descriptor is open while it is borrowed, and `answer` lives through the call, which only reads it.
    let failed = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    if failed >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) }
}

/// A socket that belongs to another user and group. Source: `net/core/sock.c sk_set_socket`, `net/socket.c sock_alloc`.
pub(crate) fn socket_as(user: u32, group: u32, domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let be = |user: u32, group: u32| {
        // SAFETY: it changes by whom files of this thread are made, and nothing in memory.
        let group = unsafe { libc::setfsgid(group) };
        // SAFETY: as above.
        (unsafe { libc::setfsuid(user) }.cast_unsigned(), group.cast_unsigned())
    };
    let before = be(user, group);
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(domain, kind, protocol) };
    let error = io::Error::last_os_error();
    be(before.0, before.1);
    if fd < 0 {
        return Err(error);
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a filter says of a call: the few instructions that `filter` makes.
    fn said(program: &[libc::sock_filter], arch: u32, number: i32, arguments: [u64; 6]) -> u32 {
        let word = |at: u32| match at {
            NUMBER_AT => number.cast_unsigned(),
            ARCH_AT => arch,
            at => (arguments[(at as usize - 16) / 8] >> (8 * (at % 8))) as u32,
        };
        let (mut accumulator, mut at) = (0, 0);
        // Jumps lead forwards only.
        loop {
            let one = program[at];
            at += 1;
            match u32::from(one.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => accumulator = word(one.k),
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += usize::from(if accumulator == one.k { one.jt } else { one.jf });
                }
                code if code == libc::BPF_RET | libc::BPF_K => return one.k,
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn a_filter_holds_what_it_should_and_nothing_else() {
        use libc::{SECCOMP_RET_ALLOW as ALLOW, SECCOMP_RET_USER_NOTIF as HELD};
        let with_sends: Vec<i32> = OF_SOCKETS.into_iter().chain([SENDTO]).collect();
        let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
        let at = |address| [3, 0x1000, 8, 0, address, 16];
        let room = |bytes: u64| [3, 0x1000, bytes, 0, 0, 0];
        let domain = |domain: i32| [u64::from(domain.cast_unsigned()), 1, 0, 0, 0, 0];
        // With `sendto` in the list, and without.
        let table = [
            (SENDTO, at(0), ALLOW, ALLOW),
            (SENDTO, at(0x7fff_0000), HELD, ALLOW),
            (SENDTO, at(0x7fff_0000_0000), HELD, ALLOW),
            (SENDTO, at(0x7fff_1234_5678), HELD, ALLOW),
            (RECVFROM, room(1), HELD, HELD),
            (RECVFROM, room(0), ALLOW, ALLOW),
            (RECVFROM, room(2), ALLOW, ALLOW),
            (RECVFROM, room(1 << 32 | 1), ALLOW, ALLOW),
            (RECVFROM, room(65_536), ALLOW, ALLOW),
            (SOCKET, domain(libc::AF_INET), HELD, HELD),
            (SOCKET, domain(libc::AF_INET6), HELD, HELD),
            (SOCKET, domain(libc::AF_UNIX), ALLOW, ALLOW),
            (MAKE_RING, [0; 6], refused, refused),
            (libc::SYS_connect as i32, [0; 6], HELD, HELD),
            (libc::SYS_setsockopt as i32, [0; 6], HELD, HELD),
            (libc::SYS_sendmsg as i32, at(1), ALLOW, ALLOW),
            (libc::SYS_write as i32, at(1), ALLOW, ALLOW),
        ];
        for (number, arguments, with, without) in table {
            let says = |calls: &[i32], arch| said(&filter(calls), arch, number, arguments);
            assert_eq!(says(&with_sends, ARCH), with, "{number} {arguments:x?}");
            assert_eq!(says(&OF_SOCKETS, ARCH), without, "{number} {arguments:x?}");
            assert_eq!(says(&with_sends, ARCH ^ 1), ALLOW, "another instruction set: {number}");
        }
    }
}
