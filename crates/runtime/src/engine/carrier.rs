//! Carrier: whether there is a peer at the other end of a device, and who it is.

/// What a device knows of its peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Whether there is a peer.
    pub carrier: bool,
    /// What the peer calls itself, if it says so. Its own words: not to be trusted.
    pub peer: Option<String>,
    /// Why there is no peer now, or why the one before went.
    pub reason: Option<String>,
    /// Times that a peer went away.
    pub losses: u64,
    /// Whether there will be none again, because the interface that the device is on was removed.
    pub gone: bool,
}

/// Carrier as the engine keeps it.
pub(crate) struct Carrier(LinkState);

impl Carrier {
    /// A peer that is there, or is not yet for a reason.
    pub(crate) fn new(unusable: Option<String>) -> Self {
        Self(LinkState { carrier: unusable.is_none(), reason: unusable, ..LinkState::default() })
    }

    /// What is known of the peer.
    pub(super) fn state(&self) -> &LinkState {
        &self.0
    }

    /// There is a peer.
    pub(super) fn is_on(&self) -> bool {
        self.0.carrier
    }

    /// The peer is there, or is not for this reason; `gone`: it never will be.
    pub(super) fn set(&mut self, unusable: Option<String>, gone: bool) {
        let has = unusable.is_none();
        self.0.losses += u64::from(self.is_on() && !has);
        self.0.carrier = has;
        self.0.reason = unusable;
        self.0.gone = gone;
    }

    /// A peer has come; it calls itself `peer`.
    ///
    /// # Panics
    /// If there is one.
    pub(super) fn begin(&mut self, peer: String) {
        assert!(!self.is_on(), "a device has one peer at a time");
        self.0 = LinkState { carrier: true, peer: Some(peer), losses: self.0.losses, ..LinkState::default() };
    }

    /// The peer has gone, or why none comes; true if there was one.
    pub(super) fn end(&mut self, reason: String) -> bool {
        let had = std::mem::replace(&mut self.0.carrier, false);
        self.0.reason = Some(reason);
        self.0.losses += u64::from(had);
        had
    }
}
