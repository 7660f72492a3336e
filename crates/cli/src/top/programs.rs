//! The programs that an engine serves, from its door.

use std::collections::BTreeSet;

use napier_door::{EngineAt, ShownEngine};

use super::snapshot::ProgramRow;

/// The door of an engine's process.
pub(super) struct ProgramsSource {
    pid: u32,
}

impl ProgramsSource {
    /// Of an engine by its name among those that answer, which is its process unless it is a path.
    pub(super) fn of(name: &str) -> Option<Self> {
        name.parse().ok().map(|pid| Self { pid })
    }

    /// What is there now; nothing where the engine has no door in this network namespace, or this user may not look.
    pub(super) fn look(&self) -> Vec<ProgramRow> {
        let shown = EngineAt::of_process(self.pid).ok().flatten().and_then(|engine| engine.show().ok());
        shown.map_or_else(Vec::new, |shown| rows(&shown))
    }
}

/// A row for all programs of a name: sockets are known by that.
fn rows(shown: &ShownEngine) -> Vec<ProgramRow> {
    let names: BTreeSet<&str> = shown.programs.iter().map(|program| program.program.as_str()).collect();
    names.into_iter().map(|name| row(shown, name)).collect()
}

fn row(shown: &ShownEngine, name: &str) -> ProgramRow {
    let programs: Vec<_> = shown.programs.iter().filter(|program| program.program == name).collect();
    let sockets: Vec<_> = shown.sockets.iter().filter(|socket| socket.program == name).collect();
    let of = |protocol: &'static str| sockets.iter().filter(move |socket| socket.protocol == protocol);
    let in_state = |state: &str| of("tcp").filter(|socket| socket.state == state).count() as u64;
    let words = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(",");
    let queues: BTreeSet<u32> = sockets.iter().filter_map(|socket| socket.queue).collect();
    let sum =
        |of: fn(&napier_door::DoorCounts) -> u64| Some(programs.iter().map(|program| of(&program.counts)).sum::<u64>());
    ProgramRow {
        program: napier_linux::change::shown(name.rsplit('/').next().unwrap_or_default()),
        whole: name.to_owned(),
        programs: programs.len() as u64,
        door: words(sockets.iter().map(|socket| socket.door.as_str()).collect()),
        mode: words(sockets.iter().filter_map(|socket| socket.mode.as_deref()).collect()),
        queues: queues.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        listening: in_state("listening"),
        connected: in_state("connected"),
        waiting: sockets.iter().map(|socket| socket.waiting as u64).sum(),
        udp: of("udp").count() as u64,
        datagrams: sum(|counts| counts.datagrams_out + counts.datagrams_in),
        accepted: sum(|counts| counts.accepted),
        opened: sum(|counts| counts.connected),
        held: sum(|counts| counts.held),
        left_to_kernel: sum(|counts| counts.left_to_kernel),
        refused: sum(|counts| counts.options_refused + counts.over_limit),
    }
}

#[cfg(test)]
mod tests {
    use napier_door::{DoorCounts, ProgramView, SocketView};

    use super::*;

    fn socket(program: &str, state: &str, queue: Option<u32>) -> SocketView {
        SocketView {
            program: program.to_owned(),
            pid: 7,
            protocol: "tcp".to_owned(),
            door: "slow".to_owned(),
            mode: Some("suspend20".to_owned()),
            queue,
            napi_id: 0,
            state: state.to_owned(),
            local: None,
            peer: None,
            waiting: 2,
        }
    }

    #[test]
    fn programs_of_a_name_are_a_row() {
        let program = |number, program: &str, accepted| ProgramView {
            number,
            program: program.to_owned(),
            is_served: true,
            counts: DoorCounts { accepted, held: 10, over_limit: 1, ..DoorCounts::default() },
        };
        let shown = ShownEngine {
            programs: vec![program(1, "/usr/bin/redis-server", 3), program(2, "nginx", 5), program(3, "nginx", 7)],
            sockets: vec![
                socket("nginx", "listening", None),
                socket("nginx", "connected", Some(1)),
                socket("nginx", "connected", Some(0)),
                SocketView { protocol: "udp".to_owned(), waiting: 0, ..socket("nginx", "connected", None) },
            ],
            counts: DoorCounts::default(),
        };
        let rows = rows(&shown);
        let names: Vec<&str> = rows.iter().map(|row| row.program.as_str()).collect();
        assert_eq!(names, ["redis-server", "nginx"]);
        let nginx = &rows[1];
        assert_eq!((nginx.programs, nginx.listening, nginx.connected, nginx.waiting, nginx.udp), (2, 1, 2, 6, 1));
        assert_eq!((nginx.door.as_str(), nginx.mode.as_str(), nginx.queues.as_str()), ("slow", "suspend20", "0,1"));
        assert_eq!((nginx.accepted, nginx.held, nginx.refused), (Some(12), Some(20), Some(2)));
        assert_eq!((rows[0].connected, rows[0].door.as_str()), (0, ""));
        assert!(ProgramsSource::of("/run/napier/7.sock").is_none() && ProgramsSource::of("7").is_some());
    }
}
