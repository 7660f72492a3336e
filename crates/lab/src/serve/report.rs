//! What a server did, as a summary and as JSON.

use napier_kv::session::{Server, Totals};
use napier_kv::store::StoreStats;
use serde::Serialize;

use crate::applied::Applied;

use super::config::ServeConfig;
use super::workers::Used;

/// What a server did.
#[derive(Clone, Debug, Serialize)]
pub struct ServeReport {
    /// Name of the device.
    pub device: String,
    /// Name of the mode.
    pub mode: Option<String>,
    /// Threads that served.
    pub workers: usize,
    /// From being ready to the end, in seconds.
    pub seconds: f64,
    /// What was counted.
    pub counters: Totals,
    /// Records in the end.
    pub records: u64,
    /// Memory of them, in bytes.
    pub record_bytes: u64,
    /// Records that had to make room.
    pub evictions: u64,
    /// CPU time in seconds: of the workers, and in the engine of the threads that deliver packets to them.
    pub cpu_s: f64,
    /// The part of it that the workers spent in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Interrupts of the device; null where they are not the server's to count.
    pub interrupts: Option<u64>,
    /// What is in force on the device of an engine, by name; empty on the kernel's sockets.
    pub in_force: Applied,
    /// Time that the softirq threads could have run and had no CPU, in seconds; null on the kernel's sockets.
    pub softirq_run_delay_s: Option<f64>,
    /// Packets dropped because their checksum was wrong; null on the kernel's sockets, which count them elsewhere.
    pub wrong_checksums: Option<u64>,
    /// Packets that came in IP fragments and were given up; null on the kernel's sockets.
    pub fragments: Option<u64>,
    /// Packets dropped because they were longer than a frame, or came when the kernel had no frame; null on the kernel's sockets.
    pub too_long: Option<u64>,
    /// Times that a router said that a path takes only shorter packets; null on the kernel's sockets.
    pub paths_lowered: Option<u64>,
    /// Times that a connection took shorter packets because full ones got lost without a word; null on the kernel's sockets.
    pub black_holes: Option<u64>,
    /// Frames that are missing from the recording, because too many came at once or the file took no more; null without one.
    pub frames_not_recorded: Option<u64>,
    /// Why the file of the recording took no more; null if it took all, and without one.
    pub recording_failure: Option<String>,
}

impl ServeReport {
    /// What every server has; what only an engine counts is null.
    pub(super) fn new(
        config: &ServeConfig,
        server: &Server,
        seconds: f64,
        used: Used,
        interrupts: Option<u64>,
    ) -> Self {
        let StoreStats { records, bytes, evictions, .. } = server.store_stats();
        Self {
            device: config.device.device.name(),
            mode: config.mode.map(|mode| mode.to_string()),
            workers: config.workers,
            seconds,
            counters: server.totals(),
            records,
            record_bytes: bytes,
            evictions,
            cpu_s: used.cpu.as_secs_f64(),
            cpu_system_s: used.system.as_secs_f64(),
            interrupts,
            in_force: Applied::new(),
            softirq_run_delay_s: None,
            wrong_checksums: None,
            fragments: None,
            too_long: None,
            paths_lowered: None,
            black_holes: None,
            frames_not_recorded: None,
            recording_failure: None,
        }
    }
}

