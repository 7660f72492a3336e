//! Lists of frames that any thread pushes to.

use super::table::TableLinks;
use super::{Frame, FrameTable};
use crate::list::{Chain, Fifo, List};
use crate::sync::{AtomicU32, Ordering};

/// A list of frames of any arena of one table: any thread pushes, one takes all.
///
/// The table is the one of the first push. Frames in a list that is dropped are lost to their pools.
#[derive(Default)]
pub struct FrameList {
    list: List,
    table: AtomicU32, // 0 = not used yet
}

impl FrameList {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the list is empty, as a hint; behind a fence it is the second look.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a frame. `true` = the list was empty, so no thread has been notified yet.
    ///
    /// # Panics
    ///
    /// If the frame or the list belongs to another table.
    #[inline]
    pub fn push(&self, table: &FrameTable, frame: Frame) -> bool {
        let raw = table.raw_for(&frame);
        self.bind(table);
        self.list.push(&TableLinks(table), raw)
    }

    /// Adds a frame unless `admit` objects, which is asked as [`List::push_admitted`] asks it. `Ok(true)` = the list was
    /// empty.
    ///
    /// # Errors
    ///
    /// The frame, if `admit` objected.
    ///
    /// # Panics
    ///
    /// If the frame or the list belongs to another table.
    #[inline]
    pub fn push_admitted(&self, table: &FrameTable, frame: Frame, admit: impl FnOnce() -> bool) -> Result<bool, Frame> {
        let raw = table.raw_for(&frame);
        self.bind(table);
        self.list.push_admitted(&TableLinks(table), raw, admit).ok_or(frame)
    }

    /// Adds the frames of a chain, in its order and without others between them, with one swap. `true` = the list was
    /// empty and is not now.
    ///
    /// # Panics
    ///
    /// If the chain or the list belongs to another table.
    #[inline]
    pub fn push_chain(&self, table: &FrameTable, chain: FrameChain) -> bool {
        let Some(Chain { newest, oldest }) = chain.into_chain(table) else {
            return false;
        };
        self.bind(table);
        self.list.push_chain(&TableLinks(table), newest, oldest)
    }

    /// Takes all frames, oldest first.
    ///
    /// # Panics
    ///
    /// If the list belongs to another table.
    #[inline]
    pub fn take(&self, table: &FrameTable) -> FrameFifo {
        if self.is_empty() {
            return FrameFifo { fifo: List::new().take_newest_first(), table: table.id() };
        }
        self.bind(table);
        FrameFifo { fifo: self.list.take(&TableLinks(table)), table: table.id() }
    }

    fn bind(&self, table: &FrameTable) {
        // Relaxed: a number that changes once; the list itself orders the frames.
        let bound = self.table.load(Ordering::Relaxed);
        if bound == table.id() {
            return;
        }
        let first = self.table.compare_exchange(0, table.id(), Ordering::Relaxed, Ordering::Relaxed);
        assert!(first.is_ok() || first == Err(table.id()), "a list of another table");
    }
}

/// Frames in a row that belong together and are in one pair of hands: nothing is allocated for them. Those of a chain
/// that is dropped are lost to their pools.
#[must_use = "frames of a chain that is dropped are lost to their pools"]
#[derive(Default)]
pub struct FrameChain {
    chain: Option<Chain>,
    table: u32, // 0 = not used yet
}

impl FrameChain {
    /// A chain without frames.
    pub const fn new() -> Self {
        Self { chain: None, table: 0 }
    }

    /// Whether there is no frame.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.chain.is_none()
    }

    /// Appends a frame.
    ///
    /// # Panics
    ///
    /// If the frame or the chain belongs to another table.
    #[inline]
    pub fn push(&mut self, table: &FrameTable, frame: Frame) {
        let raw = table.raw_for(&frame);
        let links = TableLinks(table);
        match &mut self.chain {
            Some(chain) => {
                assert_eq!(self.table, table.id(), "a chain of another table");
                chain.push(&links, raw);
            }
            None => {
                self.table = table.id();
                self.chain = Some(Chain::new(&links, raw));
            }
        }
    }

    /// Its frames, oldest first.
    ///
    /// # Panics
    ///
    /// If the chain belongs to another table.
    pub fn into_fifo(self, table: &FrameTable) -> FrameFifo {
        let fifo = match self.into_chain(table) {
            Some(chain) => chain.into_fifo(&TableLinks(table)),
            None => List::new().take_newest_first(),
        };
        FrameFifo { fifo, table: table.id() }
    }

    #[inline]
    fn into_chain(self, table: &FrameTable) -> Option<Chain> {
        let chain = self.chain?;
        assert_eq!(self.table, table.id(), "a chain of another table");
        Some(chain)
    }
}

/// Frames taken from a [`FrameList`]. Those that are not popped are lost to their pools.
#[must_use = "frames that are not popped are lost to their pools"]
pub struct FrameFifo {
    fifo: Fifo,
    table: u32,
}

impl FrameFifo {
    /// The next frame.
    ///
    /// # Panics
    ///
    /// If the frames are of another table.
    #[inline]
    pub fn pop(&mut self, table: &FrameTable) -> Option<Frame> {
        assert_eq!(self.table, table.id(), "frames of another table");
        let raw = self.fifo.pop(&TableLinks(table))?;
        Some(Frame::mint(raw, self.table))
    }

    /// Puts a frame back that was popped: it is the next again.
    ///
    /// # Panics
    ///
    /// If the frame or the others are of another table.
    #[inline]
    pub fn put_back(&mut self, table: &FrameTable, frame: Frame) {
        assert_eq!(self.table, table.id(), "frames of another table");
        self.fifo.put_back(&TableLinks(table), table.raw_for(&frame));
    }

    /// Whether nothing is left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }
}
