//! `--jobs`: in how many threads something is simulated; no result depends on it.

/// How many threads to use.
pub(crate) fn threads(jobs: Option<usize>) -> anyhow::Result<usize> {
    match jobs {
        Some(0) => Err(crate::Usage(anyhow::anyhow!("--jobs must be at least 1")).into()),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}
