//! The buffers of an instance: as text, or page by page as the kernel has them.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{Dir, OFlags};

use super::{EventFormat, Recorded, TraceError, Tracepoint, Tracer, page};

/// Pages that are taken of a processor at once: one that writes faster than it is read must not keep the reader there.
const PAGES_MAX: usize = 1 << 11;

/// The buffer of each processor, open for reading.
///
/// It has to go before its [`Tracer`]: an instance with an open buffer stays.
#[derive(Debug)]
pub struct RawPipes {
    pipes: Vec<(u32, File)>,
    page: Vec<u8>,
}

impl Tracer {
    /// What is recorded now and not yet taken, oldest first; the lost events of each processor are counted.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn take(&mut self) -> Result<Recorded, TraceError> {
        let there = self.seen()?.kept;
        self.take_of(there)
    }

    /// The same of a buffer that was seen to have so many events. What came later is left but for a few: threads that poll for ever may
    /// write faster than they are read, and must not keep the reader here.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn take_of(&mut self, there: u64) -> Result<Recorded, TraceError> {
        // One look without waiting: `trace` does not consume, `trace_pipe` waits unless it is told not to.
        let mut pipe = self.open("trace_pipe", OFlags::RDONLY | OFlags::NONBLOCK)?;
        let (mut text, mut buffer, mut lines) = (Vec::new(), vec![0; 1 << 16], 0);
        while lines < there {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    lines += events_in(&buffer[..bytes]);
                    text.extend_from_slice(&buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Recorded::parse(&String::from_utf8_lossy(&text)))
    }

    /// Opens the buffers of all processors.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn pipes(&self) -> Result<RawPipes, TraceError> {
        let opened = self.open("per_cpu", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut pipes = Vec::new();
        for entry in Dir::new(std::os::fd::OwnedFd::from(opened)).map_err(io::Error::from)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else { continue };
            let file = format!("per_cpu/{name}/trace_pipe_raw");
            pipes.push((cpu, self.open(&file, OFlags::RDONLY | OFlags::NONBLOCK)?));
        }
        pipes.sort_by_key(|(cpu, _)| *cpu);
        Ok(RawPipes { pipes, page: vec![0; rustix::param::page_size()] })
    }

    /// The layout of a tracepoint's events.
    ///
    /// # Errors
    /// [`TraceError::NotHere`] for a tracepoint that this kernel has not.
    pub fn format(&self, event: Tracepoint) -> Result<EventFormat, TraceError> {
        self.read(&event.file("format")).map(|text| EventFormat::parse(&text))
    }
}

/// Lines of events. Those of lost ones begin at the edge.
fn events_in(text: &[u8]) -> u64 {
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter(|line| !line.starts_with(b"CPU:")).count() as u64
}

impl RawPipes {
    /// Takes what was recorded since the last time: each event with its processor and its time, in order of time of each processor; how
    /// many were lost before it, where some were.
    ///
    /// # Errors
    /// A buffer cannot be read.
    pub fn take(&mut self, mut each: impl FnMut(u32, RawEvent<'_>)) -> io::Result<()> {
        for (cpu, pipe) in &mut self.pipes {
            for _ in 0..PAGES_MAX {
                let bytes = match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                let page = &self.page[..bytes];
                let lost = page::lost(page);
                if lost > 0 {
                    each(*cpu, RawEvent::Lost { before_ns: page::begins(page), events: lost });
                }
                page::events(page, |at_ns, payload| each(*cpu, RawEvent::One { at_ns, payload }));
            }
        }
        Ok(())
    }
}

/// What a buffer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawEvent<'a> {
    /// An event.
    One {
        /// By the instance's clock.
        at_ns: u64,
        /// Its bytes, from `common_type` on.
        payload: &'a [u8],
    },
    /// Events that found the buffer full.
    Lost {
        /// The next one that is there.
        before_ns: u64,
        /// How many; at least one.
        events: u64,
    },
}
