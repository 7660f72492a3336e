//! The buffers of an instance, page by page as the kernel has them.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{Dir, OFlags};

use super::{EventFormat, TraceError, Tracepoint, Tracer, page};

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
