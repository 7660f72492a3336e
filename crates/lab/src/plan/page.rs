//! The page that says how near predictions are: `docs/fidelity.md`.

use std::sync::atomic::AtomicBool;

use super::read::{PlanError, named, plan_names};
use super::run::run;
use super::score::score;
use super::table::table;

const HEAD: &str = "\
# How near predictions are

Written by `napier sim fidelity`; a test fails if it is not what that command writes now. Each table is a document's own, with what
the simulated machine predicts beside it. A row marked `+` has parameters fitted to it, and shows only that the model can be like
that. A row marked `=` had no part in choosing any number: the error there is what a prediction is worth. `?` is a prediction that
no published row judges. [plans.md](plans.md) describes the files; every figure of a machine says in its file where it comes from.
";

const TAIL: &str = "
## What not to believe

- **Latency where a server cannot keep up.** Whether a mode falls over at 1000K is decided by a few percent of a core: `defer200`
  does in the document and does not here. Once over, the average follows the connections, p99 does not: here all connections wait
  equally long, there not.
- **p99 of `base` and `suspend0` between 200K and 800K.** It comes from the card that changes its moderation; how long that takes is
  one fitted number, how often comes from the rules of the driver and is too seldom at 400K.
- **`defer10` at 800K.** Half of the published latency: it is nearly full there, and its 60,000 timers a second cost more than here.
- **The last two digits.** One queue of eight is simulated; the client is a delay with a step, not a machine.
- Polls that find nothing are dearer there at low load than at high load. Here they cost the same, so `fullbusy` polls more often.
- Instructions per query, frequency, and what other cards do are not modelled.

## What is missing

Merging of packets on the way up, several queues of one program, threads that the scheduler moves, transmit interrupts, memory of a
socket. The other documents (xsk-rr, tcp-rr, remote-ssd, busy-read) have no plan yet; `napier sim transmit` is the one on sending.
";

/// Runs every plan that the program brings along, and writes the page; `None`: it was interrupted.
///
/// # Errors
/// A plan of ours is wrong.
pub fn page(jobs: usize, stop: &AtomicBool) -> Result<Option<String>, PlanError> {
    let mut text = HEAD.to_owned();
    for name in plan_names() {
        let plan = named(name)?;
        let wanted: Vec<_> = plan.cells().collect();
        let cells = run(&plan, &wanted, jobs, stop, &|_, _| ());
        if cells.len() < wanted.len() {
            return Ok(None);
        }
        text += &format!("\n## {name}\n\n```text\n{}```\n", table(&plan, &cells, &score(&plan, &cells)));
    }
    Ok(Some(text + TAIL))
}
