//! The handle by which code on a virtual CPU acts: it changes the world at once, then spends time.
//!
//! Kernel code is written as `async fn`: between two `.await`s everything happens at one instant of virtual time, and
//! each `.await` is a place where an interrupt, another CPU or the scheduler may come in between.

use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use napier_core::time::{Deadline, Span};

use super::work::Work;
use super::world::World;

/// A context that executes: a CPU's interrupt or softirq level, or a thread.
pub(super) type CtxId = usize;

/// What a context asks of the machine.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Go on after so many nanoseconds of CPU time.
    Spend(u64),
    /// Sleep until woken, or until the deadline.
    Block(Deadline),
    /// The level has nothing to do.
    Park,
    /// Another thread may run first, if one should.
    Resched,
}

/// Shared by the executor and all contexts.
pub(super) struct Vm {
    world: RefCell<World>,
    request: Cell<Option<Request>>,
}

impl Vm {
    pub(super) fn new(world: World) -> Rc<Self> {
        Rc::new(Self { world: RefCell::new(world), request: Cell::new(None) })
    }

    pub(super) fn w(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    pub(super) fn take_request(&self) -> Option<Request> {
        self.request.take()
    }
}

/// Which level a context runs at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Hard,
    Soft,
    Task,
}

/// A context's view of the machine.
#[derive(Clone)]
pub(super) struct K {
    vm: Rc<Vm>,
    pub(super) me: CtxId,
    /// Where it is, which the scheduler changes between two of its steps.
    at: Rc<Cell<usize>>,
    pub(super) level: Level,
}

impl K {
    pub(super) fn new(vm: Rc<Vm>, me: CtxId, level: Level) -> Self {
        let at = vm.w().ctxs[me].cpu.clone();
        Self { vm, me, at, level }
    }

    /// The CPU that it is on.
    #[inline]
    pub(super) fn cpu(&self) -> usize {
        self.at.get()
    }

    /// The world, for as long as one expression.
    #[inline]
    pub(super) fn w(&self) -> RefMut<'_, World> {
        self.vm.w()
    }

    fn ask(&self, request: Request) -> Ask<'_> {
        Ask { vm: &self.vm, request: Some(request) }
    }

    /// Spends CPU time.
    #[inline]
    pub(super) async fn spend(&self, span: Span) {
        let ns = self.w().jittered(span);
        if ns > 0 {
            self.ask(Request::Spend(ns)).await;
        }
    }

    /// Does work of one kind.
    #[inline]
    pub(super) async fn work(&self, work: Work) {
        self.works(&[(work, 1)]).await;
    }

    /// Does work of several kinds, each so many times, with nothing in between.
    #[inline]
    pub(super) async fn works(&self, works: &[(Work, u64)]) {
        let ns = self.w().time_for(self.cpu(), self.level, works);
        if ns > 0 {
            self.ask(Request::Spend(ns)).await;
        }
    }

    /// Spends what one atomic step costs.
    #[inline]
    pub(super) async fn op(&self) {
        self.work(Work::Op).await;
    }

    /// Sleeps until woken or until the deadline. Nothing happens between the caller's last look and the sleep.
    pub(super) async fn block(&self, until: Deadline) {
        debug_assert!(self.level == Level::Task, "only a thread sleeps");
        self.ask(Request::Block(until)).await;
    }

    /// Sleeps for a while.
    pub(super) async fn pause(&self, span: Span) {
        let until = Deadline::after(self.w().now, span);
        self.block(until).await;
    }

    /// An interrupt or softirq level has nothing left to do.
    pub(super) async fn park(&self) {
        self.ask(Request::Park).await;
    }

    /// `cond_resched`.
    pub(super) async fn cond_resched(&self) {
        self.ask(Request::Resched).await;
    }

    /// Softirqs stay out of this thread.
    pub(super) fn bh_off(&self) {
        if self.level == Level::Task {
            self.w().ctxs[self.me].bh_off += 1;
        }
    }

    /// Softirqs may run again; those that are pending run now.
    pub(super) async fn bh_on(&self) {
        if self.level == Level::Task && self.w().bh_enabled(self.me) {
            self.ask(Request::Spend(0)).await;
        }
    }

    /// As [`Self::bh_on`], but what is pending waits for the caller.
    pub(super) fn bh_on_quietly(&self) {
        self.w().ctxs[self.me].bh_off -= 1;
    }

    /// No other thread runs on this CPU.
    pub(super) fn preempt_off(&self) {
        self.w().ctxs[self.me].preempt_off += 1;
    }

    /// Other threads may run again.
    pub(super) fn preempt_on(&self) {
        self.w().ctxs[self.me].preempt_off -= 1;
    }
}

/// Waits until the machine has done what was asked.
struct Ask<'a> {
    vm: &'a Vm,
    request: Option<Request>,
}

impl Future for Ask<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.request.take() {
            // Polled again only when it has been done.
            None => Poll::Ready(()),
            request => {
                self.vm.request.set(request);
                Poll::Pending
            }
        }
    }
}
