//! Queues of an interface as a program has them that drives its packets itself.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use napier_ring::xsk::{TxWake, XskRx, XskTx};
use napier_ring::{Frame, FramePool, FrameTable};
use napier_sys::netdev::Netdev;
use napier_sys::xsk::{Kicked, XskSocket};

use crate::config::{XdpMode, XskConfig};
use crate::error::XskError;
use crate::open::{OpenedInterface, cut, open};
use crate::queues::{InterfaceQueues, fit};
use crate::stats::{XskStats, statistics};

/// Packets between two publications of frames to fill.
const REFILL_BATCH: u32 = 32;
/// Kicks in a row that send nothing before the rest is left for the next.
const KICKS_IN_VAIN_MAX: u32 = 4;

/// What is in force on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XskInfo {
    /// Name of the interface.
    pub interface: String,
    /// Its number in its namespace.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Bytes of the longest IP packet.
    pub mtu: u32,
    /// Where the kernel calls the program: [`XdpMode::Native`] or [`XdpMode::Generic`].
    pub mode: XdpMode,
    /// Whether the driver reads and writes the sockets' memory itself; else the kernel copies.
    pub zero_copy: bool,
    /// Receive queues that the interface has; 0: its driver does not say. Packets of queues that were not opened go to the
    /// kernel.
    pub interface_queues: u16,
}

/// An interface whose queues were opened. The program that brings packets to them is on it as long as this is there.
///
/// ```no_run
/// use napier_xsk::{Xsk, XskConfig};
///
/// let (xsk, queues) = Xsk::open(&XskConfig::on("eth0"))?;
/// println!("{} queues, zero copy: {}", queues.len(), xsk.info().zero_copy);
/// print!("{}", xsk.statistics());
/// # Ok::<(), napier_xsk::XskError>(())
/// ```
pub struct Xsk {
    info: XskInfo,
    opened: OpenedInterface,
    sockets: Vec<Arc<XskSocket>>,
    table: Arc<FrameTable>,
}

/// One queue: what receives and what sends. Both have frames of the memory that all queues of the interface share, so what one
/// queue has received another can send.
///
/// ```no_run
/// use napier_xsk::XskQueue;
///
/// /// A thread for each side.
/// fn run(queue: XskQueue) {
///     let (mut receiver, mut sender) = queue.split();
///     std::thread::scope(|scope| {
///         scope.spawn(move || loop { receiver.receive(|packet| println!("{} bytes", packet.len())); });
///         scope.spawn(move || sender.send(1, |frame| { frame[..60].fill(0xff); 60 }));
///     });
/// }
/// ```
pub struct XskQueue {
    receiver: XskReceiver,
    sender: XskSender,
}

/// The receive side of a queue.
///
/// ```no_run
/// use napier_xsk::{XskReceiver, XskSender};
///
/// /// Sends on by another queue of the interface what is short, from where it is.
/// fn forward(receiver: &mut XskReceiver, sender: &mut XskSender) {
///     while let Some((frame, bytes)) = receiver.take() {
///         let left = if bytes <= 128 { sender.push(frame, bytes) } else { Err(frame) };
///         left.unwrap_or_else(|frame| receiver.give_back(frame));
///     }
///     receiver.refill();
///     sender.flush();
/// }
/// ```
pub struct XskReceiver {
    rx: XskRx,
    to_fill: FramePool,
    table: Arc<FrameTable>,
    socket: Arc<XskSocket>,
    /// Frames that the kernel should have.
    depth: u32,
}

/// The send side of a queue.
pub struct XskSender {
    tx: XskTx,
    to_send: FramePool,
    table: Arc<FrameTable>,
    socket: Arc<XskSocket>,
    /// A wake-up that the kernel could not act on.
    owed: Option<TxWake>,
}

