//! The options of sockets, by the numbers of the system's headers.

use std::ffi::c_int;
use std::io;
use std::mem::discriminant;
use std::time::Duration;

use napier_runtime::socket::{MtuDiscovery, SocketOption, TcpStream, UdpSocket};

use super::value::{byte, discovery, int, linger, positive, seconds, time};
use super::{Carries, Live, PosixSocket};
use crate::control::ControlKinds;
use crate::error::Failure;

/// Options that a socket keeps for those that it accepts; there are fewer kinds.
pub(super) const SETTINGS_MAX: usize = 48;

/// One option with its value.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum SocketSetting {
    /// An option that the engine knows by the same name.
    Engine(SocketOption, i32),
    ReusePort(bool),
    /// Listeners of the engine are as with `SO_REUSEADDR` in any case.
    ReuseAddress,
    OnlyV6(bool),
    ReceiveTime(Option<Duration>),
    SendTime(Option<Duration>),
    NoDelay(bool),
    /// With zero, closing resets; none: it does not.
    Linger(Option<Duration>),
    KeepAlive(bool),
    KeepIdle(Duration),
    KeepInterval(Duration),
    KeepCount(u32),
    UserTimeout(Option<Duration>),
    Tos(u8),
    Ttl(u32),
    ClassV6(u8),
    HopsV6(u32),
    Errors(bool),
    Discovery(MtuDiscovery),
    /// What goes with each datagram.
    Tell(ControlKinds, bool),
}

/// The parts of keep-alive, which the engine takes together. Source: `include/net/tcp.h TCP_KEEPALIVE_TIME`, `TCP_KEEPALIVE_INTVL`,
/// `TCP_KEEPALIVE_PROBES`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Keep {
    on: bool,
    idle: Duration,
    interval: Duration,
    probes: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { on: false, idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 }
    }
}

impl Keep {
    pub(super) fn note(&mut self, setting: SocketSetting) {
        match setting {
            SocketSetting::KeepAlive(on) => self.on = on,
            SocketSetting::KeepIdle(idle) => self.idle = idle,
            SocketSetting::KeepInterval(interval) => self.interval = interval,
            SocketSetting::KeepCount(probes) => self.probes = probes,
            _ => {}
        }
    }

    fn apply(self, stream: &TcpStream) -> io::Result<()> {
        stream.set_keepalive(self.on.then_some((self.idle, self.interval, self.probes)))
    }
}

impl SocketSetting {
    /// Reads an option.
    pub(crate) fn read(level: c_int, name: c_int, value: &[u8]) -> Result<Self, Failure> {
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => Self::ReusePort(int(value)? != 0),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => int(value).map(|_| Self::ReuseAddress)?,
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Self::ReceiveTime(time(value)?),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Self::SendTime(time(value)?),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Self::KeepAlive(int(value)? != 0),
            (libc::SOL_SOCKET, libc::SO_LINGER) => Self::Linger(linger(value)?),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Self::NoDelay(int(value)? != 0),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Self::KeepIdle(seconds(value)?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => Self::KeepInterval(seconds(value)?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => Self::KeepCount(positive(value)?),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                let ms = u64::try_from(int(value)?).map_err(|_| Failure::of(libc::EINVAL))?;
                Self::UserTimeout((ms != 0).then(|| Duration::from_millis(ms)))
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => Self::Tos(byte(value)?),
            (libc::IPPROTO_IP, libc::IP_TTL) => Self::Ttl(positive(value)?),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                Self::Errors(int(value)? != 0)
            }
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
                Self::Discovery(discovery(value)?)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Self::OnlyV6(int(value)? != 0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Self::ClassV6(byte(value)?),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Self::HopsV6(positive(value)?),
            _ => match ControlKinds::of_option(level, name) {
                Some(told) => Self::Tell(told, int(value)? != 0),
                None => Self::Engine(of_engine(level, name).ok_or_else(|| unknown(level, name))?, int(value)?),
            },
        })
    }

