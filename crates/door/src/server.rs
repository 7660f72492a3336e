//! The door itself: where programs come in, and where their sockets are shown.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_linux::Netns;
use napier_linux::process::{HeldPage, Notifier, OptionRights, peer_of, wait_for_one};
use napier_runtime::control::QueueGet;
use napier_runtime::control::mode::Mode;
use napier_runtime::engine::Engine;
use napier_runtime::socket::NetNs;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

use crate::limits::PROGRAMS_MAX;
use crate::program::{Carrier, Offer, serve};
use crate::rules::reach::Reach;
use crate::served::{Programs, of_served};
use crate::view::{DoorCounts, ShownProgram};
use crate::wire::{DoorReply, DoorRequest, PART_BYTES_MAX, REQUEST_BYTES_MAX, heard, say};
use crate::{NAME_PREFIX, is_name};

/// Requests that are answered at a time; more are closed.
const CLIENTS_MAX: usize = 16;
/// Of them, those of one user that is neither root nor the engine's: others have room beside them.
const OF_ONE_USER_MAX: usize = 4;
/// A client that says nothing, or does not read, for so long is closed.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// So is one whose program does not begin within so many looks, a minute in all: on a busy machine it takes long.
const BEGIN_LOOKS_MAX: usize = 60;
const BEGIN_LOOK: Duration = Duration::from_secs(1);
/// What is kept of a program's name, in bytes.
const PROGRAM_BYTES_MAX: usize = 64;
/// Looks whether the threads of programs have ended, 10 ms apart.
const ENDED_LOOKS_MAX: usize = 100;

