//! Sleepers that a poll of a thread has told something, and that it calls when the poll is over ([`napier_core::waking`]).

use std::sync::Arc;

use napier_core::waking::{CallWhen, OWED_MAX, OwedByPoll};
use napier_stack::host::{Sleeper, Whom};

/// One of them.
pub(crate) type OwedCall = (Arc<dyn Sleeper>, Whom);

/// The calls that a thread owes. Nothing is allocated for them: a poll does not.
pub(crate) struct OwedCalls {
    owed: OwedByPoll,
    calls: [Option<OwedCall>; OWED_MAX],
}

impl OwedCalls {
    pub(crate) const fn new() -> Self {
        Self { owed: OwedByPoll::NONE, calls: [const { None }; OWED_MAX] }
    }

    /// A sleeper was told. False: it is to be called now.
    pub(crate) fn told(
        &mut self,
        sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>,
        whom: Whom,
        shares_cpu: bool,
    ) -> bool {
        let (owed, CallWhen::AtEnd) = self.owed.told(shares_cpu) else { return false };
        // What is not shared any more cannot be kept.
        let Some(sleeper) = sleeper() else { return false };
        let free = self.calls.iter_mut().find(|call| call.is_none()).expect("no more are owed than fit");
        (*free, self.owed) = (Some((sleeper, whom)), owed);
        true
    }

    /// The next call to make: who was told first is called first.
    pub(crate) fn take(&mut self) -> Option<OwedCall> {
        self.owed = self.owed.called()?;
        Some(self.calls.iter_mut().find_map(Option::take).expect("as many are kept as are owed"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Sleeps(Mutex<Vec<Whom>>);

    impl Sleeper for Sleeps {
        fn call(&self, whom: Whom) {
            self.0.lock().unwrap().push(whom);
        }
    }

    #[test]
    fn calls_are_made_in_the_order_of_the_telling() {
        let sleeps = Arc::new(Sleeps::default());
        let mut owed = OwedCalls::new();
        let mut tell = |whom, shares_cpu| owed.told(&|| Some(sleeps.clone()), whom, shares_cpu);
        assert!(tell(Whom::Writer, true) && tell(Whom::Reader, true) && !tell(Whom::Reader, false));
        while let Some((sleeper, whom)) = owed.take() {
            sleeper.call(whom);
        }
        assert_eq!(*sleeps.0.lock().unwrap(), [Whom::Writer, Whom::Reader]);
    }

    #[test]
    fn what_does_not_fit_or_is_gone_is_called_now() {
        let sleeps = Arc::new(Sleeps::default());
        let mut owed = OwedCalls::new();
        assert!(!owed.told(&|| None, Whom::Reader, true));
        let kept = (0..OWED_MAX + 1).filter(|_| owed.told(&|| Some(sleeps.clone()), Whom::Reader, true)).count();
        assert_eq!(kept, OWED_MAX);
        assert_eq!(std::iter::from_fn(|| owed.take()).count(), OWED_MAX);
        assert!(owed.told(&|| Some(sleeps.clone()), Whom::Reader, true), "there is room again");
    }
}
