use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn a_program_begins_with_none_of_it() {
    let cx = Context::current();
    assert!(cx == Context::PROGRAM && cx.may_run_inline() && !cx.in_softirq() && !cx.serves());
    assert_eq!((cx.thread_of(), cx.handles(), cx.softirq_cpu()), (None, None, None));
}

#[test]
fn what_a_thread_is_on_comes_from_the_innermost() {
    let thread = Context::of_thread(3);
    assert_eq!(thread.softirq_cpu(), Some(3));
    assert!(thread.looks_after(3) && !thread.looks_after(0) && !thread.may_run_inline());
    let serving = Context::PROGRAM.with_cpu(SERVES, Some(1));
    assert_eq!((serving.softirq_cpu(), serving.thread_of()), (Some(1), None));
    assert!(serving.serves() && serving.looks_after(1) && serving.may_run_inline());
    let handling = serving.with_cpu(HANDLES, Some(2));
    assert_eq!((handling.softirq_cpu(), handling.handles()), (Some(2), Some(2)));
    assert!(handling.in_softirq() && !handling.may_run_inline());
    assert_eq!(handling.with_cpu(HANDLES, None).softirq_cpu(), Some(1));
}

#[test]
fn a_scope_ends_as_it_began() {
    let cx = Context::current();
    {
        let cx = cx.serve(0);
        {
            let cx = cx.inline_on(5);
            assert!(cx.is_inline() && cx.serves() && *cx == Context::current());
            assert_eq!(cx.handles(), Some(5));
        }
        assert!(*cx == Context::current() && !cx.is_inline());
    }
    assert!(Context::current() == cx);
}

#[test]
fn a_scope_ends_with_a_panic() {
    let cx = Context::current();
    let polls = || {
        let cx = cx.poll_on();
        let cx = cx.inline_on(0);
        assert!(!cx.may_run_inline());
        panic!("looked for");
    };
    assert!(catch_unwind(AssertUnwindSafe(polls)).is_err());
    assert!(Context::current() == cx && cx.may_run_inline());
}

#[test]
fn who_takes_over_raises_elsewhere_or_polls_here() {
    let duty = Context::PROGRAM.kick_only();
    {
        let elsewhere = duty.take_over(Some(1));
        assert!(elsewhere.is_inline() && !elsewhere.kicks_only() && !elsewhere.may_run_inline());
    }
    let here = duty.take_over(None);
    assert!(here.may_run_inline());
}
