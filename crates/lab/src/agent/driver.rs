//! An agent as the comparison has it that drives it.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use napier_kv::load::plan::{Measured, nanos};

use super::channel::{ChannelError, ChannelSide, Incoming, MESSAGE_MAX, Outgoing, Secret, open};
use super::{AgentReport, Offer};

/// How long an agent may take to connect its flows, beside its run.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// How long an agent may take to notice that the driver before is gone.
const BUSY_MAX: Duration = Duration::from_secs(2);

/// An agent, and the connection to it while there is one. It is free for others once this is dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    at: SocketAddr,
    secret: Secret,
    link: Option<(Outgoing, Incoming)>,
}

impl Driver {
    /// Connects.
    ///
    /// # Errors
    /// There is no agent, it has another secret, or another driver.
    pub(crate) fn connect(at: SocketAddr, secret: &Secret, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let mut driver = Self { at, secret: secret.clone(), link: None };
        driver.link = Some(driver.link(interrupted)?);
        Ok(driver)
    }

    /// Lets the agent offer a load, and waits until it has. `started` is told when the load begins, `on_edge` when measuring does and when it
    /// ends. After an error the connection is a new one.
    pub(crate) fn offer(
        &mut self,
        offer: &Offer,
        started: &Sender<()>,
        interrupted: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => self.link(interrupted)?,
        };
        let measured = drive(&mut link, offer, started, interrupted, on_edge);
        let measured = measured.with_context(|| format!("the agent at {}", self.at))?;
        self.link = Some(link);
        Ok(measured)
    }

    /// A connection that the agent serves; one that another driver has just left is waited for.
    fn link(&self, interrupted: &AtomicBool) -> anyhow::Result<(Outgoing, Incoming)> {
        let begun = Instant::now();
        loop {
            match self.try_link(interrupted).with_context(|| format!("the agent at {}", self.at))? {
                Ok(link) => return Ok(link),
                Err(why) if begun.elapsed() > BUSY_MAX => bail!("the agent at {}: {why}", self.at),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn try_link(&self, interrupted: &AtomicBool) -> anyhow::Result<Result<(Outgoing, Incoming), String>> {
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        let stream = TcpStream::connect_timeout(&self.at, MESSAGE_MAX)
            .context("no connection: start one there (napier load kv --agent ADDRESS:PORT --secret-file FILE)")?;
        let (out, mut incoming) = open(stream, ChannelSide::Driver, &self.secret, interrupted)?;
        match incoming.next(Some(Instant::now() + MESSAGE_MAX), interrupted)? {
            AgentReport::Ready => Ok(Ok((out, incoming))),
            AgentReport::Busy => Ok(Err("another comparison drives it: one at a time".to_owned())),
            other => bail!("it says {} before it is ready", other.name()),
        }
    }
}

fn drive(
    (out, incoming): &mut (Outgoing, Incoming),
    offer: &Offer,
    started: &Sender<()>,
    interrupted: &AtomicBool,
    on_edge: &mut dyn FnMut(bool),
) -> anyhow::Result<Measured> {
    out.send(offer).context("asking for a run")?;
    let window = offer.window;
    let until = Instant::now() + CONNECT_MAX + window.warm_up + window.measure + window.margin + window.drain;
    loop {
        let report = incoming.next(Some(until), interrupted).map_err(|error| match error {
            ChannelError::Closed => anyhow::anyhow!("it ended before its run did"),
            error => error.into(),
        })?;
        match report {
            // If nobody listens, nobody waits for it.
            AgentReport::Started => drop(started.send(())),
            AgentReport::Edge(begins) => on_edge(begins),
            AgentReport::Done(measured) => {
                ensure!(measured.window_ns == nanos(window.measure), "it measured another time than it was asked to");
                return Ok(*measured);
            }
            AgentReport::Failed(why) => bail!("{why}"),
            other => bail!("it says {} in a run", other.name()),
        }
    }
}
