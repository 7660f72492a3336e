//! The kernel as a sink of plans: napi-set, files of an interface, options of sockets, parameters of epoll descriptors.

use std::os::fd::BorrowedFd;

use napier_core::control::DevSetError;
use napier_core::control::NapiChange;
use napier_core::control::plan::{Place, Plan, Sink, Target, Write};
use napier_core::sockopt::SockOptError;
use napier_core::time::Span;

use crate::device::DeviceError;
use crate::epoll::EpollError;
use crate::netdev::{NapiGetError, NapiSetError};
use crate::socket::SocketError;
use crate::{KernelError, device, epoll, netdev, socket};

/// Objects of the kernel that a plan is applied to. Of a plan's writes each takes those that are for it.
#[derive(Copy, Clone, Debug)]
pub enum KernelSink<'a> {
    /// An interface in the namespace of the calling thread, and each of its instances.
    Interface {
        /// Its name.
        name: &'a str,
        /// Its number.
        ifindex: u32,
    },
    /// A socket.
    Socket(BorrowedFd<'a>),
    /// An epoll descriptor; before sockets are added to it, for it takes the id of an instance when one is added or ready.
    Epoll(BorrowedFd<'a>),
}

/// Why the kernel refused a write, or a question about what is there.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each is the error of the call that made the write")]
pub enum KernelWriteError {
    #[error("{0}")]
    NapiSet(#[from] NapiSetError),
    #[error("{0}")]
    NapiGet(#[from] NapiGetError),
    #[error("{0}")]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Socket(#[from] SocketError),
    #[error("{0}")]
    Epoll(#[from] EpollError),
}

impl KernelWriteError {
    /// Whether a capability or a kernel feature is missing, rather than something being wrong: a test is skipped then.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        match self {
            Self::NapiSet(error) => error.is_privilege(),
            Self::NapiGet(error) => error.is_privilege(),
            Self::Device(error) => error.is_privilege(),
            Self::Socket(error) => error.is_privilege(),
            Self::Epoll(error) => error.is_privilege(),
        }
    }
}

impl KernelSink<'_> {
    /// The plan with files of the interface instead of what this kernel cannot set on instances by themselves (`threaded`
    /// before Linux 6.17, anything before 6.13).
    ///
    /// # Errors
    /// The instances cannot be listed.
    pub fn fit(&self, plan: &Plan) -> Result<Plan, KernelWriteError> {
        let Self::Interface { ifindex, .. } = self else { return Ok(plan.clone()) };
        let infos = netdev::napi_dump(Some(*ifindex))?;
        Ok(plan.device_wide(|change| infos.iter().all(|info| info.in_place_of(change).is_some())))
    }
}

impl Sink for KernelSink<'_> {
    type Place = Place;
    type Error = KernelWriteError;

    fn places(&mut self, target: Target) -> Result<Vec<Place>, KernelWriteError> {
        Ok(match (self, target) {
            (Self::Interface { ifindex, .. }, Target::Instance) => {
                netdev::napi_dump(Some(*ifindex))?.iter().map(|info| Place::Instance(info.id)).collect()
            }
            (Self::Interface { .. }, Target::Device) => vec![Place::Device],
            (Self::Socket(_), Target::Socket) => vec![Place::Socket],
            (Self::Epoll(_), Target::Context) => vec![Place::Context],
            _ => Vec::new(),
        })
    }

    fn read(&mut self, place: &Place, write: &Write) -> Result<Option<Write>, KernelWriteError> {
        Ok(match (self, place, write) {
            (Self::Interface { .. }, Place::Instance(id), Write::Instance(change)) => {
                let there = netdev::napi_get(*id)?.in_place_of(*change);
                // A kernel without suspension suspends nothing.
                let none = matches!(change, NapiChange::IrqSuspendTimeout(_));
                there.or(none.then_some(NapiChange::IrqSuspendTimeout(Span::ZERO))).map(Write::Instance)
            }
            (Self::Interface { name, .. }, _, Write::Device(setting)) => {
                Some(Write::Device(device::settings(name)?.in_place_of(*setting)))
            }
            (Self::Socket(fd), _, Write::Socket(option, _)) => match socket::get(*fd, *option) {
                Ok(value) => Some(Write::Socket(*option, value)),
                Err(KernelError::Refused(SockOptError::WriteOnly(_))) => None,
                Err(error) => return Err(error.into()),
            },
            (Self::Epoll(fd), _, Write::Context(_)) => Some(Write::Context(epoll::params(*fd)?)),
            _ => None,
        })
    }

    fn write(&mut self, place: &Place, write: &Write) -> Result<(), KernelWriteError> {
        match (self, place, write) {
            (Self::Interface { .. }, Place::Instance(id), Write::Instance(change)) => {
                netdev::napi_set(&change.request(*id))?;
            }
            (Self::Interface { name, .. }, _, Write::Device(setting)) => {
                let request = setting.request();
                device::set(name, request.ok_or(DeviceError::Refused(DevSetError::NotForDevices))?)?;
            }
            (Self::Socket(fd), _, Write::Socket(option, value)) => socket::set(*fd, *option, *value)?,
            (Self::Epoll(fd), _, Write::Context(params)) => epoll::set_params(*fd, *params)?,
            _ => {}
        }
        Ok(())
    }
}
