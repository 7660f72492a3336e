//! Whatever a path does, the same bytes arrive and it ends.

use napier_core::tcp::congestion::Control;
use napier_core::tcp::memory::MemoryLimits;
use napier_core::time::Span;
use napier_rng::{below, stream};

use super::path::{PathConfig, ProgramConfig, World, WorldConfig};
use crate::tcp::machine::Room;
use crate::tcp::memory::{Lender, MemoryAccount};

const IDLE: ProgramConfig = ProgramConfig { bytes: 0, read: usize::MAX, pause: Span::ZERO };
const HOUR: Span = Span::from_secs(3600);
/// Paths that lose four of ten segments each way, with windows of a hundred bytes, take their time.
const DAY: Span = Span::from_secs(24 * 3600);

fn writes(bytes: u64) -> ProgramConfig {
    ProgramConfig { bytes, ..IDLE }
}

/// A path and programs that are drawn from a seed.
fn drawn(seed: u64) -> WorldConfig {
    let mut rng = stream(seed, "world");
    let mut pick = |values: &[u64]| values[below(&mut rng, values.len() as u32) as usize];
    let path = PathConfig {
        delay: Span::from_us(pick(&[0, 30, 1000, 20_000, 200_000])),
        jitter: Span::from_us(pick(&[0, 0, 100, 5000])),
        loss: pick(&[0, 0, 10, 50, 200, 400]) as u32,
        repeat: pick(&[0, 0, 20, 300]) as u32,
        reorder: pick(&[0, 0, 10, 300]) as u32,
        rate: pick(&[0, 0, 100_000, 12_500_000]),
        queue: pick(&[5000, 50_000, 1_000_000]),
    };
    let mut program = || ProgramConfig {
        bytes: pick(&[0, 1, 700, 20_000, 60_000]),
        read: pick(&[1, 100, 5000, 1 << 16]) as usize,
        pause: Span::from_us(pick(&[0, 0, 100, 3000])),
    };
    let mut programs = [program(), program()];
    for program in &mut programs {
        if program.read == 1 {
            program.read = 100;
        }
    }
    WorldConfig {
        seed,
        path,
        programs,
        control: [Control::None, Control::Reno, Control::Cubic][pick(&[0, 1, 2]) as usize],
        segment: pick(&[88, 536, 1460, 8960]) as u32,
        receive: [Room::RECEIVE, Room::fixed(2304), Room::fixed(100)][pick(&[0, 0, 1, 2]) as usize],
        plain: pick(&[0, 0, 1]) == 1,
    }
}

#[test]
fn any_path_brings_all_bytes_and_ends() {
    for seed in 0..300 {
        World::new(drawn(seed)).run(DAY);
    }
}

/// Two ends that get no more than they cannot go on without, or little more: the same bytes, an end, and all is given back.
#[test]
fn any_path_ends_with_little_memory() {
    for (seed, bytes) in (0..60).zip([0, 0, 8192, 20_000].into_iter().cycle()) {
        let account = MemoryAccount::of(bytes);
        let mut world = World::with_lender(drawn(seed), Lender::of(&account));
        world.run(DAY);
        let (all, ..) = account.sums();
        // Two segments that were forced, of at most 16 KiB each, and two times the least.
        assert!(all <= bytes + (48 << 10), "{all} {world:?}");
        drop(world);
        assert_eq!(account.sums(), (0, 0, 0));
    }
}

/// A transfer that had next to nothing takes what the path gives as soon as there is memory.
#[test]
fn a_transfer_goes_on_when_memory_is_there() {
    let account = MemoryAccount::of(0);
    let path = PathConfig { delay: Span::from_ms(5), rate: 12_500_000, queue: 1 << 20, ..PathConfig::default() };
    let config = WorldConfig { path, programs: [writes(20 << 20), IDLE], ..WorldConfig::default() };
    let mut world = World::with_lender(config, Lender::of(&account));
    let begun = world.now;
    while world.now - begun < Span::from_ms(500) {
        assert!(world.step());
    }
    assert!(world.machine(0).sender.limit() <= 4096, "{world:?}");
    account.set_limits(MemoryLimits::new(1 << 30, 1 << 30, 1 << 30).expect("they do not fall"));
    let took = world.run(HOUR);
    assert!(world.machine(0).sender.limit() > 64 << 10 && world.machine(1).receiver.limit() > 64 << 10, "{world:?}");
    assert!(took < Span::from_secs(4), "{took:?} {world:?}");
}