impl Xsk {
    /// Opens queues of an interface.
    ///
    /// # Errors
    ///
    /// See [`XskError`]; nothing is changed on the interface then.
    pub fn open(config: &XskConfig) -> Result<(Self, Vec<XskQueue>), XskError> {
        let (config, InterfaceQueues { count, .. }) = &fit(config)?;
        let table = Arc::new(FrameTable::new());
        let mut opened = open(config, &[])?;
        let (arena, frame_bytes) = cut(config, &opened.memory);
        let (arena, pools) = table.add_arena_with_gaps(arena, frame_bytes)?;
        let (mut pools, mut queues, mut sockets) = (pools.into_iter(), Vec::new(), Vec::new());
        for (socket, rings) in opened.sockets.drain(..) {
            let (Some(to_fill), Some(to_send)) = (pools.next(), pools.next()) else { panic!("an arena has its homes") };
            let socket = Arc::new(socket);
            let rx = XskRx::new(rings.fill, rings.rx, &table, arena);
            let tx = XskTx::new(rings.tx, rings.completion, &table, arena);
            let depth = config.ring_size;
            let mut receiver = XskReceiver { rx, to_fill, table: table.clone(), socket: socket.clone(), depth };
            receiver.refill();
            let sender = XskSender { tx, to_send, table: table.clone(), socket: socket.clone(), owed: None };
            queues.push(XskQueue { receiver, sender });
            sockets.push(socket);
        }
        let Netdev { ifindex, mac, mtu, .. } = opened.interface;
        let zero_copy = sockets.iter().all(|socket| socket.is_zero_copy());
        let (interface, mode) = (config.interface.clone(), opened.mode);
        let info = XskInfo { interface, ifindex, mac, mtu, mode, zero_copy, interface_queues: *count };
        Ok((Self { info, opened, sockets, table }, queues))
    }

    /// What is in force.
    #[must_use]
    pub fn info(&self) -> &XskInfo {
        &self.info
    }

    /// What the kernel counts, over all queues.
    #[must_use]
    pub fn statistics(&self) -> XskStats {
        statistics(&self.sockets)
    }

    /// Where the bytes of frames are.
    #[must_use]
    pub fn frames(&self) -> &Arc<FrameTable> {
        &self.table
    }

    /// Readable when an interface of the namespace has changed: it may be down, or gone.
    #[must_use]
    pub fn changes(&self) -> BorrowedFd<'_> {
        self.opened.changes.as_fd()
    }
}

impl XskQueue {
    /// Both sides, for one thread.
    pub fn parts(&mut self) -> (&mut XskReceiver, &mut XskSender) {
        (&mut self.receiver, &mut self.sender)
    }

    /// Both sides, for a thread each.
    #[must_use]
    pub fn split(self) -> (XskReceiver, XskSender) {
        (self.receiver, self.sender)
    }

    /// Takes the packets that are there, at most as many as the ring has slots, and sends each back, from where it is, for which `turn` says so. Returns how many were
    /// taken. One that does not fit into the transmit ring is lost. Frames that [`XskSender::send`] has on their way would become frames to
    /// receive into: a queue does one or the other.
    #[inline]
    pub fn reflect(&mut self, mut turn: impl FnMut(&mut [u8]) -> bool) -> u32 {
        let Self { receiver, sender } = self;
        let mut taken = 0;
        while taken < receiver.depth
            && let Some((mut frame, len)) = receiver.rx.take()
        {
            taken += 1;
            let sent = if turn(&mut receiver.table.data_mut(&mut frame)[..len as usize]) {
                sender.tx.push(frame, len)
            } else {
                Err(frame)
            };
            if let Err(frame) = sent {
                receiver.give_back(frame);
            }
            sender.kick(|frame, _| receiver.give_back(frame));
        }
        receiver.refill();
        taken
    }
}

impl AsFd for XskQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl XskReceiver {
    /// Takes the packets that are there, at most as many as the ring has slots, lets `each` see them where they are, and gives their frames back. Returns how many.
    #[inline]
    pub fn receive(&mut self, mut each: impl FnMut(&mut [u8])) -> u32 {
        let mut taken = 0;
        while taken < self.depth
            && let Some((mut frame, len)) = self.rx.take()
        {
            each(&mut self.table.data_mut(&mut frame)[..len as usize]);
            self.give_back(frame);
            taken += 1;
            if taken % REFILL_BATCH == 0 {
                self.refill();
            }
        }
        self.refill();
        taken
    }