impl std::fmt::Display for ServeReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Totals { requests, gets, get_hits, sets, refused, connections, datagrams, .. } = self.counters;
        writeln!(f, "requests     {requests} ({gets} gets, {get_hits} of them found, {sets} sets, {refused} refused)")?;
        writeln!(f, "connections  {connections}, and {datagrams} datagrams")?;
        let Totals { connections_refused, connections_refused_memory, connections_idle, .. } = self.counters;
        let Totals { connections_out_of_memory, requests_out_of_memory, accepts_paused, .. } = self.counters;
        let refused = connections_refused + connections_refused_memory;
        if refused + connections_idle + connections_out_of_memory + requests_out_of_memory + accepts_paused > 0 {
            writeln!(
                f,
                "limits       {refused} connections refused ({connections_refused_memory} for want of memory), \
                 {connections_idle} idle and {connections_out_of_memory} without memory for an answer closed, \
                 {requests_out_of_memory} requests without memory, {accepts_paused} pauses without descriptors"
            )?;
        }
        writeln!(f, "records      {} in {} bytes, {} evicted", self.records, self.record_bytes, self.evictions)?;
        let Self { cpu_s, cpu_system_s, seconds, workers, .. } = self;
        writeln!(
            f,
            "CPU          {cpu_s:.3} s in {seconds:.3} s, {workers} workers; {cpu_system_s:.3} s in the kernel"
        )?;
        if let Some(interrupts) = self.interrupts {
            writeln!(f, "interrupts   {interrupts}")?;
        }
        for (name, value) in &self.in_force {
            writeln!(f, "in force     {name}: {value}")?;
        }
        if let Some(waited) = self.softirq_run_delay_s {
            writeln!(f, "softirq      threads waited {waited:.3} s for a CPU")?;
        }
        if let Some(wrong @ 1..) = self.wrong_checksums {
            let hint = "on veth the sender has to compute them: ethtool -K IF tx off, at its end";
            writeln!(f, "checksums    {wrong} packets were dropped, for theirs was wrong ({hint})")?;
        }
        if let Some(fragments @ 1..) = self.fragments {
            let hint = "the rest did not come in time, or did not fit: datagrams that fit into the MTU need no rest";
            writeln!(f, "fragments    {fragments} packets that came in pieces were given up ({hint})")?;
        }
        if let Some(packets @ 1..) = self.too_long {
            writeln!(
                f,
                "too long     {packets} packets were dropped, longer than a frame or without a frame for them"
            )?;
        }
        let (lowered, holes) = (self.paths_lowered.unwrap_or(0), self.black_holes.unwrap_or(0));
        if lowered + holes > 0 {
            writeln!(
                f,
                "paths        {lowered} times a router asked for shorter packets, {holes} times they were lost without a word"
            )?;
        }
        if let Some(frames) = self.frames_not_recorded {
            writeln!(f, "recording    {frames} frames are missing")?;
        }
        match &self.recording_failure {
            Some(why) => writeln!(f, "             {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_softirq_threads_waited_for() {
        let server = Server::new(0, 1, 0);
        let report = |softirq_run_delay_s| ServeReport {
            device: "memif:x".to_owned(),
            mode: None,
            workers: 1,
            seconds: 2.0,
            counters: server.totals(),
            records: 0,
            record_bytes: 0,
            evictions: 0,
            cpu_s: 1.0,
            cpu_system_s: 0.5,
            interrupts: None,
            in_force: Applied::from([("AF_XDP".to_owned(), "copy".to_owned())]),
            softirq_run_delay_s,
            wrong_checksums: None,
            fragments: None,
            too_long: None,
            paths_lowered: None,
            black_holes: None,
            frames_not_recorded: None,
            recording_failure: None,
        };
        let said = report(Some(0.25)).to_string();
        assert!(said.contains("\nsoftirq      threads waited 0.250 s for a CPU\n"), "{said}");
        assert!(!report(None).to_string().contains("softirq"), "the kernel's are not counted here");
    }

    #[test]
    fn what_was_dropped_has_a_line_if_something_was() {
        let server = Server::new(0, 1, 0);
        let config = ServeConfig {
            shown: crate::shown::Shown::default(),
            device: crate::serve::device::DeviceConfig::new(
                crate::device::Device::Xdp { interface: Some("eth1".to_owned()) },
                "10.0.0.1".parse().expect("an address"),
                24,
            ),
            port: 11_211,
            resp_port: None,
            sockperf_port: None,
            mode: None,
            workers: 1,
            limits: crate::serve::limits::Limits::new(64, 16, 0).expect("they can be"),
            service: None,
            control: false,
        };
        let report = ServeReport::new(&config, &server, 1.0, Used::default(), None);
        let none = ServeReport {
            fragments: Some(0),
            too_long: Some(0),
            paths_lowered: Some(0),
            black_holes: Some(0),
            ..report
        };
        let said = none.to_string();
        assert!(!said.contains("fragments") && !said.contains("too long") && !said.contains("paths"), "{said}");
        let some =
            ServeReport { fragments: Some(3), too_long: Some(4), paths_lowered: Some(1), black_holes: Some(0), ..none };
        let said = some.to_string();
        for line in ["\nfragments    3 packets", "\ntoo long     4 packets", "\npaths        1 times"] {
            assert!(said.contains(line), "{said}");
        }
    }
}
