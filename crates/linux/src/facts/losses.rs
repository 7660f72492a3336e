//! Packets that were lost on their way in.

use serde::{Deserialize, Serialize};

use super::source::Source;

/// What was lost, of each CPU and each interface that lost some, and how many of how many.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Losses {
    /// Packets that a CPU dropped because its backlog was full (`softnet_stat`, column 2).
    pub backlog: Vec<Lost>,
    /// Receive softirqs that ended with work left (column 3), of the packets that the CPU processed.
    pub squeezed: Vec<Lost>,
    /// Packets that an interface dropped for want of room in a ring (`rx_missed_errors`).
    pub missed: Vec<Lost>,
}

impl Losses {
    pub(super) fn read(source: &Source<'_>) -> Self {
        let table = source.root.table("/proc/net/softnet_stat").unwrap_or_default();
        let of = |column: usize| {
            let row = |(at, row): (usize, &str)| {
                let hex: Vec<u64> =
                    row.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
                // The CPU is in column 13 since Linux 5.10.
                let cpu = hex.get(12).copied().unwrap_or(at as u64);
                Some(Lost { who: cpu.to_string(), of: *hex.first()?, lost: *hex.get(column - 1)? })
            };
            table.lines().enumerate().filter_map(row).collect()
        };
        Self { backlog: of(2), squeezed: of(3), missed: source.kernel.missed() }
    }

    /// What came to it since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = |now: &[Lost], before: &[Lost]| {
            let one = |now: &Lost| {
                let old = before.iter().find(|old| old.who == now.who)?;
                let (of, lost) = (now.of.saturating_sub(old.of), now.lost.saturating_sub(old.lost));
                Some(Lost { who: now.who.clone(), of, lost })
            };
            now.iter().filter_map(one).collect()
        };
        Self {
            backlog: more(&self.backlog, &before.backlog),
            squeezed: more(&self.squeezed, &before.squeezed),
            missed: more(&self.missed, &before.missed),
        }
    }
}

/// Of what how much was lost.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "one line says it")]
pub struct Lost {
    pub who: String,
    pub of: u64,
    pub lost: u64,
}

/// What was lost within a time.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Watched {
    /// How long it was watched at least, ms.
    pub ms: u64,
    /// What was lost then.
    pub losses: Losses,
}