    /// Takes the oldest packet to keep it: its frame and its length in bytes. The frame goes to a sender of the same interface, or
    /// [back](Self::give_back); one that is dropped is lost. [`refill`](Self::refill) after some of them.
    #[inline]
    pub fn take(&mut self) -> Option<(Frame, u32)> {
        self.rx.take()
    }

    /// A frame is done with.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) {
        if let Err(frame) = self.rx.post(frame) {
            // The kernel has taken frames and not said so yet.
            self.to_fill.free(frame);
        }
    }

    /// Gives the kernel the slots of what was taken, and as many frames to fill as it should have.
    #[inline]
    pub fn refill(&mut self) {
        while self.rx.posted() < self.depth
            && let Some(frame) = self.to_fill.alloc()
        {
            if let Err(frame) = self.rx.post(frame) {
                self.to_fill.free(frame);
                break;
            }
        }
        if let Some(wake) = self.rx.publish() {
            self.socket.wake_fill(wake);
        }
    }

    /// Makes the kernel poll the interface once, where [`XskConfig::busy_poll`] is set.
    pub fn poll_kernel(&self) {
        self.socket.poll_kernel();
    }

    /// The kernel's NAPI instance that the socket hears from; 0 if the kernel does not know it.
    #[must_use]
    pub fn napi_id(&self) -> u32 {
        self.socket.napi_id()
    }

    /// Packets dropped because the kernel described them in a way that cannot be.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.rx.bad_descriptors()
    }
}

/// Readable when packets wait.
impl AsFd for XskReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl XskSender {
    /// Sends at most `count` packets as `write` makes them where they are (0 bytes: no more), and tells the kernel. Returns how
    /// many were put into the ring: fewer, if it is full or all frames are on their way.
    ///
    /// # Panics
    ///
    /// If `write` says more than the frame has.
    #[inline]
    pub fn send(&mut self, count: u32, mut write: impl FnMut(&mut [u8]) -> usize) -> u32 {
        let mut pushed = 0;
        while pushed < count
            && let Some(mut frame) = self.to_send.alloc()
        {
            let bytes = write(self.table.data_mut(&mut frame));
            let sent = match u32::try_from(bytes) {
                Ok(0) | Err(_) => Err(frame),
                Ok(bytes) => self.tx.push(frame, bytes),
            };
            if let Err(frame) = sent {
                self.to_send.free(frame);
                break;
            }
            pushed += 1;
        }
        self.flush();
        pushed
    }

    /// Puts a packet that is built already into the ring: the first `len` bytes of a frame of this interface. The kernel sees
    /// it after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// The frame, if there is no room.
    ///
    /// # Panics
    ///
    /// If `len` is 0 or more than a frame, or the frame is another interface's.
    #[inline]
    pub fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame> {
        self.tx.push(frame, len)
    }

    /// Has the kernel send what waits, and takes back what was sent; a frame goes to the queue that it came from. What the kernel
    /// cannot take now goes with the next call.
    #[inline]
    pub fn flush(&mut self) {
        self.kick(|frame, pool| pool.free(frame));
    }

    /// Frames that are with the kernel.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.tx.in_flight()
    }

    /// Has the kernel send what waits. Frames that were sent go `home`.
    fn kick(&mut self, mut home: impl FnMut(Frame, &mut FramePool)) {
        let mut wake = self.tx.publish().wake.or(self.owed.take());
        let (mut in_vain, mut unsent) = (0, self.tx.unsent());
        loop {
            let kicked = wake.take().map(|token| self.socket.kick(token));
            let pool = &mut self.to_send;
            self.tx.reclaim(|frame| home(frame, pool));
            match kicked {
                Some(Kicked::Again(token)) if self.tx.unsent() > 0 => {
                    let left = self.tx.unsent();
                    in_vain = if left < unsent { 0 } else { in_vain + 1 };
                    unsent = left;
                    if in_vain < KICKS_IN_VAIN_MAX {
                        wake = Some(token);
                        continue;
                    }
                    self.owed = Some(token);
                }
                Some(Kicked::Unreachable(token)) => self.owed = Some(token),
                _ => {}
            }
            return;
        }
    }
}

/// Readable when packets wait, writable when the transmit ring has room.
impl AsFd for XskSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
