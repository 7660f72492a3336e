//! Turns of a carrier: events of connections and pairs, news of rings, and what has more to do.

use std::collections::VecDeque;
use std::time::Instant;

use napier_runtime::event::{Event, Interest, Timeout, WaitError};
use rustix::event::Timespec;
use rustix::event::epoll::{self};

use super::super::rings::{Awake, ProgramRings};
use super::super::token;
use super::{CONTEXT, Carrier, STOP, SocketNews};
use crate::near::locked;

/// Events that are taken at one time.
const EVENTS_MAX: usize = 64;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What the thread has beside what others see of it.
pub(super) struct CarrierTurns<'c> {
    pub(super) carrier: &'c Carrier,
    pub(super) awake: Awake,
    /// Programs with more to do.
    pub(super) more: VecDeque<u16>,
    pub(super) number: u64,
    /// The connections whose rings had news, for its room.
    pub(super) news: Vec<u64>,
}

impl CarrierTurns<'_> {
    /// Until the door closes, or the engine ends.
    pub(super) fn run(&mut self) {
        let mut events = [Event::default(); EVENTS_MAX];
        let mut ready = Vec::with_capacity(EVENTS_MAX);
        let (mut has_happened, mut had_news) = (false, false);
        loop {
            self.number += 1;
            // Before what is new, which may take all of a program's share.
            self.go_on();
            let looks = self.looks_again(has_happened, had_news) || !self.more.is_empty();
            let found =
                match self.carrier.context.wait(&mut events, if looks { Timeout::Now } else { Timeout::Outside }) {
                    Ok(found) => found,
                    Err(WaitError::Stopped) => return,
                    Err(WaitError::NoRoom) => unreachable!("there is room"),
                };
            for event in &events[..found] {
                self.find(event.data, SocketNews { of_net: event.events, of_pair: None });
            }
            // Before it sleeps the rings are looked at once more; programs use their pairs from then on.
            let sleeps = found == 0 && !looks && self.more.is_empty() && self.may_sleep();
            let until = if sleeps { None } else { Some(&NOW) };
            ready.clear();
            match epoll::wait(&self.carrier.epoll, rustix::buffer::spare_capacity(&mut ready), until) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("an epoll instance of its own: {error}"),
            }
            self.are_awake();
            has_happened = found > 0 || !ready.is_empty();
            let batch: Vec<epoll::Event> = std::mem::take(&mut ready);
            for event in &batch {
                match event.data.u64() {
                    CONTEXT => {}
                    STOP => return,
                    token => self.find(token, SocketNews { of_net: Interest::default(), of_pair: Some(event.flags) }),
                }
            }
            // Its room is used again.
            ready = batch;
            had_news = self.take_news();
        }
    }

    fn find(&mut self, token: u64, found: SocketNews) {
        let table = locked(&self.carrier.table);
        let number = token::program(token);
        let has_more = table.programs.get(&number).is_some_and(|program| program.find(token, found, self.number));
        if has_more && !self.more.contains(&number) {
            self.more.push_back(number);
        }
    }

    /// Goes on with the programs that have more to do.
    fn go_on(&mut self) {
        for _ in 0..self.more.len() {
            let number = self.more.pop_front().expect("it was counted");
            let table = locked(&self.carrier.table);
            if table.programs.get(&number).is_some_and(|program| program.go_on(self.number)) {
                self.more.push_back(number);
            }
        }
    }

    /// Goes on with the connections whose rings have news; whether there were any.
    fn take_news(&mut self) -> bool {
        let mut tokens = std::mem::take(&mut self.news);
        tokens.clear();
        self.each_rings(|rings| rings.take_news(&mut tokens));
        for token in &tokens {
            self.find(*token, SocketNews::default());
        }
        let had_news = !tokens.is_empty();
        // Its room is used again.
        self.news = tokens;
        had_news
    }

    fn looks_again(&mut self, has_happened: bool, had_news: bool) -> bool {
        let has_rings = !locked(&self.carrier.table).rings.is_empty();
        has_rings && self.awake.looks_again(Instant::now(), has_happened, had_news)
    }

    fn may_sleep(&self) -> bool {
        let mut may = true;
        self.each_rings(|rings| may &= rings.may_sleep());
        may
    }

    fn are_awake(&self) {
        self.each_rings(|rings| rings.are_awake());
    }

    fn each_rings(&self, mut each: impl FnMut(&ProgramRings)) {
        let table = locked(&self.carrier.table);
        table.rings.iter().for_each(|(_, rings)| each(&locked(rings)));
    }
}
