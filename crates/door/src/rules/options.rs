//! Options of a program's socket: who has which, and what was set. Source of numbers and values: `include/uapi/asm-generic/socket.h`,
//! `include/uapi/linux/tcp.h`, `net/core/sock.c` `sk_setsockopt`, `net/ipv4/tcp.c` `do_tcp_setsockopt`.

use std::borrow::Cow;
use std::time::Duration;

use super::datagrams::{UDP_GRO, UDP_SEGMENT};

/// Options that are remembered for a socket; more are refused with `ENOBUFS`.
const SET_MAX: usize = 32;
/// Longest value that is remembered, in bytes.
const VALUE_BYTES_MAX: usize = 16;
/// Defaults of keep-alive. Source: `include/net/tcp.h TCP_KEEPALIVE_TIME`, `TCP_KEEPALIVE_INTVL`, `TCP_KEEPALIVE_PROBES`.
const KEEP_IDLE_S: i32 = 7200;
const KEEP_INTERVAL_S: i32 = 75;
const KEEP_PROBES: i32 = 9;

/// Whose an option is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum OptionRule {
    /// The pair's, which has it; an accepted socket and one of the kernel get it, too.
    OfPair,
    /// The connection in the engine has it.
    Engine,
    /// It is remembered, told when it is asked for, and does nothing.
    Kept,
    /// It can only be asked for, and the answer is known.
    Told,
    /// Programs have another way when they are told this.
    Refuse(i32),
    /// A program that may have it gets a socket of the kernel, if there can be one in its place.
    Kernel,
}

/// Whether a program's end of its pair has an option, alone or beside the connection: how much is written to a peer that takes none depends on both.
pub(crate) fn is_of_pair(level: i32, name: i32) -> bool {
    rule(level, name) == OptionRule::OfPair || (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF)
}

/// Who has an option.
pub(crate) const fn rule(level: i32, name: i32) -> OptionRule {
    match level {
        libc::SOL_SOCKET => of_socket(name),
        libc::IPPROTO_TCP => of_tcp(name),
        libc::IPPROTO_IP => match name {
            libc::IP_TOS | libc::IP_TTL | libc::IP_MTU_DISCOVER | libc::IP_RECVERR => OptionRule::Kept,
            _ => OptionRule::Refuse(libc::ENOPROTOOPT),
        },
        libc::IPPROTO_IPV6 => match name {
            libc::IPV6_V6ONLY => OptionRule::Engine,
            libc::IPV6_TCLASS | libc::IPV6_UNICAST_HOPS | libc::IPV6_RECVERR => OptionRule::Kept,
            _ => OptionRule::Refuse(libc::ENOPROTOOPT),
        },
        _ => OptionRule::Refuse(libc::ENOPROTOOPT),
    }
}

const fn of_socket(name: i32) -> OptionRule {
    match name {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | libc::SO_RCVLOWAT => OptionRule::OfPair,
        libc::SO_TYPE | libc::SO_ERROR | libc::SO_DOMAIN | libc::SO_PROTOCOL | libc::SO_ACCEPTCONN => OptionRule::Told,
        libc::SO_KEEPALIVE | libc::SO_LINGER | libc::SO_RCVBUF | libc::SO_SNDBUF | libc::SO_REUSEPORT => {
            OptionRule::Engine
        }
        libc::SO_REUSEADDR
        | libc::SO_OOBINLINE
        | libc::SO_BROADCAST
        | libc::SO_DONTROUTE
        | libc::SO_PRIORITY
        | libc::SO_BUSY_POLL
        | libc::SO_INCOMING_CPU
        | libc::SO_TIMESTAMP => OptionRule::Kept,
        libc::SO_ZEROCOPY => OptionRule::Refuse(libc::EOPNOTSUPP),
        libc::SO_MARK => OptionRule::Kernel,
        _ => OptionRule::Refuse(libc::ENOPROTOOPT),
    }
}

