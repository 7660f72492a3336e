//! The engine as a sink of plans: napi-set, device settings, socket options and the parameters of event contexts.

use napier_core::control::plan::{Place, Sink, Target, Write};
use napier_core::control::{DevSetError, NapiGet, NapiSetError, QueryError};
use napier_core::event::EpollParamsError;
use napier_core::sockopt::{BusyOption, SockOptError};
use napier_stack::event::EventContext;
use napier_stack::{OptionError, SocketOption, TcpListener, TcpStream, UdpSocket};

use super::{DeviceHandle, Engine};

/// Objects of an engine that a plan is applied to. Of a plan's writes each takes those that are for it.
pub enum EngineSink<'a> {
    /// A device, and each of its instances. A disabled one, such as that of a memif device without a peer, begins with what is set here.
    Device(&'a Engine, &'a DeviceHandle),
    /// A socket.
    Socket(&'a dyn BusySocket),
    /// An event context; before sockets are added to it, see the notes at [`EventContext`].
    Context(&'a EventContext),
}

/// A socket with busy-poll options.
pub trait BusySocket {
    /// Sets an option.
    ///
    /// # Errors
    /// See the table at [`SocketOption`].
    fn set_busy_option(&self, option: BusyOption, value: i32) -> Result<(), OptionError>;

    /// Reads an option.
    ///
    /// # Errors
    /// See the table at [`SocketOption`].
    fn busy_option(&self, option: BusyOption) -> Result<i32, OptionError>;
}

macro_rules! busy_sockets {
    ($($socket:ty),*) => {$(
        impl BusySocket for $socket {
            fn set_busy_option(&self, option: BusyOption, value: i32) -> Result<(), OptionError> {
                self.setsockopt(SocketOption::from(option), value)
            }

            fn busy_option(&self, option: BusyOption) -> Result<i32, OptionError> {
                self.getsockopt(SocketOption::from(option))
            }
        }
    )*};
}

busy_sockets!(UdpSocket, TcpStream, TcpListener);

/// Why the engine refused a write, or a question about what is there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each is the error of the call that made the write")]
pub enum EngineWriteError {
    #[error(transparent)]
    NapiSet(#[from] NapiSetError),
    #[error(transparent)]
    NapiGet(#[from] QueryError),
    #[error(transparent)]
    Device(#[from] DevSetError),
    #[error(transparent)]
    Socket(#[from] OptionError),
    #[error(transparent)]
    Context(#[from] EpollParamsError),
}

impl Sink for EngineSink<'_> {
    type Place = Place;
    type Error = EngineWriteError;

    fn places(&mut self, target: Target) -> Result<Vec<Place>, EngineWriteError> {
        Ok(match (self, target) {
            (Self::Device(_, device), Target::Instance) => {
                (0..device.queues()).map(|queue| device.instance(queue)).collect()
            }
            (Self::Device(..), Target::Device) => vec![Place::Device],
            (Self::Socket(_), Target::Socket) => vec![Place::Socket],
            (Self::Context(_), Target::Context) => vec![Place::Context],
            _ => Vec::new(),
        })
    }

    fn read(&mut self, place: &Place, write: &Write) -> Result<Option<Write>, EngineWriteError> {
        Ok(match (self, place, write) {
            (Self::Device(engine, _), Place::Instance(id), Write::Instance(change)) => {
                let info = engine.napi_get(NapiGet { id: Some(u64::from(*id)) })?;
                info.in_place_of(*change).map(Write::Instance)
            }
            (Self::Device(_, device), Place::Queue(queue), Write::Instance(change)) => {
                device.kept(*queue, *change).map(Write::Instance)
            }
            (Self::Device(_, device), _, Write::Device(setting)) => {
                Some(Write::Device(device.settings().in_place_of(*setting)))
            }
            (Self::Socket(socket), _, Write::Socket(option, _)) => match socket.busy_option(*option) {
                Ok(value) => Some(Write::Socket(*option, value)),
                Err(OptionError::Busy(SockOptError::WriteOnly(_))) => None,
                Err(error) => return Err(error.into()),
            },
            (Self::Context(context), _, Write::Context(_)) => Some(Write::Context(context.params())),
            _ => None,
        })
    }

    fn write(&mut self, place: &Place, write: &Write) -> Result<(), EngineWriteError> {
        match (self, place, write) {
            (Self::Device(engine, _), Place::Instance(id), Write::Instance(change)) => {
                engine.napi_set(change.request(*id))?;
            }
            (Self::Device(_, device), Place::Queue(queue), Write::Instance(change)) => device.keep(*queue, *change)?,
            (Self::Device(_, device), _, Write::Device(setting)) => {
                let request = setting.request();
                device.set(request.ok_or(DevSetError::NotForDevices)?)?;
            }
            (Self::Socket(socket), _, Write::Socket(option, value)) => socket.set_busy_option(*option, *value)?,
            (Self::Context(context), _, Write::Context(params)) => context.set_params(*params)?,
            _ => {}
        }
        Ok(())
    }
}