/// What a door is opened with.
pub struct DoorConfig {
    /// By which programs find it.
    pub name: String,
    /// The engine.
    pub engine: Engine,
    /// Where the sockets are.
    pub netns: NetNs,
    /// What is reached there.
    pub reach: Reach,
    /// Of the event contexts that have the connections of programs: how the threads that carry their bytes poll.
    pub mode: Option<Mode>,
    /// Whether programs of every user may come in, and not only those of this one and of root.
    pub for_all_users: bool,
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDoorError {
    /// No such name can be.
    #[error("`{0}` is no name of an engine: give letters, digits and -_.@: only, at most 64")]
    Name(String),
    /// A socket at that path is another process's.
    #[error("{0} is the socket of another engine: give another path, or end that one")]
    PathInUse(String),
    /// It is taken.
    #[error("there is an engine named {0} in this network namespace already: give another name, or end that one")]
    InUse(String),
    /// The system refused.
    #[error("opening the door: {0}")]
    System(#[from] io::Error),
}

/// An open door. Dropping it closes it: programs that came in lose their connections.
pub struct Door {
    pub(crate) stop: Arc<OwnedFd>,
    pub(crate) inside: Arc<Within>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

/// Who came in.
pub(crate) struct Within {
    offer: Arc<Offer>,
    programs: Mutex<Programs>,
    next: AtomicUsize,
    /// Users whose requests are being answered, one for each request.
    clients: Mutex<Vec<u32>>,
}

/// Why a program is not served.
pub(crate) enum NotServed {
    /// As many are as can be. Its calls can be let go on.
    Full(Notifier),
    NoThread(io::Error),
}

impl Door {
    /// Opens it.
    ///
    /// # Errors
    /// [`OpenDoorError`].
    pub fn open(config: DoorConfig) -> Result<Self, OpenDoorError> {
        let DoorConfig { name, engine, netns, reach, mode, for_all_users } = config;
        if !is_name(&name) {
            return Err(OpenDoorError::Name(name));
        }
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)?;
        let address = SocketAddrUnix::new_abstract_name(format!("{NAME_PREFIX}{name}").as_bytes());
        match bind(&listener, &address.map_err(io::Error::from)?) {
            Err(rustix::io::Errno::ADDRINUSE) => return Err(OpenDoorError::InUse(name)),
            bound => bound.map_err(io::Error::from)?,
        }
        listen(&listener, 64).map_err(io::Error::from)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        let stop = Arc::new(stop);
        let (near, near_datagrams) = Default::default();
        let kernel = OptionRights::of_this_kernel();
        let (carriers, threads) = Carrier::start_all(&engine, mode, &stop)?.into_iter().unzip();
        let offer =
            Arc::new(Offer { engine, netns, reach, mode, carriers, for_all_users, kernel, near, near_datagrams });
        let inside = Arc::new(Within {
            offer,
            programs: Mutex::default(),
            next: AtomicUsize::new(0),
            clients: Mutex::default(),
        });
        let mut door = Self { stop, inside, threads };
        let (here, ends) = (door.inside.clone(), door.stop.clone());
        let thread = std::thread::Builder::new().name("napier-door".to_owned());
        door.threads.push(thread.spawn(move || here.take_clients(&listener, &ends))?);
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // It has room: nothing else is written to it, and no thread reads it.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // A thread that reads a program's memory may wait for that program: it is not waited for without end.
        for _ in 0..ENDED_LOOKS_MAX {
            if self.inside.programs().served.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Within {
    fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Vec<u32>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_client(&self, user: u32) {
        let mut clients = self.clients();
        if let Some(at) = clients.iter().position(|one| *one == user) {
            clients.swap_remove(at);
        }
    }

    fn take_clients(self: &Arc<Self>, listener: &OwnedFd, stop: &Arc<OwnedFd>) {
        loop {
            match wait_for_one(&[stop.as_fd(), listener.as_fd()], Duration::from_secs(3600)) {
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => continue,
            }
            let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC) else {
                // Too many files are open: not again at once.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Ok((_, user)) = peer_of(&client) else { continue };
            {
                let mut clients = self.clients();
                if !has_room_for(&clients, user, rustix::process::geteuid().as_raw()) {
                    continue;
                }
                clients.push(user);
            }
            let (here, ends) = (self.clone(), stop.clone());
            let answered = std::thread::Builder::new().name("napier-door".to_owned()).spawn(move || {
                here.answer(&client, user, &ends);
                here.forget_client(user);
            });
            if answered.is_err() {
                self.forget_client(user);
            }
        }
    }

    fn answer(self: &Arc<Self>, client: &OwnedFd, user: u32, stop: &Arc<OwnedFd>) {
        for which in [Timeout::Recv, Timeout::Send] {
            if set_socket_timeout(client, which, Some(CLIENT_PATIENCE)).is_err() {
                return;
            }
        }
        let own = rustix::process::geteuid().as_raw();
        if !(self.offer.for_all_users || user == own || user == 0) {
            let why = "this engine serves programs of its own user and of root alone";
            let _ = say(client, &DoorReply::Refused(why.to_owned()), &[]);
            return;
        }
        let Ok((request, _)) = heard::<DoorRequest>(client, REQUEST_BYTES_MAX) else { return };
        // A client that does not read hears of nothing.
        let _ = match request {
            DoorRequest::Begin => {
                let served = self.begin(client, stop);
                let reply = served.map_or_else(DoorReply::Refused, |number| DoorReply::Served { number });
                say(client, &reply, &[])
            }
            DoorRequest::Serve { .. } => say(client, &DoorReply::Refused("it has to begin first".to_owned()), &[]),
            DoorRequest::Show => self.show(client),
            DoorRequest::Explain { number } => {
                let found = self.programs().of_number(number);
                let none = || DoorReply::Refused("it knows nothing of that program any more".to_owned());
                say(client, &found.map_or_else(none, DoorReply::Program), &[])
            }
        };
    }

    /// Makes the page for a program's keeper, waits until the program is begun, and serves it; its number, or why not.
    fn begin(self: &Arc<Self>, client: &OwnedFd, stop: &Arc<OwnedFd>) -> Result<u64, String> {
        // Before it is started; others may come in meanwhile.
        if self.programs().served.len() >= PROGRAMS_MAX {
            return Err(full());
        }
        let page = HeldPage::make().map_err(|error| format!("noting its calls: {error}"))?;
        let said = |error: io::Error| error.to_string();
        say(client, &DoorReply::Begun, &[page.as_fd()]).map_err(said)?;
        // A signal ends a look early.
        let looks = (0..BEGIN_LOOKS_MAX).map(|_| wait_for_one(&[stop.as_fd(), client.as_fd()], BEGIN_LOOK));
        match looks.take_while(io::Result::is_ok).flatten().flatten().next() {
            Some(1) => {}
            Some(_) => return Err("the engine ends".to_owned()),
            None => return Err("the program did not begin in time".to_owned()),
        }
        match heard(client, REQUEST_BYTES_MAX).map_err(said)? {
            (DoorRequest::Serve { program }, fds) => self.serve(program, page, fds, stop),
            _ => Err("a program has to come now".to_owned()),
        }
    }

    /// Starts the thread of a program, which has this number from now on.
    fn serve(
        self: &Arc<Self>,
        mut program: String,
        page: HeldPage,
        fds: Vec<OwnedFd>,
        stop: &Arc<OwnedFd>,
    ) -> Result<u64, String> {
        program.retain(|letter| !letter.is_control());
        while program.len() > PROGRAM_BYTES_MAX {
            program.pop();
        }
        let [held] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| "one descriptor has to come along".to_owned())?;
        let notifier = Notifier::new(held, page).map_err(|error| format!("its held calls: {error}"))?;
        self.start(program, notifier, None, stop).map_err(|why| match why {
            NotServed::Full(_) => full(),
            NotServed::NoThread(error) => format!("starting a thread: {error}"),
        })
    }

    /// Starts the thread of a program, in the network namespace `place` if that is another than the engine's; the program's number.
    pub(crate) fn start(
        self: &Arc<Self>,
        program: String,
        notifier: Notifier,
        place: Option<Netns>,
        stop: &Arc<OwnedFd>,
    ) -> Result<u64, NotServed> {
        let shown = Arc::<ShownProgram>::default();
        let Some(number) = self.note(&program, &shown) else { return Err(NotServed::Full(notifier)) };
        let (here, ends) = (self.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("napier-program".to_owned());
        let thread = thread.spawn(move || here.follow((number, &program), notifier, place.as_ref(), shown, ends));
        thread.map(|_| number).map_err(|error| {
            self.programs().served.retain(|(other, ..)| *other != number);
            NotServed::NoThread(error)
        })
    }

    /// Takes note of a program, which has this number from now on; `None`: as many are served as can be.
    fn note(&self, program: &str, shown: &Arc<ShownProgram>) -> Option<u64> {
        let mut programs = self.programs();
        if programs.served.len() >= PROGRAMS_MAX {
            return None;
        }
        // Relaxed: numbers that differ.
        let number = self.next.fetch_add(1, Ordering::Relaxed) as u64;
        programs.served.push((number, program.to_owned(), shown.clone()));
        Some(number)
    }

    /// The life of a program's thread, in the network namespace of the program if that is another.
    fn follow(
        self: Arc<Self>,
        (number, program): (u64, &str),
        notifier: Notifier,
        place: Option<&Netns>,
        shown: Arc<ShownProgram>,
        stop: Arc<OwnedFd>,
    ) {
        let left = serve(&self.offer, program, notifier, place, &shown, &stop);
        self.programs().end(number);
        // The engine may end, and the program live on.
        drop((self, shown, stop));
        left.let_all_go_on();
    }

    /// The receive queues of the engine's devices by their NAPI instances.
    fn queues(&self) -> HashMap<u32, u32> {
        let engine = &self.offer.engine;
        let napis = engine.napi_dump(None).unwrap_or_default();
        let mut devices: Vec<u32> = napis.iter().map(|napi| napi.ifindex).collect();
        devices.dedup();
        let queue = |ifindex: u32, id: u64| {
            engine.queue_get(QueueGet { id: Some(id), kind: Some(0), ifindex: Some(u64::from(ifindex)) }).ok()
        };
        // A device has at least as many instances as queues, and its last queue ends the row.
        let of_device = |ifindex| (0..napis.len() as u64).map_while(move |id| queue(ifindex, id));
        let all = devices.into_iter().flat_map(of_device);
        all.filter_map(|queue| queue.napi_id.map(|napi| (napi, queue.id))).collect()
    }

    /// Ends at the first part that the client does not take.
    fn show(&self, client: &OwnedFd) -> io::Result<()> {
        let programs: Vec<_> = self.programs().served.clone();
        let queues = self.queues();
        let mut all = DoorCounts::default();
        for program in programs {
            let (mut sockets, counts) = program.2.all();
            for view in &mut sockets {
                // A thread that has ended may have been the process's first.
                view.pid = Notifier::process_of(view.pid).unwrap_or(view.pid);
                view.queue = queues.get(&view.napi_id).copied();
            }
            all.add(&counts);
            say(client, &DoorReply::Program(of_served(&program)), &[])?;
            // A view has at most 500 bytes.
            for part in sockets.chunks(PART_BYTES_MAX / 512) {
                say(client, &DoorReply::Sockets(part.to_vec()), &[])?;
            }
        }
        say(client, &DoorReply::Counts(all), &[])
    }
}

fn full() -> String {
    format!("it serves {PROGRAMS_MAX} programs already")
}

/// Whether one more request of a user is answered beside those of these users.
fn has_room_for(clients: &[u32], user: u32, own: u32) -> bool {
    let of_user = clients.iter().filter(|one| **one == user).count();
    clients.len() < CLIENTS_MAX && (user == 0 || user == own || of_user < OF_ONE_USER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others() {
        let table = [
            (vec![], 7, true),
            (vec![7; 3], 7, true),
            (vec![7; 4], 7, false),
            (vec![7; 4], 8, true),
            (vec![0; 15], 0, true),
            (vec![1000; 15], 1000, true),
            (vec![1000; 16], 1000, false),
            (vec![7; 16], 0, false),
        ];
        for (clients, user, has_room) in table {
            assert_eq!(has_room_for(&clients, user, 1000), has_room, "{clients:?} {user}");
        }
    }
}