const fn of_tcp(name: i32) -> OptionRule {
    match name {
        libc::TCP_NODELAY | libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT | libc::TCP_USER_TIMEOUT => {
            OptionRule::Engine
        }
        libc::TCP_CORK
        | libc::TCP_QUICKACK
        | libc::TCP_DEFER_ACCEPT
        | libc::TCP_SYNCNT
        | libc::TCP_LINGER2
        | libc::TCP_WINDOW_CLAMP
        | libc::TCP_NOTSENT_LOWAT
        | libc::TCP_THIN_LINEAR_TIMEOUTS => OptionRule::Kept,
        libc::TCP_INFO | libc::TCP_MAXSEG => OptionRule::Told,
        // Without the one TLS is the program's, without the other data follow the handshake.
        libc::TCP_ULP => OptionRule::Refuse(libc::ENOENT),
        libc::TCP_FASTOPEN | TCP_FASTOPEN_CONNECT => OptionRule::Refuse(libc::EOPNOTSUPP),
        _ => OptionRule::Refuse(libc::ENOPROTOOPT),
    }
}

/// How an option that is refused is shown: by its name if programs are known to ask for it, else by level and number.
pub(crate) fn name_of(level: i32, name: i32) -> Cow<'static, str> {
    Cow::Borrowed(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => "SO_REUSEPORT",
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) => "SO_ZEROCOPY",
        (libc::SOL_SOCKET, libc::SO_MARK) => "SO_MARK",
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => "SO_BINDTODEVICE",
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) => "SO_ATTACH_FILTER",
        (libc::SOL_SOCKET, libc::SO_ATTACH_BPF) => "SO_ATTACH_BPF",
        (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF) => "SO_ATTACH_REUSEPORT_CBPF",
        (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF) => "SO_ATTACH_REUSEPORT_EBPF",
        (libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID) => "SO_INCOMING_NAPI_ID",
        (libc::IPPROTO_UDP, UDP_SEGMENT) => "UDP_SEGMENT",
        (libc::IPPROTO_UDP, UDP_GRO) => "UDP_GRO",
        (libc::IPPROTO_TCP, libc::TCP_ULP) => "TCP_ULP",
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => "TCP_FASTOPEN",
        (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => "TCP_FASTOPEN_CONNECT",
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => "TCP_CONGESTION",
        (libc::IPPROTO_TCP, libc::TCP_MD5SIG) => "TCP_MD5SIG",
        (libc::IPPROTO_TCP, libc::TCP_REPAIR) => "TCP_REPAIR",
        _ => return Cow::Owned(format!("level {level} option {name}")),
    })
}

/// `include/uapi/linux/tcp.h`.
const TCP_FASTOPEN_CONNECT: i32 = 30;

/// An option as it was set.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Set {
    pub(crate) level: i32,
    pub(crate) name: i32,
    bytes: [u8; VALUE_BYTES_MAX],
    len: usize,
}

impl Set {
    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn int(&self) -> i32 {
        i32::from_ne_bytes([self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]])
    }
}

/// What a program has set on a socket.
#[derive(Clone, Default, Debug)]
pub(crate) struct KeptOptions {
    set: Vec<Set>,
}

impl KeptOptions {
    /// Bytes of a value that are looked at, whatever length a program says.
    pub(crate) const VALUE_BYTES_MAX: usize = VALUE_BYTES_MAX;

