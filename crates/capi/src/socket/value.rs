//! The values of options, as C hands them over.

use std::ffi::c_int;
use std::time::Duration;

use napier_runtime::socket::MtuDiscovery;

use crate::error::Failure;

pub(super) fn int(value: &[u8]) -> Result<c_int, Failure> {
    let bytes = value.first_chunk().ok_or_else(|| Failure::invalid("the value is shorter than an int"))?;
    Ok(c_int::from_ne_bytes(*bytes))
}

pub(super) fn positive(value: &[u8]) -> Result<u32, Failure> {
    u32::try_from(int(value)?).ok().filter(|value| *value != 0).ok_or_else(|| Failure::of(libc::EINVAL))
}

pub(super) fn byte(value: &[u8]) -> Result<u8, Failure> {
    u8::try_from(int(value)?).map_err(|_| Failure::of(libc::EINVAL))
}

/// Source: `net/ipv4/ip_sockglue.c do_ip_setsockopt`; what the engine has not is refused as what is not there.
pub(super) fn discovery(value: &[u8]) -> Result<MtuDiscovery, Failure> {
    Ok(match int(value)? {
        libc::IP_PMTUDISC_DONT => MtuDiscovery::Dont,
        libc::IP_PMTUDISC_WANT => MtuDiscovery::Want,
        libc::IP_PMTUDISC_DO => MtuDiscovery::Do,
        libc::IP_PMTUDISC_PROBE => MtuDiscovery::Probe,
        _ => return Err(Failure::of(libc::EINVAL)),
    })
}

pub(super) fn seconds(value: &[u8]) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(positive(value)?.into()))
}

/// A `struct timeval`; zero is none (`net/core/sock.c sock_set_timeout`).
pub(super) fn time(value: &[u8]) -> Result<Option<Duration>, Failure> {
    let short = || Failure::invalid("the value is shorter than struct timeval");
    let (seconds, rest) = value.split_first_chunk::<8>().ok_or_else(short)?;
    let micros = rest.first_chunk::<8>().ok_or_else(short)?;
    let (seconds, micros) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*micros));
    let micros = u32::try_from(micros).ok().filter(|micros| *micros < 1_000_000);
    let micros = micros.ok_or_else(|| Failure::of(libc::EDOM))?;
    // A negative time is none at all: the shortest that there is.
    let time = u64::try_from(seconds).map_or(Duration::from_nanos(1), |s| Duration::new(s, micros * 1000));
    Ok((time != Duration::ZERO).then_some(time))
}

/// A `struct linger`.
pub(super) fn linger(value: &[u8]) -> Result<Option<Duration>, Failure> {
    let on = int(value)? != 0;
    let time = value.get(4..).map_or_else(|| Err(Failure::of(libc::EINVAL)), int)?;
    // A negative one is as good as for ever (`net/core/sock.c sk_setsockopt`).
    Ok(on.then(|| u64::try_from(time).map_or(Duration::MAX, Duration::from_secs)))
}
