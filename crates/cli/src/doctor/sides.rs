//! What is looked at: the namespace of the program, and, where its packets come up in the poll of an interface of this command's namespace, that
//! interface too.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use napier_linux::Netns;
use napier_linux::change::Line;
use napier_linux::doctor::{Finding, diagnose, looked_at, not_asked};
use napier_linux::facts::{self, Facts, Picture, Scope};
use napier_linux::process::Process;
use napier_linux::wiring;

use super::{DoctorArgs, WINDOW, fixable};
use crate::{Usage, target};

/// One namespace, as far as it is looked at.
pub(super) struct Side {
    /// If it is not this command's.
    netns: Option<Netns>,
    scope: Scope,
    /// It is not the program's.
    pub(super) is_outer: bool,
    /// A file with what was read of another machine.
    from: Option<PathBuf>,
    pub(super) facts: Facts,
    pub(super) findings: Vec<Finding>,
}

impl Side {
    fn read(netns: Option<Netns>, scope: Scope) -> anyhow::Result<Self> {
        Self::new(netns, scope, false)
    }

    fn new(netns: Option<Netns>, scope: Scope, is_outer: bool) -> anyhow::Result<Self> {
        let mut side = Self { netns, scope, is_outer, from: None, facts: Facts::default(), findings: Vec::new() };
        side.read_again()?;
        Ok(side)
    }

    /// Looks once more.
    pub(super) fn read_again(&mut self) -> anyhow::Result<()> {
        let scope = self.scope.clone();
        self.facts = match &self.from {
            Some(path) => {
                let picture = Picture::read(path).with_context(|| path.display().to_string()).map_err(Usage)?;
                let found = picture.facts(scope.device.as_deref()).map_err(|error| Usage(error.into()))?;
                Facts { workers: scope.workers, ..found }
            }
            None => self.run(|| Facts::read(&scope))?.map_err(|error| Usage(error.into()))?,
        };
        self.findings = diagnose(&self.facts);
        if self.is_outer {
            // What is of the machine, or of the program alone, is among the first side's.
            self.findings.retain(|finding| finding.device.is_some());
        }
        Ok(())
    }

    /// Acts in its namespace.
    pub(super) fn run<R: Send>(&self, act: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
        match &self.netns {
            None => Ok(act()),
            Some(netns) => Ok(netns.run(act)?),
        }
    }

    /// What mends what is found.
    pub(super) fn lines(&self) -> Vec<Line> {
        fixable(&self.findings)
    }
}

/// Reads what is asked about: the side of the program first.
pub(super) fn read(args: &DoctorArgs) -> anyhow::Result<Vec<Side>> {
    let Some(found) = args.target.find(args.pid)? else {
        let scope = scope(args, args.dev.as_deref(), None);
        let facts = Facts::default();
        let mut side =
            Side { netns: None, scope, is_outer: false, from: args.from.clone(), facts, findings: Vec::new() };
        side.read_again()?;
        return Ok(vec![side]);
    };
    let pid = found.main().ok_or_else(|| anyhow!("{} has no process", found.name))?;
    if std::fs::metadata(format!("/proc/{pid}")).is_err() {
        return Err(Usage(anyhow!("there is no process {pid}")).into());
    }
    let here = |dev: Option<&str>| scope(args, dev, Some(pid));
    let theirs = match facts::namespace_of(pid) {
        Ok(theirs) => theirs,
        // Another user's: what may be seen of it is little, and the report says so.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(vec![Side::read(None, here(args.dev.as_deref()))?]);
        }
        Err(error) => return Err(error).with_context(|| format!("the namespace of {pid}")),
    };
    if same(&Netns::current()?, &theirs) {
        return Ok(vec![Side::read(None, here(args.dev.as_deref()))?]);
    }
    let processes = vec![Process::open(pid)?];
    let (inner, outer) = match args.dev.as_deref() {
        None => (None, wiring::carriers(&processes[0])),
        Some(name) => {
            let wired = target::wired(name, &processes)?;
            match wired.netns {
                Some(_) => (Some(wired.device.name), Vec::new()),
                None => (None, vec![wired.device]),
            }
        }
    };
    let mut sides = vec![Side::read(Some(theirs), here(inner.as_deref()))?];
    for device in outer {
        sides.push(Side::new(None, here(Some(&device.name)), true)?);
    }
    Ok(sides)
}

fn scope(args: &DoctorArgs, dev: Option<&str>, pid: Option<u32>) -> Scope {
    Scope { device: dev.map(ToOwned::to_owned), pid, workers: args.workers, window: WINDOW }
}

fn same(one: &Netns, other: &Netns) -> bool {
    let inode = |netns: &Netns| netns.inode().ok();
    inode(one).is_some() && inode(one) == inode(other)
}

/// What is found on all sides, the weightiest first.
pub(super) fn all(sides: &[Side]) -> Vec<Finding> {
    let mut found: Vec<Finding> = sides.iter().flat_map(|side| side.findings.clone()).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// What was looked at on any side, and is good.
pub(super) fn good(sides: &[Side]) -> Vec<&'static str> {
    let found = all(sides);
    let mut words: Vec<&str> = Vec::new();
    for word in sides.iter().flat_map(|side| looked_at(&side.facts, &found)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// What there was nothing of to look at on any side.
pub(super) fn unasked(sides: &[Side]) -> Vec<&'static str> {
    let (found, good) = (all(sides), good(sides));
    let first = not_asked(&sides[0].facts, &found).into_iter();
    first.filter(|word| !good.contains(word)).collect()
}
