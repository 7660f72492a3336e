//! The page that says how near predictions are: `docs/fidelity.md`.

use std::sync::atomic::AtomicBool;

use super::{PlanError, named, names, run, score, table};

const HEAD: &str = "\
# How near predictions are

Written by `napier sim fidelity`; a test fails if it is not what that command writes now. Each table is a document's own, with what
the simulated machine predicts beside it. A row marked `+` has parameters fitted to it, and shows only that the model can be like
that. A row marked `=` had no part in choosing any number: the error there is what a prediction is worth. `?` is a prediction that
no published row judges. [plans.md](plans.md) describes the files; every figure of a machine says in its file where it comes from.
Every run is held against laws that no rule of the simulator knows ([plans.md](plans.md#laws)); none of these breaks one.
";

const TAIL: &str = "
## What not to believe

Of `irq-suspension`:

- **Latency where a server cannot keep up.** Whether a mode falls over at 1000K is decided by a few percent of a core. The same five do in
  both: `base`, `suspend0`, `defer10`, `defer20` and, in some of the queues, `defer200`. Once over, the average follows the connections, p99
  does not: here all connections wait equally long, there not.
- **What is near its limit.** The fullest queue of `napibusy` at 1000K works for 97 % of the time and keeps up here; with 0.7 us more for
  each wait it falls over, and p99 is 20 times the published one. `defer10` at 800K is as near to it.
- **p99 of `base` and `suspend0` between 200K and 800K.** It comes from the card that changes its moderation; how long that takes is
  one fitted number, how often comes from the rules of the driver. At 400K 1.6 and 2.5 times the predicted p99 was published. The order of
  these two is a coin's, and `napier advise` calls them too near to call.
- **CPU** of `suspend10` and `suspend20` at 400K is 6 to 9 % below that of the document and that of `defer10` and `defer20` 1 to 3 % above, so
  that their order is wrong; at 1000K modes that are all full have no order. Cycles of `base` and `suspend0` are 8 to 15 % too few up to
  800K, but for `base` at 400K.
- **p99 of modes that poll** is 3 to 11 % too high at 200K and up to 16 % too low from 800K on: all of a load are off together, for the
  larger part of it is the client's.
- **The last two digits.** The client is a delay with a step, not a machine. At 400K
  the way there and back and that step alone have a p99 of 140 us; it grows with the rate of a queue and not with the number of queues.
- **MAX** has 560 connections at a ring of 1024 frames, two for each: where the program polls for itself the ring overflows, and some
  requests come again after TCP's 200 ms. The mean has them; p99 has not.
- Polls that find nothing are dearer there at low load than at high load. Here they cost the same, so `fullbusy` polls more often.
- Instructions per query follow from what work takes undisturbed, at one number of instructions per cycle, and another while spinning. Frequency,
  and what other cards do, are not modelled.

Of `xsk-rr`:

- **Why a send is slow while the program computes.** The document shows it (1.2 us with interrupts, 3.5 us with `busy-read`) and gives no
  reason. Here it is two fitted numbers of the card, `wake-armed` and `wake-deferred`, for queues that no program busy polls. Only that
  `busy-read` has it at 32K as at 12K, and no mode has it where another thread polls, is a result.
- **`interrupts` and `busy-read` at 32K and 125K.** The program has 1.25 us and 2 us between its delays. With 40 ns more for each packet
  `busy-read` at 32K does not keep up, and goes to 30 us in place of 17; with 100 ns less `interrupts` at 32K finds its packets by
  itself, and has 15 us in place of 21. That it settles where the interrupt brings packets
  comes from the rules; how long that takes, and that it is needed at all, was fitted.
- **`interrupts` at 125K.** 0.8 us too early at the median: with an interrupt every 4 us something else delays there.
- **The spread.** p5 to p99 of `busy-read-separate` is half of the published one: polls here take always equally long. At 12K nearly a
  whole number of polls fits between two packets, so that percentiles depend on tens of nanoseconds.
- `wire` and costs are of no processor or card in particular: the document names none.

Of `busy-read`:

- **Only `interrupts-16-44` is a test**: that two interrupts in each round trip are held back for 15 us more. Three rows were fitted with a
  number each: the wire, waking up, and a busy poll of the driver's own. `busy-poll-3.11` says nothing about Linux 3.11 but by how much it
  was slower; its `ndo_busy_poll` is not simulated.

Of `tcp-rr`:

- **The tail of `base`.** In the document threads are trapped where softirqs run, for 1 ms at p99 and 3.7 ms at p99.9. Here that happens
  to one request of a thousand, not to one of a hundred: a thread that wakes up finds a CPU that is idle too easily, and ksoftirqd, once
  it polls, is seen and avoided. Load as a measure of the scheduler, shared caches and balancing over long times are missing.
- **The order at a byte.** Threads and workers come out 9 and 11 % below softirqs, where 3 and 7 % are published. It takes 150 ms until
  threads are where the scheduler leaves them; before, throughput is up to a tenth higher. Only the throughput of `base` was fitted, before that was seen; all other costs are guesses.
- **A megabyte.** The document's latencies spread as those of TCP that loses packets and waits: p99 is 200 ms beyond the mean, p99.9 as
  much again and twice. Here nothing is lost, so all connections get their share: p50 is a third above the published one, p99 half of it,
  p99.9 a quarter.
- **5 KB** depends on what each further frame costs, and each acknowledgement, which are guesses.
- Connections are spread evenly over queues, and a thread for each hyper-thread is assumed.

Of `remote-ssd`:

- **What the storage takes was fitted to `workqueue`**, as four numbers for each size: that row tests nothing, and `threaded`, which is
  pinned to the same CPUs, differs from it only by what queueing costs. What is a result: that `base` has 1.8 times the p95 at 4K,
  for its softirqs run where programs are busy, and hardly differs at 1M.
- The program's 45 us are a guess that makes CPUs 70 % busy. p99 of `threaded` at 4K is published 30 % below that of the others; nothing
  here explains it.
- A write is acknowledged when the device has it; read and write take equally long.
- **64K** is in no document: the device's times lie on a straight line between those of 4K and of 1M.

Of `udp-stream`: busy CPUs of `llist`, 7 % too few; of pinned senders no rate was published that we have. Only rates stand here; `napier sim transmit` compares the histograms too, and says
which costs matter.

Of `irq-suspension-internals`, the weakest of these tables: nothing was fitted to its figures, only to latencies and CPU of some of its
modes. Waits up to 400K are within a tenth but for `base` and `defer200`. Polls are too few, and those that are missing found nothing: as many a
second at each load, some 20,000 with timers of 10 us, 14,000 with 20 us, 2,500 with 200 us. So they are not the server's: another
instance that is deferred would poll like that, and there is none here. `defer200` waits half as often as there, for which no reason is known. Polled modes of the document have a
few interrupts a second from elsewhere, here none, which counts as 100 %.

Of `udp-stream-stays`: with two locks hardly a call of the document takes less than 1 us, here two of a hundred do; the rest of both histograms is near.

## What was wanted and is not reached

| | wanted | is |
|---|---|---|
| `irq-suspension`, rows that nothing was fitted to: 90 of 100 figures; the one that is furthest off | 12 %; 50 % | 15 %; 70 %, the average of `suspend0` at 1000K, which has fallen over |
| order of the modes by p99 at 200K, 400K, 800K, 1000K | 0.9 | 0.96, 0.82, 0.82, 0.87 |
| by cycles per query | 0.9 | 0.96, 0.96, 0.82, 0.87 |
| `tcp-rr`, rows that nothing was fitted to: median, 90 of 100 | 10, 30 % | 11, 70 % |
| CPU time of an answer of `napier advise` with `--peak` | 5 s | one queue 2.8 s, eight queues 6.2 s ([0178](decisions/0178-a-step-alone-does-not-go-by-the-executor.md)) |
| events per second of the machine beside ns-3 | 1.0 | 0.69 [0.61 to 0.98], 10 pairs beside builds: 14 events a request that run rules and checks, where ns-3 has 2 that move a number ([simulator-speed.md](simulator-speed.md)) |

## What is missing

Loss but in a ring that is full, congestion, TCP's windows, transmit interrupts, memory of a socket, several NUMA nodes, frequency.
";

/// Runs every plan that the program brings along, and writes the page; `None`: it was interrupted.
///
/// # Errors
/// A plan of ours is wrong.
pub fn page(jobs: usize, stop: &AtomicBool) -> Result<Option<String>, PlanError> {
    let mut text = HEAD.to_owned();
    for name in names() {
        let plan = named(name)?;
        // Where nothing was published, no table says how near it is.
        if plan.published.rows.is_empty() {
            continue;
        }
        let wanted: Vec<_> = plan.cells().collect();
        let cells = run(&plan, &wanted, jobs, stop, &|_, _| ());
        if cells.len() < wanted.len() {
            return Ok(None);
        }
        let table = table(&plan, &cells, &score(&plan, &cells));
        text += &format!("\n## {name}\n\n```text\n{table}```\n");
    }
    Ok(Some(text + TAIL))
}
