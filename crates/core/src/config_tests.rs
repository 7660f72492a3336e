use super::*;
use crate::time::Span;

fn dhi(defer_hard_irqs: u32) -> Tunables {
    Tunables { defer_hard_irqs, ..Tunables::default() }
}

#[test]
fn one_slot_per_queue() {
    assert_eq!(ConfigTable::new(2, 4).slots().len(), 4);
    assert_eq!(ConfigTable::new(4, 1).slots().len(), 4);
    assert!(ConfigTable::new(1, 1).slots().iter().all(|slot| *slot == ConfigSlot::default()));
}

#[test]
fn the_id_survives_and_the_tunables_are_those_at_disable() {
    let mut table = ConfigTable::new(2, 2);
    assert_eq!(table.restore(1, || 42).napi_id, Some(42));
    table.save(1, dhi(3));
    table.set_threaded(1, ThreadedSetting::BusyPoll);
    let slot = table.restore(1, || panic!("it has an id"));
    let want = ConfigSlot { tunables: dhi(3), threaded: ThreadedSetting::BusyPoll, napi_id: Some(42) };
    assert_eq!(slot, want);
    assert_eq!(table.slots()[0], ConfigSlot::default());
}

/// A device write while the device is down changes the field written, in every slot, and no other.
#[test]
fn write_all_writes_one_field_everywhere() {
    let mut table = ConfigTable::new(2, 2);
    let ist = Span::from_ns(777);
    table.save(0, Tunables { irq_suspend_timeout: ist, ..dhi(3) });
    table.set_threaded(1, ThreadedSetting::BusyPoll);
    let gft = Span::from_us(20);
    table.write_all(DevSetting::GroFlushTimeout(gft));
    let kept = Tunables { defer_hard_irqs: 3, gro_flush_timeout: gft, irq_suspend_timeout: ist };
    assert_eq!(table.slots()[0].tunables, kept);
    assert_eq!(table.slots()[1].tunables, Tunables { gro_flush_timeout: gft, ..dhi(0) });
    assert_eq!(table.slots()[1].threaded, ThreadedSetting::BusyPoll);
    table.write_all(DevSetting::NapiDeferHardIrqs(4));
    assert!(table.slots().iter().all(|slot| slot.tunables.defer_hard_irqs == 4));
    // From busy-poll to enabled as well.
    table.write_all(DevSetting::Threaded(ThreadedSetting::Enabled));
    assert!(table.slots().iter().all(|slot| slot.threaded == ThreadedSetting::Enabled));
    assert_eq!(table.slots()[0].tunables, Tunables { defer_hard_irqs: 4, ..kept });
}
