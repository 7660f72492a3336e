//! Stories of one instance with a virtual clock: which polls, timers and unmasks the modes lead to, and when.
#[path = "scenarios/bench.rs"]
mod bench;

use bench::{Bench, Event, FIRST_ID, ID, ITERATION};
use napier_core::event::EpollParams;
use napier_core::time::{Deadline, Instant, Span};

const ZERO: Span = Span::ZERO;
const GFT: Span = Span::from_ms(2);
const IST: Span = Span::from_ms(40);

const fn soft(work: u32) -> Event {
    Event::Soft { work, budget: 64 }
}

const fn user(work: u32) -> Event {
    Event::User { work, budget: 8 }
}

mod deferral {
    use super::*;

    #[test]
    fn plain_interrupts_poll_once() {
        for (dhi, gft) in [(0, ZERO), (3, ZERO), (0, GFT)] {
            let mut bench = Bench::new(dhi, gft, ZERO);
            bench.packet();
            bench.advance(Span::from_ms(50));
            assert_eq!(bench.events(), [soft(1), Event::Unmask], "dhi={dhi} gft={gft:?}");
            assert_eq!(bench.defers_left, dhi.saturating_sub(1));
        }
    }

    /// As many timers and empty polls as deferrals, one time-out apart; only the last completion unmasks.
    #[test]
    fn deferrals_are_counted_off() {
        for dhi in 1..=3u32 {
            let mut bench = Bench::new(dhi, GFT, ZERO);
            let start = bench.now;
            bench.packet();
            bench.advance(Span::from_ms(50));
            let mut want = vec![(start, soft(1)), (start, Event::Start(GFT))];
            let mut now = start;
            for left in (0..dhi).rev() {
                now += GFT;
                let end = if left > 0 { Event::Start(GFT) } else { Event::Unmask };
                want.extend([Event::Fire, soft(0), end].map(|event| (now, event)));
            }
            assert_eq!(bench.log, want);
            assert!(!bench.masked);
        }
    }

    /// A packet that comes while the interrupt is deferred waits for the timer, and reloads the counter.
    #[test]
    fn a_packet_during_deferral_waits() {
        let mut bench = Bench::new(1, Span::from_ms(20), ZERO);
        let start = bench.now;
        bench.packet();
        bench.advance(Span::from_ms(5));
        bench.packet();
        assert_eq!(bench.delivered_at.len(), 1);
        bench.advance(Span::from_ms(50));
        assert_eq!(bench.delivered_at[1], start + Span::from_ms(20));
        assert_eq!(bench.soft_polls(), 3);
        assert!(!bench.masked);
    }

    /// Setting the time-out to 0 in mid-run ends the deferral at the next firing; the pending timer is not re-timed.
    #[test]
    fn a_cleared_timeout_ends_at_the_next_firing() {
        let mut bench = Bench::new(3, GFT, ZERO);
        bench.packet();
        bench.advance(Span::from_ms(1));
        bench.tunables.gro_flush_timeout = ZERO;
        bench.advance(Span::from_ms(50));
        assert_eq!(bench.events(), [soft(1), Event::Start(GFT), Event::Fire, soft(0), Event::Unmask]);
    }

    /// The last arming wins.
    #[test]
    fn one_timer() {
        let mut bench = Bench::new(0, ZERO, ZERO);
        let start = bench.now;
        bench.arm(Span::from_ms(5));
        bench.advance(Span::from_ms(1));
        bench.arm(Span::from_ms(1));
        bench.advance(Span::from_ms(50));
        let fired: Vec<Instant> =
            bench.log.iter().filter(|(_, event)| *event == Event::Fire).map(|(at, _)| *at).collect();
        assert_eq!(fired, [start + Span::from_ms(2)]);
    }
}

mod socket {
    use super::*;

