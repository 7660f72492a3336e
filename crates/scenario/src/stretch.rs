//! The same scenario with all its times longer, for machines that are too slow for it.

use napier_core::control::DevAttribute;
use napier_core::time::{Instant, Span};

use crate::{Action, Call, Kind, Pattern, Scenario};

impl Scenario {
    /// With all times multiplied: of the timeline, of calls, of what is expected; and, if polls or timers are watched, of the settings
    /// that they come from. What a scenario only sets and reads back stays as it is.
    #[must_use]
    pub fn stretched(&self, times: u32) -> Self {
        let mut long = self.clone();
        let settings = self.expect.watch.iter().any(|kind| {
            matches!(kind, Kind::Poll | Kind::TimerStart | Kind::TimerFire | Kind::TimerCancel | Kind::Deliver)
        });
        for step in &mut long.timeline {
            step.at = Instant::from_ns(step.at.ns.saturating_mul(times.into()));
            match &mut step.action {
                Action::Packets(packets) => stretch(&mut packets.every, times),
                Action::Call { call, .. } => stretch_call(call, times, settings),
                _ => {}
            }
        }
        stretch(&mut long.expect.settle, times);
        for expected in &mut long.expect.events {
            expected.at = expected.at.map(|at| Instant::from_ns(at.ns.saturating_mul(times.into())));
            for (_, pattern) in &mut expected.fields {
                match pattern {
                    Pattern::Span(span) => stretch(span, times),
                    Pattern::Attributes(read) if settings => stretch_read(read, times),
                    Pattern::Attributes(_) | Pattern::Number(_) | Pattern::Text(_) | Pattern::Names(_) => {}
                }
            }
        }
        if settings {
            stretch_machine(&mut long, times);
        }
        long
    }
}

fn stretch_machine(long: &mut Scenario, times: u32) {
    let machine = &mut long.machine;
    for device in &mut machine.devices {
        stretch(&mut device.tunables.gro_flush_timeout, times);
        stretch(&mut device.tunables.irq_suspend_timeout, times);
    }
    let busy = machine.sockets.iter_mut().map(|socket| &mut socket.busy.busy_poll_usecs);
    let busy = busy.chain(machine.epolls.iter_mut().map(|epoll| &mut epoll.params.busy_poll_usecs));
    for usecs in busy.chain([&mut machine.sysctl.busy_poll, &mut machine.sysctl.busy_read]) {
        // The kernel takes an int.
        *usecs = usecs.saturating_mul(times).min(i32::MAX.unsigned_abs());
    }
}

fn stretch(span: &mut Span, times: u32) {
    *span = Span::from_ns(span.ns.saturating_mul(times.into()));
}

/// What is read back of settings that were stretched; a word, such as `none`, stays.
fn stretch_read(read: &mut [(String, String)], times: u32) {
    for (_, value) in read.iter_mut().filter(|(name, _)| name.ends_with("-timeout")) {
        if let Ok(number) = value.parse::<u64>() {
            *value = number.saturating_mul(times.into()).to_string();
        }
    }
}

fn stretch_call(call: &mut Call, times: u32, settings: bool) {
    match call {
        Call::Recv { timeout: Some(timeout), .. }
        | Call::EpollWait { timeout: Some(timeout), .. }
        | Call::Poll { timeout: Some(timeout), .. } => stretch(timeout, times),
        Call::NapiSet { attributes, .. } if settings => {
            for (_, value) in attributes.iter_mut().filter(|(name, _)| name.ends_with("-timeout")) {
                *value = value.saturating_mul(times.into());
            }
        }
        // The kernel takes an int, and what it refuses stays what it refuses.
        Call::Sysctl { name, value }
            if settings && *value > 0 && ["busy_poll", "busy_read"].contains(&name.as_str()) =>
        {
            *value = value.saturating_mul(times.into()).min(i32::MAX.into()).max(*value);
        }
        Call::Write { file: DevAttribute::GroFlushTimeout, value, .. } if settings => {
            if let Ok(number) = value.parse::<u64>() {
                *value = number.saturating_mul(times.into()).to_string();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_and_the_settings_behind_them_are_longer() {
        let text = "title = \"t\"\n[[device]]\nname = \"eth0\"\ngro-flush-timeout = \"4ms\"\n[[socket]]\nname = \"rx\"\n[timeline]\n\
                    steps = [{ at = \"1ms\", call = \"recv\", socket = \"rx\", timeout = \"2ms\" }]\n[expect]\n\
                    events = [{ at = \"1ms\", timer-start = \"eth0/0\", after = \"4ms\" }]\n";
        let long = Scenario::parse(text, "x").expect("a scenario").stretched(10);
        let text = long.to_toml();
        for part in ["gro-flush-timeout = \"40ms\"", "at = \"10ms\"", "timeout = \"20ms\"", "after = \"40ms\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // What is read back of a setting is the setting; knobs are settings too.
        let text = "title = \"t\"\n[timeline]\nsteps = [{ at = \"1ms\", call = \"sysctl\", name = \"busy_read\", value = 77 }, { at = \
                    \"2ms\", call = \"napi-get\", napi = \"eth0/0\" }]\n[expect]\nwatch = [\"poll\", \"return\"]\nevents = [{ return = \"ctl\" }, \
                    { return = \"ctl\", call = \"napi-get\", value = { threaded = \"disabled\", gro-flush-timeout = 5000, defer-hard-irqs = 3 } \
                    }]\n";
        let long = Scenario::parse(text, "x").expect("a scenario").stretched(10).to_toml();
        let plain = long.replace('"', "");
        for part in ["value = 770", "gro-flush-timeout = 50000", "defer-hard-irqs = 3"] {
            assert!(plain.contains(part), "{part}: {long}");
        }
        // What is only set and read stays.
        let set = "title = \"t\"\n[timeline]\nsteps = [{ at = \"1ms\", call = \"napi-set\", napi = \"eth0/0\", attributes = \
                   { gro-flush-timeout = 7 } }]\n[expect]\nwatch = [\"return\"]\nevents = [{ return = \"ctl\" }]\n";
        let kept = Scenario::parse(set, "x").expect("a scenario").stretched(10).to_toml();
        assert!(kept.contains("\"gro-flush-timeout\" = 7"), "{kept}");
    }
}
