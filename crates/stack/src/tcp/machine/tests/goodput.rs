//! How much gets through a path that loses, beside what the formula of CUBIC gives (RFC 9438 section 5.1).

use napier_core::time::Span;

use super::path::{PathConfig, ProgramConfig, World, WorldConfig};

const IDLE: ProgramConfig = ProgramConfig { bytes: 0, read: usize::MAX, pause: Span::ZERO };
/// The links have so many bytes per second.
const RATE: u64 = 125_000_000;

/// Bytes per second that CUBIC has on average, or Reno where that has more: no more than the link.
fn ceiling(loss: f64, rtt: f64) -> f64 {
    if loss == 0.0 {
        return RATE as f64;
    }
    // Section 5.1 with C = 0.4 and 0.7; section 5.2 equation for AIMD(1, 0.5).
    let cubic = 1.054 * rtt.powf(0.75) / loss.powf(0.75);
    let reno = 1.22 / loss.sqrt();
    (cubic.max(reno) * 1448.0 / rtt).min(RATE as f64)
}

fn goodput(seed: u64, bytes: u64, path: PathConfig) -> f64 {
    let programs = [ProgramConfig { bytes, ..IDLE }, IDLE];
    let took = World::new(WorldConfig { seed, path, programs, ..WorldConfig::default() }).run(Span::from_secs(36_000));
    bytes as f64 / (took.ns as f64 / 1e9)
}

/// One direction, as the formula has it; acknowledgements get lost too.
#[test]
#[ignore = "a table to look at"]
fn table() {
    println!("loss  rtt ms  reordered  MB/s   of the ceiling");
    for loss in [0, 10, 20, 50, 100] {
        for rtt_ms in [0, 1, 20, 80] {
            for reorder in [0, 10] {
                let delay = Span::from_us(rtt_ms * 500 + 25);
                let path = PathConfig { delay, loss, reorder, rate: RATE, queue: 1 << 20, ..PathConfig::default() };
                let bytes = if loss == 0 { 64 << 20 } else { 4 << 20 };
                let rates: Vec<f64> = (0..3).map(|seed| goodput(seed, bytes, path)).collect();
                let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                let most = ceiling(f64::from(loss) / 1000.0, (2 * delay.ns) as f64 / 1e9);
                println!(
                    "{:>3} % {rtt_ms:>6} {:>8} % {:>8.2} {:>6.2}",
                    loss / 10,
                    reorder / 10,
                    mean / 1e6,
                    mean / most
                );
            }
        }
    }
}

/// At least half of what the formula gives, which knows no time-outs.
#[test]
fn losses_cost_what_the_formula_says() {
    for (loss, rtt_ms) in [(10, 20), (20, 20), (10, 80)] {
        let delay = Span::from_ms(rtt_ms / 2);
        let path = PathConfig { delay, loss, rate: RATE, queue: 1 << 20, ..PathConfig::default() };
        let mean = (0..4).map(|seed| goodput(seed, 3 << 20, path)).sum::<f64>() / 4.0;
        let most = ceiling(f64::from(loss) / 1000.0, rtt_ms as f64 / 1e3);
        assert!(mean > most / 2.0, "{loss} of 1000, {rtt_ms} ms: {mean:.0} of {most:.0} bytes a second");
    }
}

/// How long single messages of 300 KB take.
#[test]
#[ignore = "a table to look at"]
fn messages() {
    println!("loss  rtt us  ms: median, mean, 90 %, most; seeds of the slowest");
    for (loss, delay_us) in [(0, 50), (10, 50), (20, 50), (50, 50), (10, 10_000)] {
        let delay = Span::from_us(delay_us);
        let path = PathConfig { delay, loss, rate: RATE, queue: 1 << 20, ..PathConfig::default() };
        let bytes = 300_000;
        let mut took: Vec<(f64, u64)> =
            (0..200).map(|seed| (bytes as f64 / goodput(seed, bytes, path) * 1e3, seed)).collect();
        took.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = took.iter().map(|(ms, _)| ms).sum::<f64>() / took.len() as f64;
        let slowest: Vec<u64> = took.iter().rev().take(4).map(|(_, seed)| *seed).collect();
        println!(
            "{:>3} % {:>6} {:>8.2} {mean:>8.2} {:>8.2} {:>8.2}  {slowest:?}",
            loss / 10,
            2 * delay_us,
            took[100].0,
            took[180].0,
            took[199].0
        );
    }
}
