//! Instructions of the measured functions, counted by callgrind in a child process.

use std::process::Command;

use anyhow::Context as _;

/// Names the job of a child, in words that its bench has.
const JOB: &str = "NAPIER_RX_COST_CHILD";

/// A job that a child does twice, for few and for many: the difference is free of what happens once.
pub(super) struct Job<'a> {
    /// The bench that does it, as on the command line.
    pub(super) bench: &'a str,
    /// The function whose instructions count, as callgrind's option names it.
    pub(super) function: &'a str,
    /// How many of what it does; few, and many.
    pub(super) counts: [u64; 2],
}

/// Instructions of one of what is done; `None` where valgrind is not installed, or the job fails under it. `job` names the
/// job for a number of them.
pub(super) fn count(of: &Job<'_>, job: impl Fn(u64) -> String) -> anyhow::Result<Option<f64>> {
    let [few, many] = of.counts;
    let collected = |count| collected(of.bench, of.function, &job(count));
    let Some(short) = collected(few)? else { return Ok(None) };
    let Some(long) = collected(many)? else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    let each = (long as f64 - short as f64) / (many - few) as f64;
    Ok(Some(each))
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

/// The job that a parent gave this process.
pub(super) fn job() -> Option<String> {
    std::env::var(JOB).ok()
}
