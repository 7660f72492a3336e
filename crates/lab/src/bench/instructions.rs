//! Instructions of the measured functions, counted by callgrind in a child process.

use std::process::Command;

use anyhow::Context as _;

use super::rx_cost::RxPath;
use super::tcp_rr::Load;

/// Names the job of a child: path, batch, packets; or `tcp`, connections, requests in flight, requests.
const JOB: &str = "NAPIER_RX_COST_CHILD";

/// Packets of the short and of the long child; the difference is free of what happens once.
const SHORT_PACKETS: u64 = 640;
const LONG_PACKETS: u64 = 6400;

/// Requests of the short and of the long child of `tcp-rr`, with few connections and with many.
const SHORT_REQUESTS: u32 = 500;
const LONG_REQUESTS: u32 = 10_500;

/// Instructions per packet; `None` where valgrind is not installed, or the job fails under it.
pub(super) fn count(path: RxPath, batch: u16) -> anyhow::Result<Option<f64>> {
    let (name, function) = match path {
        RxPath::Raw => ("raw", "*measured_raw*"),
        RxPath::Udp => ("udp", "*measured_udp*"),
    };
    let collected = |packets: u64| collected("rx-cost", function, &format!("{name},{batch},{packets}"));
    let Some(short) = collected(SHORT_PACKETS)? else { return Ok(None) };
    let Some(long) = collected(LONG_PACKETS)? else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    let per_packet = (long as f64 - short as f64) / (LONG_PACKETS - SHORT_PACKETS) as f64;
    Ok(Some(per_packet))
}

/// Instructions of a request and its response, both ends; `None` where valgrind is not installed, or the job fails under it.
pub(super) fn of_tcp(load: Load) -> anyhow::Result<Option<f64>> {
    let Load { connections, in_flight } = load;
    let job = |requests: u32| format!("tcp,{connections},{in_flight},{requests}");
    let collected = |requests: u32| collected("tcp-rr", "*measured_requests*", &job(requests));
    let Some(short) = collected(SHORT_REQUESTS)? else { return Ok(None) };
    let Some(long) = collected(LONG_REQUESTS)? else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    let counted = long as f64 - short as f64;
    Ok(Some(counted / f64::from(LONG_REQUESTS - SHORT_REQUESTS)))
}

fn collected(bench: &str, function: &str, job: &str) -> anyhow::Result<Option<u64>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(std::env::current_exe().context("finding this program")?)
        .args(["bench", bench])
        .env(JOB, job)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("starting valgrind"),
    };
    // A job that did not come to its end has counted a part of it.
    if !output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, number)| number.trim());
    let collected = collected.with_context(|| format!("callgrind counted nothing; it said: {said}"))?;
    Ok(Some(collected.parse().context("callgrind's count is a number")?))
}

/// The job of `tcp-rr` that a parent gave this process: the load and the number of requests.
pub(super) fn tcp_job() -> Option<(Load, u32)> {
    let job = std::env::var(JOB).ok()?;
    let mut parts = job.strip_prefix("tcp,")?.split(',').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    Some((Load { connections: next()?, in_flight: next()? }, next()?))
}

/// The job that a parent gave this process.
pub(super) fn child_job() -> Option<(RxPath, u16, u64)> {
    let job = std::env::var(JOB).ok()?;
    let mut parts = job.split(',');
    let path = match parts.next()? {
        "raw" => RxPath::Raw,
        "udp" => RxPath::Udp,
        _ => return None,
    };
    Some((path, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