    /// Whether sockets of this kind have it.
    pub(super) fn check(self, carries: Carries) -> Result<(), Failure> {
        let fits = match self {
            Self::Engine(SocketOption::UdpSegment | SocketOption::UdpGro, _)
            | Self::Tos(_)
            | Self::Ttl(_)
            | Self::ClassV6(_)
            | Self::HopsV6(_)
            | Self::Errors(_)
            | Self::Discovery(_)
            | Self::Tell(..) => carries == Carries::Datagrams,
            Self::ReuseAddress
            | Self::SendTime(_)
            | Self::NoDelay(_)
            | Self::Linger(_)
            | Self::KeepAlive(_)
            | Self::KeepIdle(_)
            | Self::KeepInterval(_)
            | Self::KeepCount(_)
            | Self::UserTimeout(_) => carries == Carries::Stream,
            Self::Engine(..) | Self::ReusePort(_) | Self::OnlyV6(_) | Self::ReceiveTime(_) => true,
        };
        if fits {
            return Ok(());
        }
        Err(Failure::new(libc::ENOPROTOOPT, format!("{self:?} is no option of this kind of socket")))
    }

    /// Sockets of IPv4 do not have it.
    pub(super) const fn is_of_v6(self) -> bool {
        match self {
            Self::OnlyV6(_) => true,
            Self::Tell(told, _) => told.is_of_v6(),
            _ => false,
        }
    }

    /// What a socket is told of each datagram from now on.
    pub(super) fn tells(self, before: ControlKinds) -> ControlKinds {
        match self {
            Self::Tell(told, on) => before.with(told, on),
            Self::Engine(SocketOption::UdpGro, value) => before.with(ControlKinds::MERGED, value != 0),
            _ => before,
        }
    }

    pub(super) fn is_same_kind(self, other: Self) -> bool {
        match (self, other) {
            (Self::Engine(one, _), Self::Engine(other, _)) => one == other,
            (Self::Tell(one, _), Self::Tell(other, _)) => one == other,
            _ => discriminant(&self) == discriminant(&other),
        }
    }
}

impl Live {
    pub(super) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Datagrams(socket) => socket.set_nonblocking(on),
            Self::Listener(listener) => listener.set_nonblocking(on),
            Self::Stream(stream) => stream.set_nonblocking(on),
        }
    }

    /// Sets one. A listener keeps for those that it accepts what it has not itself.
    pub(super) fn apply(&self, setting: SocketSetting, keep: Keep) -> Result<(), Failure> {
        match (self, setting) {
            (Self::Datagrams(socket), setting) => of_datagrams(socket, setting),
            (Self::Stream(stream), setting) => of_stream(stream, setting, keep),
            (Self::Listener(listener), SocketSetting::Engine(option, value)) if is_busy(option) => {
                listener.setsockopt(option, value).map_err(|error| refused(option, &error))
            }
            (Self::Listener(_), _) => Ok(()),
        }
    }
}

fn of_datagrams(socket: &UdpSocket, setting: SocketSetting) -> Result<(), Failure> {
    match setting {
        SocketSetting::Engine(option, value) => {
            return socket.setsockopt(option, value).map_err(|error| refused(option, &error));
        }
        SocketSetting::ReceiveTime(time) => socket.set_read_timeout(time)?,
        SocketSetting::Tos(tos) => socket.set_tos(tos)?,
        SocketSetting::Ttl(hops) => socket.set_ttl(hops)?,
        SocketSetting::ClassV6(class) => socket.set_tclass_v6(class)?,
        SocketSetting::HopsV6(hops) => socket.set_unicast_hops_v6(hops)?,
        SocketSetting::Errors(on) => socket.set_recverr(on),
        SocketSetting::Discovery(discovery) => socket.set_mtu_discovery(discovery)?,
        SocketSetting::Tell(ControlKinds::MICROS | ControlKinds::NANOS, on) => socket.set_timestamps(on)?,
        SocketSetting::Tell(..) => {}
        _ => return Err(Failure::of(libc::ENOPROTOOPT)),
    }
    Ok(())
}

