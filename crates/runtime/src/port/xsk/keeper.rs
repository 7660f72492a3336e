//! Who looks after a device: a thread that hears when the interface changes, and kicks again where a kick did nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_xsk::XskError;
use napier_xsk::drive::{AttachedProgram, statistics};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::line::XskLine;
use super::open::Kept;
use super::tx::LateKicks;
use super::{Sockets, XdpInfo, XdpStats};
use crate::port::AddedDevice;
use napier_stack::device::MTU;
use napier_sys::netdev;

/// First pause before a kick is tried again, and the longest.
const RETRY_MIN: Duration = Duration::from_micros(50);
const RETRY_MAX: Duration = Duration::from_millis(10);

/// Bytes of a frame that are looked at, and frames that are taken at a time.
const HEARD_BYTES_MAX: usize = 2048;
const HEARD_MAX: usize = 64;

/// A device's hold on its interface.
pub(crate) struct Attachment {
    info: XdpInfo,
    device: Arc<dyn AddedDevice>,
    sockets: Sockets,
    lines: Vec<Arc<XskLine>>,
    stop: Arc<AtomicBool>,
    late: Arc<LateKicks>,
    thread: Option<JoinHandle<()>>,
    _program: AttachedProgram,
}

impl Attachment {
    /// Begins to look after `device`.
    pub(super) fn new(device: Arc<dyn AddedDevice>, kept: Kept, thread: KeeperThread) -> Self {
        let Kept { name, ifindex, mode, sockets, lines, program, late, query, changes, beside, own_mac, queues } = kept;
        let stop = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            device: device.clone(),
            name: name.clone(),
            ifindex,
            query,
            changes,
            beside,
            own_mac,
            late: late.clone(),
            stop: stop.clone(),
        };
        thread.begin.send(keeper).expect("it waits for this, and ends only after it");
        let info = XdpInfo {
            interface: name,
            ifindex,
            mode,
            zero_copy: sockets.iter().all(|socket| socket.is_zero_copy()),
            kernel_napi_ids: Vec::new(),
            interface_queues: queues.count,
            queues_word: queues.word(),
        };
        Self { info, device, sockets, lines, stop, late, thread: Some(thread.handle), _program: program }
    }

    pub(crate) fn info(&self) -> XdpInfo {
        let kernel_napi_ids = self.sockets.iter().map(|socket| socket.napi_id()).collect();
        XdpInfo { kernel_napi_ids, ..self.info.clone() }
    }

    pub(crate) fn stats(&self) -> XdpStats {
        let kernel = statistics(&self.sockets);
        XdpStats {
            rx_dropped: kernel.rx_dropped,
            rx_invalid_descs: kernel.rx_invalid_descs,
            tx_invalid_descs: kernel.tx_invalid_descs,
            rx_ring_full: kernel.rx_ring_full,
            rx_fill_ring_empty_descs: kernel.rx_fill_ring_empty_descs,
            tx_ring_empty_descs: kernel.tx_ring_empty_descs,
            interrupts_put_away: self.lines.iter().map(|line| line.times_put_away()).sum(),
            rx_wrong_checksums: self.device.wrong_checksums(),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.late.ring();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The thread of a keeper, which waits for what it is to look after. Dropping this ends it.
///
/// It is there before anything else of a device, so that nothing has to be undone if it cannot be.
pub(super) struct KeeperThread {
    begin: SyncSender<Keeper>,
    handle: JoinHandle<()>,
}

impl KeeperThread {
    /// For the device of this name.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) fn start(device: &str) -> Result<Self, XskError> {
        let (begin, begun) = sync_channel::<Keeper>(1);
        let work = move || {
            if let Ok(keeper) = begun.recv() {
                keeper.run();
            }
        };
        let handle = std::thread::Builder::new().name(format!("xdp-{device}")).spawn(work);
        let handle = handle.map_err(XskError::refused("starting a thread", "nothing"))?;
        Ok(Self { begin, handle })
    }
}

struct Keeper {
    device: Arc<dyn AddedDevice>,
    name: String,
    ifindex: u32,
    query: OwnedFd,
    changes: OwnedFd,
    beside: Vec<OwnedFd>,
    own_mac: bool,
    late: Arc<LateKicks>,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    fn run(&self) {
        napier_sys::nowait::this_thread();
        let mut owing = 0_u64;
        let mut pause = RETRY_MIN;
        // It may have changed while the device was made.
        self.follow_interface();
        loop {
            let changed = self.wait((owing != 0).then_some(pause));
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let noted = self.late.take();
            pause = if noted & !owing != 0 { RETRY_MIN } else { (pause * 2).min(RETRY_MAX) };
            owing |= noted;
            if changed {
                self.follow_interface();
                // What a socket did not take while the interface was away.
                owing = u64::MAX;
            }
            owing = self.kick(owing);
        }
    }

    /// Sleeps until something is to be done, or until the pause is over. True = an interface has changed.
    fn wait(&self, pause: Option<Duration>) -> bool {
        let own = [self.changes.as_fd(), self.late.as_fd()].into_iter().chain(self.beside.iter().map(AsFd::as_fd));
        let mut fds: Vec<_> = own.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = pause.map(|pause| Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting on own descriptors failed: {error}"),
        }
        let changed = !fds[0].revents().is_empty();
        if changed {
            let mut message = [0_u8; 8192];
            // Which one does not matter; it is asked for. A queue that overflowed is empty after one error.
            while !matches!(rustix::io::read(&self.changes, &mut message), Err(rustix::io::Errno::AGAIN)) {}
        }
        for (socket, fd) in self.beside.iter().zip(&fds[2..]) {
            if !fd.revents().is_empty() {
                self.hear(socket);
            }
        }
        changed
    }

    /// What has come beside the device, as much of it as there is now; where more comes than that, the rest has its turn
    /// after the other duties.
    fn hear(&self, socket: &OwnedFd) {
        let mut frame = [0_u8; HEARD_BYTES_MAX];
        for _ in 0..HEARD_MAX {
            match rustix::io::read(socket, &mut frame) {
                Ok(len) => self.device.hear(&frame[..len]),
                // Empty; or the interface is down, which is said once.
                Err(_) => return,
            }
        }
    }

    /// The queues, of those given, whose packets still wait.
    fn kick(&self, queues: u64) -> u64 {
        if !self.device.is_up() {
            // Kicked when it is up again.
            return 0;
        }
        (0..self.device.queues().min(64))
            .filter(|queue| queues & (1 << queue) != 0 && self.device.kick_again(*queue))
            .fold(0, |owing, queue| owing | 1 << queue)
    }

    fn follow_interface(&self) {
        // By its number: it may have another name by now, and another interface its name.
        let found = netdev::name_of(&self.query, self.ifindex)
            .and_then(|name| netdev::netdev(&self.query, &name).map(|interface| (interface, name)));
        let mut gone = false;
        let unusable = match found {
            Ok((interface, name)) => {
                let mac = self.own_mac.then_some(interface.mac);
                let usable = self.device.set_facts(mac, interface.mtu.min(MTU));
                let too_small = || {
                    let mtu = interface.mtu;
                    format!(
                        "the MTU of {name} is {mtu} now, too small for the device's addresses: ip link set {name} mtu 1500"
                    )
                };
                interface.state(&name).or_else(|| (!usable).then(too_small))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                gone = true;
                Some(format!("{} is gone: add the device again when there is one", self.name))
            }
            Err(error) => Some(format!("{} cannot be asked about: {error}", self.name)),
        };
        // Refused only if the limit on open files is reached; the next change tries again.
        let _: io::Result<()> = self.device.set_carrier(unusable, gone).map_err(Into::into);
    }
}
