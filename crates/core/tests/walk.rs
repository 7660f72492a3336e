//! All interleavings of small worlds.
mod model;

use model::walk::walk;
use model::{Config, Wrong};
use napier_core::completion::Tunables;
use napier_core::state::Threaded;
use napier_core::time::Span;

const ALL_MODES: &[Threaded] = &[Threaded::Disabled, Threaded::Enabled, Threaded::BusyPoll];

const fn tunables(dhi: u32, gft: bool, ist: bool) -> Tunables {
    let gro_flush_timeout = if gft { Span::from_us(20) } else { Span::ZERO };
    let irq_suspend_timeout = if ist { Span::from_ms(20) } else { Span::ZERO };
    Tunables { defer_hard_irqs: dhi, gro_flush_timeout, irq_suspend_timeout }
}

const BASE: Config = Config {
    tunables: tunables(0, false, false),
    pending_max: 2,
    weight: 2,
    busy_budget: 1,
    gro: false,
    user: &[],
    epoll: false,
    modes: &[],
    updown: true,
    wrong: Wrong::Nothing,
};

fn check(name: &str, config: &Config) {
    let start = std::time::Instant::now();
    let walk = walk(config, 600_000);
    walk.check_liveness();
    println!("{name}: {} worlds in {:?}", walk.len(), start.elapsed());
}

#[test]
fn softirq_alone() {
    for (dhi, gft) in [(0, false), (0, true), (2, false), (2, true)] {
        check("softirq", &Config { tunables: tunables(dhi, gft, false), gro: true, ..BASE });
    }
}

#[test]
fn busy_poller_and_softirq() {
    for (dhi, gft) in [(0, false), (1, true)] {
        let tunables = tunables(dhi, gft, false);
        check("busy", &Config { tunables, user: &[false, true], gro: gft, ..BASE });
    }
}

#[test]
fn suspension() {
    let tunables = tunables(1, true, true);
    check("epoll", &Config { tunables, user: &[true], epoll: true, ..BASE });
}

#[test]
fn threads() {
    for (dhi, gft) in [(0, false), (1, true)] {
        check("threads", &Config { tunables: tunables(dhi, gft, false), modes: ALL_MODES, ..BASE });
    }
}

#[test]
fn threads_and_busy_poller() {
    let config = Config { user: &[true], modes: ALL_MODES, pending_max: 1, weight: 1, ..BASE };
    let deferred = tunables(1, true, false);
    check("modes", &Config { tunables: deferred, updown: false, ..config });
    check("modes up/down", &Config { modes: &ALL_MODES[..2], ..config });
    check("modes up/down", &config);
}