/// The same for longer; `NAPIER_TCP_SEEDS` says how many.
#[test]
#[ignore = "takes as long as one likes"]
fn any_path_brings_all_bytes_and_ends_for_longer() {
    let count = std::env::var("NAPIER_TCP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5000);
    for seed in 1000..1000 + count {
        World::new(drawn(seed)).run(DAY);
    }
}

#[test]
fn a_path_that_does_nothing_costs_nothing() {
    let mut world = World::new(WorldConfig { programs: [writes(3_000_000), IDLE], ..WorldConfig::default() });
    let took = world.run(HOUR);
    assert_eq!(world.again, 0);
    assert!(took < Span::from_ms(500), "{took:?}: the window grows and is not held back");
}

#[test]
fn buffers_grow_with_a_long_path() {
    let path = PathConfig { delay: Span::from_ms(40), rate: 125_000_000, queue: 4 << 20, ..PathConfig::default() };
    let mut world = World::new(WorldConfig { path, programs: [writes(64 << 20), IDLE], ..WorldConfig::default() });
    let took = world.run(HOUR);
    let rate = (64 << 20) as f64 / (took.ns as f64 / 1e9);
    assert!(world.machine(1).receiver.limit() > 3 << 20, "{}", world.machine(1).receiver.limit());
    assert!(rate > 20e6, "{rate:.0} bytes a second, {world:?}");
}

#[test]
fn memory_that_is_not_used_is_given_back() {
    let path = PathConfig { delay: Span::from_ms(20), ..PathConfig::default() };
    let keeps = ProgramConfig { bytes: 4 << 20, ..IDLE };
    let mut world = World::new(WorldConfig { path, programs: [keeps, IDLE], ..WorldConfig::default() });
    world.run(HOUR);
    while world.step() {}
    for end in 0..2 {
        let machine = world.machine(end);
        assert!(machine.receiver.queue.room() <= 16 << 10 && machine.sender.queue.room() <= 16 << 10);
    }
}

/// Late segments are no losses: what was sent again needlessly is little, and the window is given back.
#[test]
fn reordering_is_not_taken_for_loss() {
    let late = PathConfig { delay: Span::from_ms(10), reorder: 10, ..PathConfig::default() };
    let jitter = PathConfig { delay: Span::from_ms(10), jitter: Span::from_ms(4), ..PathConfig::default() };
    for path in [late, jitter] {
        let mut world = World::new(WorldConfig { path, programs: [writes(20 << 20), IDLE], ..WorldConfig::default() });
        let took = world.run(HOUR);
        assert!(world.again * 50 < world.sent, "{} of {} sent again", world.again, world.sent);
        assert!(took < Span::from_secs(4), "{took:?} {world:?}");
    }
}

/// A peer that reads slowly, with a small window: no byte is lost and nothing stands still for longer than a probe.
#[test]
fn a_window_that_closes_opens_again() {
    for loss in [0, 100] {
        let path = PathConfig { delay: Span::from_ms(5), loss, ..PathConfig::default() };
        let slow = ProgramConfig { bytes: 0, read: 700, pause: Span::from_ms(30) };
        let config = WorldConfig {
            path,
            programs: [writes(100_000), slow],
            receive: Room::fixed(4000),
            ..WorldConfig::default()
        };
        World::new(config).run(Span::from_secs(600));
    }
}

/// Requests and answers that are lost are repaired in about a time-out each.
#[test]
fn both_directions_at_once() {
    for seed in 0..20 {
        let path = PathConfig { delay: Span::from_ms(5), loss: 50, ..PathConfig::default() };
        let programs = [writes(300_000), writes(300_000)];
        World::new(WorldConfig { seed, path, programs, ..WorldConfig::default() }).run(Span::from_secs(120));
    }
}
