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

use crate::machine::cpu::ctx::{CtxRequest, Level};
use crate::machine::cpu::work::Work;
use crate::machine::sim::event::CtxId;
use crate::machine::tx::TxPkt;
use crate::machine::world::World;
use napier_core::tx::XmitCode;

/// A packet is given to a transmit queue, from any place in the code of another one: `__dev_queue_xmit`.
pub(crate) type Xmit = for<'a> fn(&'a K, usize, TxPkt) -> Pin<Box<dyn Future<Output = XmitCode> + 'a>>;

/// Shared by the executor and all contexts.
pub(crate) struct Vm {
    /// A driver on top of another device hands packets on by this, as by `ndo_start_xmit`.
    xmit: Xmit,
    world: RefCell<World>,
    request: Cell<Option<CtxRequest>>,
}

impl Vm {
    pub(crate) fn new(world: World, xmit: Xmit) -> Rc<Self> {
        Rc::new(Self { xmit, world: RefCell::new(world), request: Cell::new(None) })
    }

    #[inline]
    pub(crate) fn w(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    pub(crate) fn take_request(&self) -> Option<CtxRequest> {
        self.request.take()
    }
}

/// A context's view of the machine.
#[derive(Clone)]
pub(crate) struct K {
    vm: Rc<Vm>,
    pub(crate) me: CtxId,
    /// Where it is, which the scheduler changes between two of its steps.
    at: Rc<Cell<usize>>,
    pub(crate) level: Level,
}

impl K {
    pub(crate) fn new(vm: Rc<Vm>, me: CtxId, level: Level) -> Self {
        let at = vm.w().ctxs[me].cpu.clone();
        Self { vm, me, at, level }
    }

    /// The CPU that it is on.
    #[inline]
    pub(crate) fn cpu(&self) -> usize {
        self.at.get()
    }

    /// The world, for as long as one expression.
    #[inline]
    pub(crate) fn w(&self) -> RefMut<'_, World> {
        self.vm.w()
    }

    /// Gives a packet to a transmit queue of another device.
    pub(crate) async fn xmit(&self, txq: usize, packet: TxPkt) -> XmitCode {
        (self.vm.xmit)(self, txq, packet).await
    }

    fn ask(&self, request: CtxRequest) -> Ask<'_> {
        Ask { vm: &self.vm, me: self.me, request: Some(request) }
    }

    /// Spends CPU time.
    #[inline]
    pub(crate) async fn spend(&self, span: Span) {
        let ns = self.w().jittered(span);
        if ns > 0 {
            self.ask(CtxRequest::Spend(ns)).await;
        }
    }

    /// Does work of one kind.
    #[inline]
    pub(crate) async fn work(&self, work: Work) {
        self.works(&[(work, 1)]).await;
    }

    /// Does work of several kinds, each so many times, with nothing in between.
    #[inline]
    pub(crate) async fn works(&self, works: &[(Work, u64)]) {
        let ns = self.w().time_for(self.cpu(), self.level, works);
        if ns > 0 {
            self.ask(CtxRequest::Spend(ns)).await;
        }
    }

    /// Spends what one atomic step costs.
    #[inline]
    pub(crate) async fn op(&self) {
        self.work(Work::Op).await;
    }

    /// What an iteration costs that polls nothing; never nothing, so that a loop of them ends.
    pub(crate) async fn spin_pause(&self) {
        self.work(Work::SpinPause).await;
    }

    /// Sleeps until woken or until the deadline. Nothing happens between the caller's last look and the sleep.
    pub(crate) async fn block(&self, until: Deadline) {
        debug_assert!(self.level == Level::Task, "only a thread sleeps");
        self.ask(CtxRequest::Block(until)).await;
    }

    /// Sleeps for a while.
    pub(crate) async fn pause(&self, span: Span) {
        let until = Deadline::after(self.w().now, span);
        self.block(until).await;
    }

    /// An interrupt or softirq level has nothing left to do.
    pub(crate) async fn park(&self) {
        self.ask(CtxRequest::Park).await;
    }

    /// `cond_resched`.
    pub(crate) async fn cond_resched(&self) {
        self.ask(CtxRequest::Resched).await;
    }

    /// Softirqs stay out of this thread.
    pub(crate) fn bh_off(&self) {
        if self.level == Level::Task {
            self.w().ctxs[self.me].bh_off += 1;
        }
    }

    /// Softirqs may run again; those that are pending run now.
    pub(crate) async fn bh_on(&self) {
        if self.level == Level::Task && self.w().bh_enabled(self.me) {
            self.ask(CtxRequest::Spend(0)).await;
        }
    }

    /// As [`Self::bh_on`], but what is pending waits for the caller.
    pub(crate) fn bh_on_quietly(&self) {
        self.w().ctxs[self.me].bh_off -= 1;
    }

    /// No other thread runs on this CPU.
    pub(crate) fn preempt_off(&self) {
        self.w().ctxs[self.me].preempt_off += 1;
    }

    /// Other threads may run again.
    pub(crate) fn preempt_on(&self) {
        self.w().ctxs[self.me].preempt_off -= 1;
    }
}

/// Waits until the machine has done what was asked.
pub(crate) struct Ask<'a> {
    vm: &'a Vm,
    me: CtxId,
    request: Option<CtxRequest>,
}

impl Future for Ask<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.request.take() {
            // Polled again only when it has been done.
            None => Poll::Ready(()),
            // The way up to the executor and down again takes longer than most of the steps in between.
            Some(CtxRequest::Spend(ns)) if self.vm.w().spends_at_once(self.me, ns) => Poll::Ready(()),
            request => {
                self.vm.request.set(request);
                Poll::Pending
            }
        }
    }
}