    /// Notes an option of the engine or one that is kept.
    ///
    /// # Errors
    /// An error of `errno(3)`: EINVAL for a value that cannot be, ENOBUFS if there are too many.
    pub(crate) fn note(&mut self, level: i32, name: i32, value: &[u8]) -> Result<(), i32> {
        let needed = if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) { 8 } else { 4 };
        if value.len() < needed || value.len() > VALUE_BYTES_MAX {
            return Err(libc::EINVAL);
        }
        let mut bytes = [0; VALUE_BYTES_MAX];
        bytes[..value.len()].copy_from_slice(value);
        let set = Set { level, name, bytes, len: value.len() };
        if !is_in_range(level, name, set.int()) {
            return Err(libc::EINVAL);
        }
        if let Some(old) = self.set.iter_mut().find(|old| (old.level, old.name) == (level, name)) {
            *old = set;
            return Ok(());
        }
        if self.set.len() >= SET_MAX {
            return Err(libc::ENOBUFS);
        }
        self.set.push(set);
        Ok(())
    }

    /// All that was set, for a socket that takes the place of this one.
    pub(crate) fn all(&self) -> &[Set] {
        &self.set
    }

    fn find(&self, level: i32, name: i32) -> Option<&Set> {
        self.set.iter().find(|set| (set.level, set.name) == (level, name))
    }

    /// An int as it was set, or its default.
    pub(crate) fn int(&self, level: i32, name: i32) -> i32 {
        self.find(level, name).map_or_else(|| default(level, name), Set::int)
    }

    /// Whether it was set at all.
    pub(crate) fn is_set(&self, level: i32, name: i32) -> bool {
        self.find(level, name).is_some()
    }

    fn is_on(&self, level: i32, name: i32) -> bool {
        self.int(level, name) != 0
    }

    pub(crate) fn reuse_port(&self) -> bool {
        self.is_on(libc::SOL_SOCKET, libc::SO_REUSEPORT)
    }

    pub(crate) fn only_v6(&self) -> bool {
        self.is_on(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)
    }

    pub(crate) fn nodelay(&self) -> bool {
        self.is_on(libc::IPPROTO_TCP, libc::TCP_NODELAY)
    }

    /// Idle time, interval and number of probes; `None`: no probes.
    pub(crate) fn keepalive(&self) -> Option<(Duration, Duration, u32)> {
        let tcp = |name| self.int(libc::IPPROTO_TCP, name).unsigned_abs();
        let seconds = |name| Duration::from_secs(tcp(name).into());
        let is_on = self.is_on(libc::SOL_SOCKET, libc::SO_KEEPALIVE);
        is_on.then(|| (seconds(libc::TCP_KEEPIDLE), seconds(libc::TCP_KEEPINTVL), tcp(libc::TCP_KEEPCNT)))
    }

    pub(crate) fn user_timeout(&self) -> Option<Duration> {
        let ms = self.int(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT).unsigned_abs();
        (ms > 0).then(|| Duration::from_millis(ms.into()))
    }

    /// Whether closing resets the connection: a linger time of zero. Another one does not make closing wait here.
    pub(crate) fn resets_on_close(&self) -> bool {
        let word = |at: usize, set: &Set| i32::from_ne_bytes([0, 1, 2, 3].map(|byte| set.bytes[at + byte]));
        self.find(libc::SOL_SOCKET, libc::SO_LINGER).is_some_and(|set| word(0, set) != 0 && word(4, set) == 0)
    }

    /// `SO_LINGER` as it was set.
    pub(crate) fn linger(&self) -> [u8; 8] {
        let found = self.find(libc::SOL_SOCKET, libc::SO_LINGER);
        found.map_or([0; 8], |set| [0, 1, 2, 3, 4, 5, 6, 7].map(|byte| set.bytes[byte]))
    }

    /// Those that the program's end of the pair has.
    pub(crate) fn of_pair(&self) -> impl Iterator<Item = &Set> {
        self.set.iter().filter(|set| is_of_pair(set.level, set.name))
    }

    /// `SO_RCVBUF` or `SO_SNDBUF`, if it was set, in bytes.
    pub(crate) fn buffer(&self, name: i32) -> Option<usize> {
        self.find(libc::SOL_SOCKET, name).map(|set| set.int().max(0).unsigned_abs() as usize)
    }
}

/// Ranges of `do_tcp_setsockopt` and `sk_setsockopt`.
const fn is_in_range(level: i32, name: i32, value: i32) -> bool {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL) => value >= 1 && value <= 32_767,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_SYNCNT) => value >= 1 && value <= 127,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) | (libc::SOL_SOCKET, libc::SO_BUSY_POLL) => value >= 0,
        _ => true,
    }
}

