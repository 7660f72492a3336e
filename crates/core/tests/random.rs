//! Long random stories in larger worlds than the walk can exhaust.
mod model;

use model::{Config, Step, World, Wrong};
use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::time::Span;
use napier_testkit::explore::{Label, World as _};
use proptest::prelude::*;

/// The pool last: only the engine has it.
const ALL_MODES: &[ThreadedSetting] = &ThreadedSetting::ALL;
/// Steps in which the machinery alone must have drained the device. Every choice of a busy poller to go on is a
/// coin toss, so this is far more than needed.
const DRAIN_STEPS_MAX: usize = 5_000;

fn config() -> impl Strategy<Value = Config> {
    let tunables = (0u32..4, any::<bool>(), any::<bool>()).prop_map(|(dhi, gft, ist)| Tunables {
        defer_hard_irqs: dhi,
        gro_flush_timeout: if gft { Span::from_us(20) } else { Span::ZERO },
        irq_suspend_timeout: if ist { Span::from_ms(20) } else { Span::ZERO },
    });
    let user = prop::sample::select(vec![&[][..], &[true][..], &[false][..], &[false, true][..]]);
    let modes = prop::sample::select(vec![&[][..], &ALL_MODES[..2], &ALL_MODES[..3], ALL_MODES]);
    let shape = (1u8..9, 1u8..5, 1u8..4, any::<bool>(), any::<bool>(), any::<bool>());
    (tunables, user, modes, shape).prop_map(|(tunables, user, modes, shape)| {
        let (pending_max, weight, busy_budget, gro, epoll, at_once) = shape;
        let modes: &[_] = modes;
        Config {
            tunables,
            pending_max,
            weight,
            busy_budget,
            gro,
            user,
            epoll,
            modes,
            at_once: at_once || modes.contains(&ThreadedSetting::Workqueue),
            updown: true,
            wrong: Wrong::Nothing,
        }
    })
}

/// Takes the step that `choice` chooses; the story so far goes into every failure.
fn take(world: &mut World, config: &Config, steps: &mut Vec<Step>, choice: u16, story: &mut Vec<Label>) {
    let Some(count) = std::num::NonZero::new(steps.len()) else { return };
    let step = steps.swap_remove(usize::from(choice) % count);
    story.push(step.label);
    let before = std::mem::replace(world, step.outcome.expect("a step breaks a rule only by what it leads to"));
    if let Err(rule) = before.check_step(world).and_then(|()| world.check(config)) {
        let tail = &story[story.len().saturating_sub(60)..];
        panic!("{rule}\n{}\n{world:#?}", tail.join("\n"));
    }
}

fn settings() -> ProptestConfig {
    let cases = if cfg!(miri) { 2 } else { 512 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const STORY_STEPS_MAX: usize = if cfg!(miri) { 60 } else { 1500 };

proptest! {
    #![proptest_config(settings())]

    /// Whatever happened, the invariants hold after every step; then the environment falls silent, and the machinery
    /// drains the device and brings the controller to its end.
    #[test]
    fn stories_end_well(
        config in config(),
        choices in prop::collection::vec(any::<u16>(), 1..STORY_STEPS_MAX),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(&config);
        let mut steps = Vec::new();
        let mut story = Vec::new();
        for choice in choices {
            steps.clear();
            world.steps(&config, &mut steps);
            // Disables are rare, or nothing else would ever happen.
            if choice % 8 != 0 {
                steps.retain(|step| step.label != "disable: begin");
            }
            take(&mut world, &config, &mut steps, choice / 8, &mut story);
        }
        let mut random = seed | 1;
        let mut quiet = false;
        for _ in 0..DRAIN_STEPS_MAX {
            let rested = !world.word.contains(napier_core::state::State::DISABLE);
            if world.is_down() || (rested && world.is_drained()) {
                quiet = true;
                break;
            }
            steps.clear();
            world.steps(&config, &mut steps);
            steps.retain(|step| step.by_itself);
            prop_assert!(!steps.is_empty(), "nothing goes on\n{:#?}", world);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            take(&mut world, &config, &mut steps, (random >> 40) as u16, &mut story);
        }
        prop_assert!(quiet, "not drained\n{:#?}", world);
    }
}
