//! What a judge sees of a program, each second, and what looking takes: `judge PID SECONDS [JUDGE]...`.

use std::time::{Duration, Instant};

use napier_linux::process::Roots;
use napier_trial::judge::{self, Judge, Look, Service};
use rustix::time::{ClockId, clock_gettime};

fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [pid, seconds, given @ ..] = &args[..] else { return Err("judge PID SECONDS [JUDGE]...".into()) };
    let service = Service { roots: Roots::Process(pid.parse()?) };
    let mut judges: Vec<Box<dyn Judge>> = match given {
        [] => judge::usual(&service)?,
        given => given.iter().map(|given| judge::named(given, &service)).collect::<Result<_, _>>()?,
    };
    for judge in &mut judges {
        judge.begin()?;
    }
    let (begun, spent, span) = (Instant::now(), cpu_s(), Duration::from_secs(seconds.parse()?));
    let mut told = begun;
    while begun.elapsed() < span {
        std::thread::sleep(Duration::from_millis(100));
        let is_told = told.elapsed() >= Duration::from_secs(1);
        for judge in &mut judges {
            let Look::Seen(reading) = judge.look()? else { continue };
            if is_told {
                let shown =
                    judge.figures().iter().zip(&reading.values).zip(&reading.newest).map(|((figure, all), newest)| {
                        let show =
                            |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| figure.unit.show(value));
                        format!("{figure} {} ({})", show(all), show(newest))
                    });
                println!("{}", shown.collect::<Vec<_>>().join(", "));
                told = Instant::now();
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("looking took {:.3} % of a CPU", (cpu_s() - spent) / seconds * 100.0);
    Ok(())
}
