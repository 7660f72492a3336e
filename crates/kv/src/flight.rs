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

/// Requests of one flow that have no reply yet.
///
/// Ids are handed out in a circle of 65536. A request that is still out when its place is needed again, `window`
/// requests later, is given up and counted as lost; its late reply is then unknown.
#[derive(Clone, Debug)]
pub struct InFlight {
    places: Box<[Option<(u16, Sent)>]>,
    next_id: u16,
    out: usize,
    lost: u64,
}

impl InFlight {
    /// Room for `window` requests.
    ///
    /// # Panics
    /// If `window` is not a power of two of at most 65536.
    pub fn new(window: usize) -> Self {
        assert!(window.is_power_of_two() && window <= 1 << 16, "window {window} is no power of two up to 65536");
        Self { places: vec![None; window].into(), next_id: 0, out: 0, lost: 0 }
    }

    /// Remembers a request and gives it its id.
    pub fn send(&mut self, sent: Sent) -> u16 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let place = self.place(id);
        match self.places[place].replace((id, sent)) {
            Some(_) => self.lost += 1,
            None => self.out += 1,
        }
        id
    }

    /// The request that this reply answers; `None` for a second reply, one that was given up, or one never sent.
    pub fn receive(&mut self, id: u16) -> Option<Sent> {
        let place = self.place(id);
        let (_, sent) = self.places[place].take_if(|(other, _)| *other == id)?;
        self.out -= 1;
        Some(sent)
    }

    /// Gives up all that is out, as at the end of a run; returns how many that were.
    pub fn abandon(&mut self) -> usize {
        self.places.fill(None);
        self.lost += self.out as u64;
        std::mem::take(&mut self.out)
    }

    /// Requests without a reply.
    pub fn out(&self) -> usize {
        self.out
    }

    /// Requests given up since the start.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn place(&self, id: u16) -> usize {
        usize::from(id) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests;