    #[test]
    fn a_receive_that_does_not_block_polls_twice() {
        for (prefer, dhi, gft) in [(false, 0, ZERO), (true, 0, ZERO), (false, 2, Span::from_ms(3))] {
            let mut bench = Bench::new(dhi, gft, ZERO);
            bench.socket.busy_poll_usecs = 200;
            bench.set_prefer(prefer);
            assert!(!bench.recv(true));
            assert_eq!(bench.events(), [user(0), user(0), Event::Unmask]);
        }
        let mut bench = Bench::new(0, ZERO, ZERO);
        bench.socket.busy_poll_usecs = 200;
        bench.socket.budget = 64;
        bench.recv(true);
        assert_eq!(bench.events()[..2], [Event::User { work: 0, budget: 64 }; 2]);
    }

    #[test]
    fn a_socket_that_may_not_does_not() {
        let mut bench = Bench::new(0, ZERO, ZERO);
        bench.recv(true);
        bench.socket.busy_poll_usecs = 200;
        bench.socket.napi_id = FIRST_ID - 1;
        bench.recv(false);
        assert_eq!(bench.log, []);
    }

    /// More than 200 and at most about 201 units of 1024 ns, then one stop poll.
    #[test]
    fn a_blocking_receive_spins_its_time() {
        let mut bench = Bench::new(0, ZERO, ZERO);
        bench.socket.busy_poll_usecs = 200;
        let start = bench.now;
        assert!(!bench.recv(false));
        let spun = (bench.now - start).ns;
        assert!(spun > 200 * 1024 && spun <= 201 * 1024 + ITERATION.ns, "{spun}");
        let iterations = spun / ITERATION.ns;
        assert_eq!(bench.user_polls() as u64, iterations + 1);
    }

    /// The pledge: one poll, no unmask, and `dhi + 1` timers until the pledge is revoked.
    #[test]
    fn prefer_with_deferral_arms_instead_of_polling() {
        let gft = Span::from_ms(3);
        let mut bench = Bench::new(2, gft, ZERO);
        bench.socket.busy_poll_usecs = 200;
        bench.set_prefer(true);
        bench.recv(true);
        assert_eq!(bench.events(), [user(0), Event::Start(gft)]);
        bench.advance(Span::from_ms(50));
        assert_eq!(bench.count(|event| *event == Event::Start(gft)), 3);
        assert_eq!(bench.count(|event| *event == Event::Fire), 3);
        assert_eq!((bench.user_polls(), bench.soft_polls()), (1, 3));
        assert_eq!(bench.events().last(), Some(&Event::Unmask));
    }

    /// An application that comes back in time keeps softirq and interrupts away.
    #[test]
    fn a_kept_pledge_needs_no_softirq() {
        let mut bench = Bench::new(2, Span::from_ms(3), ZERO);
        bench.socket.busy_poll_usecs = 200;
        bench.set_prefer(true);
        bench.packet();
        for _ in 0..8 {
            bench.queue = 0;
            bench.advance(Span::from_us(1300));
            bench.packet();
            assert!(bench.recv(true));
        }
        assert_eq!(bench.soft_polls(), 1);
        assert_eq!(bench.count(|event| *event == Event::Unmask), 0);
    }

    /// A stop poll that uses its whole budget hands over to softirq, which goes on with its own.
    #[test]
    fn a_full_stop_poll_hands_over() {
        let mut bench = Bench::new(0, ZERO, ZERO);
        bench.socket.busy_poll_usecs = 200;
        bench.masked = true;
        bench.pending = 20;
        assert!(bench.recv(true));
        assert_eq!(bench.events(), [user(8), user(8), soft(4), Event::Unmask]);
    }
}

mod epoll {
    use super::*;

    fn attached(dhi: u32, gft: Span, ist: Span, params: EpollParams) -> Bench {
        let mut bench = Bench::new(dhi, gft, ist);
        bench.params = params;
        bench.slot = ID;
        bench
    }

    const PREFER: EpollParams = EpollParams { busy_poll_usecs: 0, busy_poll_budget: 0, prefer_busy_poll: true };