const fn default(level: i32, name: i32) -> i32 {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => KEEP_IDLE_S,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => KEEP_INTERVAL_S,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => KEEP_PROBES,
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => 1,
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => 1,
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => 64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_try_first_and_can_do_without_is_refused_as_they_expect() {
        let refused = [
            (libc::IPPROTO_TCP, libc::TCP_ULP, libc::ENOENT),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, libc::EOPNOTSUPP),
            (libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT, libc::EOPNOTSUPP),
            (libc::IPPROTO_TCP, libc::TCP_REPAIR, libc::ENOPROTOOPT),
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY, libc::EOPNOTSUPP),
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, libc::ENOPROTOOPT),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE, libc::ENOPROTOOPT),
            (99, 1, libc::ENOPROTOOPT),
        ];
        for (level, name, error) in refused {
            assert_eq!(rule(level, name), OptionRule::Refuse(error), "{level} {name}");
        }
        assert_eq!(name_of(libc::IPPROTO_TCP, libc::TCP_ULP), "TCP_ULP");
        assert_eq!(name_of(99, -1), "level 99 option -1");
        assert_eq!(rule(libc::SOL_SOCKET, libc::SO_RCVTIMEO), OptionRule::OfPair);
        assert_eq!(rule(libc::SOL_SOCKET, libc::SO_ERROR), OptionRule::Told);
        assert_eq!(rule(libc::SOL_SOCKET, libc::SO_MARK), OptionRule::Kernel);
        assert_eq!(rule(libc::IPPROTO_TCP, libc::TCP_CORK), OptionRule::Kept);
    }

    #[test]
    fn values_are_checked_and_the_last_one_holds() {
        let mut options = KeptOptions::default();
        let mut int = |name, value: i32| options.note(libc::IPPROTO_TCP, name, &value.to_ne_bytes());
        assert_eq!(int(libc::TCP_NODELAY, 1), Ok(()));
        assert_eq!(int(libc::TCP_KEEPIDLE, 0), Err(libc::EINVAL));
        assert_eq!(int(libc::TCP_KEEPIDLE, 5), Ok(()));
        assert_eq!(int(libc::TCP_KEEPIDLE, 7), Ok(()));
        assert_eq!(options.note(libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Err(libc::EINVAL));
        assert_eq!(options.note(libc::SOL_SOCKET, libc::SO_LINGER, &[1; 4]), Err(libc::EINVAL));
        assert_eq!(options.note(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &[0; 17]), Err(libc::EINVAL));
        assert!(options.nodelay() && options.keepalive().is_none());
        options.note(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32.to_ne_bytes()).expect("an int");
        let (idle, interval, probes) = options.keepalive().expect("on");
        assert_eq!((idle.as_secs(), interval.as_secs(), probes), (7, 75, 9));
    }

    #[test]
    fn a_linger_time_of_zero_alone_resets() {
        for (on, seconds, resets) in [(0, 0, false), (1, 0, true), (1, 5, false), (0, 5, false)] {
            let mut options = KeptOptions::default();
            let value = [i32::to_ne_bytes(on), i32::to_ne_bytes(seconds)].concat();
            options.note(libc::SOL_SOCKET, libc::SO_LINGER, &value).expect("eight bytes");
            assert_eq!(options.resets_on_close(), resets, "{on} {seconds}");
            assert_eq!(options.linger().to_vec(), value);
        }
    }

    #[test]
    fn a_program_cannot_have_more_remembered_than_the_bound() {
        let mut options = KeptOptions::default();
        for name in 0..i32::try_from(SET_MAX).expect("few") {
            options.note(1000, name, &[0; 4]).expect("there is room");
        }
        assert_eq!(options.note(1000, -1, &[0; 4]), Err(libc::ENOBUFS));
        assert_eq!(options.note(1000, 3, &[1, 0, 0, 0]), Ok(()), "one that is there changes");
    }
}
