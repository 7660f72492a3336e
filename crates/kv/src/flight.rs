//! Requests that are out, by request id, of one flow. Fixed memory; no search.

/// What is remembered of a request until its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Record that was asked for or set.
    pub record: u32,
    /// Whether it was a set.
    pub is_set: bool,
    /// When it should have left, in ns of the run's clock.
    pub intended_ns: u64,
    /// When it left, in ns of the run's clock.
    pub actual_ns: u64,
}

/// Requests of one flow that have no reply yet. Ids are handed out in a circle of 65536; the reply to a request that was
/// given up is unknown.
#[derive(Clone, Debug)]
pub struct InFlight {
    places: Box<[Option<(u16, Sent)>]>,
    next_id: u16,
    /// No older one is out.
    oldest_id: u16,
    out: usize,
}

impl InFlight {
    /// Room for `window` requests.
    ///
    /// # Panics
    /// If `window` is not a power of two of at most 65536.
    pub fn new(window: usize) -> Self {
        assert!(window.is_power_of_two() && window <= 1 << 16, "window {window} is no power of two up to 65536");
        Self { places: vec![None; window].into(), next_id: 0, oldest_id: 0, out: 0 }
    }

    /// Passes over ids whose place is taken, unless all places are.
    #[inline]
    pub fn skip_taken(&mut self) {
        while self.out < self.places.len() && self.places[self.place(self.next_id)].is_some() {
            self.next_id = self.next_id.wrapping_add(1);
        }
    }

    /// Remembers a request and gives it its id; if another one has its place still, that is given up and handed back.
    #[inline]
    pub fn send(&mut self, sent: Sent) -> (u16, Option<Sent>) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        if self.out == 0 {
            self.oldest_id = id;
        }
        let given_up = self.places[self.place(id)].replace((id, sent));
        self.out += usize::from(given_up.is_none());
        (id, given_up.map(|(_, sent)| sent))
    }

    /// The request that this reply answers; `None` for a second reply, one that was given up, or one never sent.
    #[inline]
    pub fn receive(&mut self, id: u16) -> Option<Sent> {
        let place = self.place(id);
        let (_, sent) = self.places[place].take_if(|(other, _)| *other == id)?;
        self.out -= 1;
        Some(sent)
    }

    /// Gives up the oldest request, if it was sent before this time.
    pub fn give_up(&mut self, before_ns: u64) -> Option<Sent> {
        while self.out > 0 {
            match self.places[self.place(self.oldest_id)] {
                Some((id, sent)) if id == self.oldest_id => {
                    return if sent.actual_ns < before_ns { self.receive(id) } else { None };
                }
                _ => self.oldest_id = self.oldest_id.wrapping_add(1),
            }
        }
        None
    }

    /// Gives up all that is out and has room for `window` requests from now on; returns how many were out.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn reset(&mut self, window: usize) -> usize {
        let next_id = self.next_id;
        std::mem::replace(self, Self { next_id, ..Self::new(window) }).out
    }

    /// Requests without a reply.
    #[inline]
    pub fn out(&self) -> usize {
        self.out
    }

    #[inline]
    fn place(&self, id: u16) -> usize {
        usize::from(id) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests;
