//! Instructions of the measured functions, counted by callgrind in a child process.

use std::process::Command;

use anyhow::Context as _;

use super::rx_cost::RxPath;

/// Names the job of a child: path, batch, packets.
const JOB: &str = "NAPIER_RX_COST_CHILD";

/// Packets of the short and of the long child; the difference is free of what happens once.
const SHORT_PACKETS: u64 = 640;
const LONG_PACKETS: u64 = 6400;

/// Instructions per packet, or `None` where valgrind is not installed.
pub(super) fn count(path: RxPath, batch: u16) -> anyhow::Result<Option<f64>> {
    let Some(short) = collected(path, batch, SHORT_PACKETS)? else { return Ok(None) };
    let Some(long) = collected(path, batch, LONG_PACKETS)? else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    let per_packet = (long as f64 - short as f64) / (LONG_PACKETS - SHORT_PACKETS) as f64;
    Ok(Some(per_packet))
}

fn collected(path: RxPath, batch: u16, packets: u64) -> anyhow::Result<Option<u64>> {
    let function = match path {
        RxPath::Raw => "*measured_raw*",
        RxPath::Udp => "*measured_udp*",
    };
    let job = match path {
        RxPath::Raw => format!("raw,{batch},{packets}"),
        RxPath::Udp => format!("udp,{batch},{packets}"),
    };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(std::env::current_exe().context("finding this program")?)
        .args(["bench", "rx-cost"])
        .env(JOB, job)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("starting valgrind"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, number)| number.trim());
    let collected = collected.with_context(|| format!("callgrind counted nothing; it said: {said}"))?;
    Ok(Some(collected.parse().context("callgrind's count is a number")?))
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