    #[test]
    fn a_wait_of_zero_does_not_poll() {
        let mut bench = attached(0, ZERO, ZERO, PREFER);
        assert_eq!(bench.epoll_wait(Some(ZERO), 8), 0);
        assert_eq!(bench.log, []);
    }

    /// Prefer alone: one iteration and the stop. After a fruitless loop the slot is empty, until an event fills it.
    #[test]
    fn one_iteration_then_sleep_until_the_slot_is_filled_again() {
        let mut bench = attached(0, ZERO, ZERO, PREFER);
        assert_eq!(bench.epoll_wait(Some(Span::from_ms(1)), 8), 0);
        assert_eq!((bench.user_polls(), bench.slot), (2, 0));
        assert_eq!(bench.epoll_wait(Some(Span::from_ms(1)), 8), 0);
        assert_eq!(bench.user_polls(), 2, "empty slot: straight to sleep");
        bench.arrivals = vec![bench.now + Span::from_us(100)];
        assert_eq!(bench.epoll_wait(None, 8), 1);
        assert_eq!((bench.user_polls(), bench.slot), (2, ID));
        assert_eq!(bench.epoll_wait(Some(Span::from_ms(1)), 8), 0);
        assert_eq!(bench.user_polls(), 4);
    }

    /// A member that was added before the parameters were set attaches nothing until its next event.
    #[test]
    fn parameters_after_the_member_come_too_late() {
        let mut bench = attached(0, ZERO, ZERO, PREFER);
        bench.slot = 0;
        assert_eq!(bench.epoll_wait(Some(Span::from_ms(1)), 8), 0);
        assert_eq!(bench.log, []);
    }

    #[test]
    fn the_time_limit_is_the_contexts_or_the_sysctls() {
        let context = EpollParams { busy_poll_usecs: 100, ..EpollParams::default() };
        for (params, sysctl) in [(context, 0), (context, 7), (EpollParams::default(), 100)] {
            let mut bench = attached(0, ZERO, ZERO, params);
            bench.sysctl_busy_poll = sysctl;
            let start = bench.now;
            assert_eq!(bench.epoll_wait(Some(Span::from_us(1)), 8), 0);
            let spun = (bench.now - start).ns;
            assert!(spun > 100 * 1024 && spun <= 101 * 1024 + ITERATION.ns, "{spun}");
            assert_eq!(bench.user_polls() as u64, spun / ITERATION.ns + 1);
        }
    }

    #[test]
    fn what_is_left_over_is_returned_without_a_poll() {
        let mut bench = attached(0, ZERO, IST, PREFER);
        bench.queue = 2;
        assert_eq!(bench.epoll_wait(None, 1), 1);
        assert_eq!(bench.epoll_wait(None, 1), 1);
        assert_eq!(bench.events(), [Event::Start(IST); 2]);
    }

    mod suspension {
        use super::*;

        /// A packet came by interrupt, and the application returned with it while the interrupt is deferred.
        fn suspended() -> Bench {
            let mut bench = attached(2, GFT, IST, PREFER);
            bench.packet();
            assert_eq!(bench.epoll_wait(None, 8), 1);
            let want = [soft(1), Event::Start(GFT), Event::Start(IST)];
            assert_eq!(bench.events(), want);
            assert_eq!(bench.timer, Deadline::after(bench.now, IST));
            bench.log.clear();
            bench
        }

        #[test]
        fn an_idle_application_is_waited_for() {
            let mut bench = suspended();
            let start = bench.now;
            bench.advance(Span::from_ms(1));
            bench.packet();
            bench.advance(Span::from_ms(100));
            assert_eq!(bench.delivered_at.last(), Some(&(start + IST)));
            assert!(!bench.masked);
        }

        /// An empty wait: the stop arms the short timer, the resume polls at once, and deferral goes on.
        #[test]
        fn an_empty_wait_resumes() {
            let mut bench = suspended();
            assert_eq!(bench.epoll_wait(Some(Span::from_us(10)), 8), 0);
            let want = [user(0), Event::Start(GFT), soft(0), Event::Start(GFT)];
            assert_eq!(bench.events(), want);
            bench.advance(Span::from_ms(100));
            assert_eq!(
                bench.events()[4..],
                [Event::Fire, soft(0), Event::Start(GFT), Event::Fire, soft(0), Event::Unmask]
            );
        }