fn of_stream(stream: &TcpStream, setting: SocketSetting, keep: Keep) -> Result<(), Failure> {
    match setting {
        SocketSetting::Engine(option, value) => {
            return stream.setsockopt(option, value).map_err(|error| refused(option, &error));
        }
        SocketSetting::ReceiveTime(time) => stream.set_read_timeout(time)?,
        SocketSetting::SendTime(time) => stream.set_write_timeout(time)?,
        SocketSetting::NoDelay(on) => stream.set_nodelay(on)?,
        SocketSetting::Linger(time) => stream.set_linger(time)?,
        SocketSetting::KeepAlive(_)
        | SocketSetting::KeepIdle(_)
        | SocketSetting::KeepInterval(_)
        | SocketSetting::KeepCount(_) => {
            keep.apply(stream)?;
        }
        SocketSetting::UserTimeout(time) => stream.set_user_timeout(time)?,
        SocketSetting::ReuseAddress => {}
        _ => return Err(Failure::of(libc::ENOPROTOOPT)),
    }
    Ok(())
}

fn refused(option: SocketOption, error: &napier_runtime::socket::OptionError) -> Failure {
    let number = io::Error::from(*error).raw_os_error().unwrap_or(libc::EINVAL);
    Failure::new(number, format!("{}: {error}", option.name()))
}

fn is_busy(option: SocketOption) -> bool {
    use SocketOption as O;
    matches!(option, O::BusyPoll | O::PreferBusyPoll | O::BusyPollBudget | O::IncomingNapiId)
}

fn of_engine(level: c_int, name: c_int) -> Option<SocketOption> {
    let same_level = |option: &SocketOption| match option {
        SocketOption::UdpSegment | SocketOption::UdpGro => level == libc::SOL_UDP,
        SocketOption::ReusePort => false,
        _ => level == libc::SOL_SOCKET,
    };
    SocketOption::ALL.into_iter().find(|option| same_level(option) && option.number() == name)
}

fn unknown(level: c_int, name: c_int) -> Failure {
    Failure::new(libc::ENOPROTOOPT, format!("option {name} of level {level} is not there: napier_socket(3) has a list"))
}

/// Why an option cannot be read.
const NO_ADDRESS: &str = "the socket has no address yet: it is read after bind or connect";

impl PosixSocket {
    /// Reads an option; all that can be read are an int.
    pub(crate) fn get(&self, level: c_int, name: c_int) -> Result<c_int, Failure> {
        let lives = self.live();
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_TYPE) => match self.carries() {
                Carries::Datagrams => libc::SOCK_DGRAM,
                Carries::Stream => libc::SOCK_STREAM,
            },
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => self.domain(),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => match self.carries() {
                Carries::Datagrams => libc::IPPROTO_UDP,
                Carries::Stream => libc::IPPROTO_TCP,
            },
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => matches!(lives, Some(Live::Listener(_))).into(),
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => self.before().reuse.into(),
            (libc::SOL_SOCKET, libc::SO_ERROR) => match lives {
                Some(Live::Datagrams(socket)) => number(socket.take_error()?),
                Some(Live::Stream(stream)) => number(stream.take_error()?),
                Some(Live::Listener(_)) | None => 0,
            },
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.before().only_v6.into(),
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => match lives {
                Some(Live::Datagrams(socket)) => c_int::try_from(socket.mtu()?).unwrap_or(c_int::MAX),
                _ => return Err(Failure::of(libc::ENOTCONN)),
            },
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => match lives {
                Some(Live::Datagrams(socket)) => socket.mtu_discovery()? as c_int,
                _ => return Err(Failure::invalid(NO_ADDRESS)),
            },
            _ => {
                if let Some(told) = ControlKinds::of_option(level, name) {
                    return Ok(self.told().has(told).into());
                }
                let option = of_engine(level, name).ok_or_else(|| unknown(level, name))?;
                let got = match lives {
                    Some(Live::Datagrams(socket)) => socket.getsockopt(option),
                    Some(Live::Stream(stream)) => stream.getsockopt(option),
                    Some(Live::Listener(listener)) => listener.getsockopt(option),
                    None => return Err(Failure::invalid(NO_ADDRESS)),
                };
                got.map_err(|error| refused(option, &error))?
            }
        })
    }
}