        #[test]
        fn the_next_events_suspend_anew() {
            let mut bench = suspended();
            bench.advance(Span::from_ms(1));
            bench.packet();
            assert_eq!(bench.epoll_wait(None, 8), 1);
            assert_eq!(bench.events(), [user(1), Event::Start(GFT), Event::Start(IST)]);
        }

        #[test]
        fn closing_polls_at_once() {
            let mut bench = suspended();
            bench.close();
            assert_eq!(bench.events(), [soft(0), Event::Start(GFT)]);
            // Without deferral the old timer is what is left, and fires once.
            let mut bench = attached(0, ZERO, IST, PREFER);
            bench.packet();
            bench.epoll_wait(None, 8);
            bench.log.clear();
            bench.close();
            bench.advance(Span::from_ms(100));
            assert_eq!(bench.events(), [soft(0), Event::Unmask, Event::Fire, soft(0), Event::Unmask]);
        }

        #[test]
        fn clearing_prefer_does_not_end_it() {
            let mut bench = suspended();
            let start = bench.now;
            bench.params.prefer_busy_poll = false;
            assert_eq!(bench.epoll_wait(Some(Span::from_ms(1)), 8), 0);
            bench.close();
            bench.advance(Span::from_ms(30));
            assert_eq!(bench.log, []);
            bench.advance(Span::from_ms(30));
            assert_eq!(bench.log[0], (start + IST, Event::Fire));
        }

        #[test]
        fn a_cleared_timeout_makes_resuming_nothing() {
            let mut bench = suspended();
            bench.tunables.irq_suspend_timeout = ZERO;
            assert_eq!(bench.epoll_wait(Some(Span::from_us(10)), 8), 0);
            assert_eq!(bench.events(), [user(0), Event::Start(GFT)]);
            bench.advance(Span::from_ms(1));
            assert_eq!(bench.soft_polls(), 0);
        }

        /// Without deferral there is nothing to stretch: the interrupt is live, and one empty poll comes at the end.
        #[test]
        fn without_deferral_it_is_one_spurious_poll() {
            let mut bench = attached(0, ZERO, IST, PREFER);
            bench.packet();
            assert_eq!(bench.epoll_wait(None, 8), 1);
            assert!(!bench.masked);
            bench.advance(Span::from_ms(1));
            bench.packet();
            assert_eq!(bench.delivered_at.last(), Some(&bench.now));
            bench.advance(Span::from_ms(100));
            let want = [
                soft(1),
                Event::Unmask,
                Event::Start(IST),
                soft(1),
                Event::Unmask,
                Event::Fire,
                soft(0),
                Event::Unmask,
            ];
            assert_eq!(bench.events(), want);
        }

        #[test]
        fn twenty_waits_of_zero_leave_it_alone() {
            let mut bench = suspended();
            let timer = bench.timer;
            for _ in 0..20 {
                assert_eq!(bench.epoll_wait(Some(ZERO), 8), 0);
            }
            assert_eq!((bench.events(), bench.timer), (vec![], timer));
        }

        /// The application was woken by the poll that delivers, and suspends before that poll completes: the completion's
        /// shorter timer wins.
        #[test]
        fn a_suspension_inside_the_delivering_poll_is_overridden() {
            let mut bench = attached(2, GFT, IST, PREFER);
            bench.suspend_inside_poll = true;
            bench.packet();
            assert_eq!(bench.events(), [soft(1), Event::Start(IST), Event::Start(GFT)]);
            assert_eq!(bench.timer, Deadline::after(bench.now, GFT));
        }

        #[test]
        fn a_disable_cancels_it() {
            let mut bench = suspended();
            bench.disable();
            bench.advance(Span::from_ms(100));
            assert_eq!(bench.log, []);
        }
    }
}