fn number(error: Option<io::Error>) -> c_int {
    error.map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(level: c_int, name: c_int, value: &[c_int]) -> Result<SocketSetting, c_int> {
        let bytes: Vec<u8> = value.iter().flat_map(|int| int.to_ne_bytes()).collect();
        SocketSetting::read(level, name, &bytes).map_err(|failure| failure.number())
    }

    #[test]
    fn options_are_read() {
        use SocketOption as O;
        let (socket, tcp, ip) = (libc::SOL_SOCKET, libc::IPPROTO_TCP, libc::IPPROTO_IP);
        for (level, name, value, found) in [
            (socket, libc::SO_RCVBUF, &[4096][..], Ok(SocketSetting::Engine(O::RcvBuf, 4096))),
            (socket, libc::SO_BUSY_POLL, &[50, 9, 9, 9, 9, 9], Ok(SocketSetting::Engine(O::BusyPoll, 50))),
            (libc::SOL_UDP, 104, &[1], Ok(SocketSetting::Engine(O::UdpGro, 1))),
            (socket, 104, &[1], Err(libc::ENOPROTOOPT)),
            (socket, libc::SO_TIMESTAMP, &[2], Ok(SocketSetting::Tell(ControlKinds::MICROS, true))),
            (ip, libc::IP_PKTINFO, &[0], Ok(SocketSetting::Tell(ControlKinds::PACKET_INFO, false))),
            (ip, libc::IP_MTU_DISCOVER, &[3], Ok(SocketSetting::Discovery(MtuDiscovery::Probe))),
            (ip, libc::IP_MTU_DISCOVER, &[4], Err(libc::EINVAL)),
            (socket, libc::SO_REUSEPORT, &[1], Ok(SocketSetting::ReusePort(true))),
            (socket, libc::SO_LINGER, &[1, 0], Ok(SocketSetting::Linger(Some(Duration::ZERO)))),
            (socket, libc::SO_LINGER, &[0, 5], Ok(SocketSetting::Linger(None))),
            (socket, libc::SO_LINGER, &[1, -1], Ok(SocketSetting::Linger(Some(Duration::MAX)))),
            (socket, libc::SO_LINGER, &[1], Err(libc::EINVAL)),
            (
                socket,
                libc::SO_RCVTIMEO,
                &[1, 0, 500_000, 0],
                Ok(SocketSetting::ReceiveTime(Some(Duration::from_millis(1500)))),
            ),
            (socket, libc::SO_RCVTIMEO, &[0, 0, 0, 0], Ok(SocketSetting::ReceiveTime(None))),
            (socket, libc::SO_RCVTIMEO, &[0, 0, 1_000_000, 0], Err(libc::EDOM)),
            (socket, libc::SO_RCVTIMEO, &[1, 0], Err(libc::EINVAL)),
            (tcp, libc::TCP_NODELAY, &[1], Ok(SocketSetting::NoDelay(true))),
            (tcp, libc::TCP_NODELAY, &[], Err(libc::EINVAL)),
            (tcp, libc::TCP_KEEPIDLE, &[0], Err(libc::EINVAL)),
            (ip, libc::IP_TTL, &[0], Err(libc::EINVAL)),
            (ip, libc::IP_TOS, &[256], Err(libc::EINVAL)),
            (ip, 999, &[1], Err(libc::ENOPROTOOPT)),
        ] {
            assert_eq!(read(level, name, value), found, "{level} {name} {value:?}");
        }
    }

    #[test]
    fn kinds_of_sockets_have_options_of_their_own() {
        for (setting, datagrams, stream) in [
            (SocketSetting::NoDelay(true), false, true),
            (SocketSetting::Tos(0), true, false),
            (SocketSetting::ReceiveTime(None), true, true),
            (SocketSetting::SendTime(None), false, true),
            (SocketSetting::Engine(SocketOption::RcvBuf, 1), true, true),
            (SocketSetting::Engine(SocketOption::UdpGro, 1), true, false),
        ] {
            assert_eq!(setting.check(Carries::Datagrams).is_ok(), datagrams, "{setting:?}");
            assert_eq!(setting.check(Carries::Stream).is_ok(), stream, "{setting:?}");
        }
    }
}
