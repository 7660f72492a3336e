//! What help says beside the arguments: examples, and what the exit status means. The manual pages have the same.

use clap::builder::{StyledStr, Styles};
use clap::{ColorChoice, Command, CommandFactory as _};
use napier_lab::wrap::wrapped;

/// An example: the command line, and what it is for.
pub(crate) type Example = (&'static str, &'static str);

/// What each exit status means. The first column is what a shell shows of it.
pub(crate) const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Done. Also if the reader of the output has closed it, as head does."),
    (
        "1",
        "Failed, with the reason in one line on standard error. Also if something does not hold that was to be judged: \
         doctor found something serious, explain could follow no request, a scenario of conform or a seed of sim farm failed or all were refused, a run of compare failed or \
         nothing could be measured.",
    ),
    (
        "2",
        "Bad usage: wrong arguments, or a file or an interface that they name is not there or cannot be used. Nothing was begun or changed.",
    ),
    ("101", "A mistake in Napier; standard error has where. Please report it."),
    (
        "128+N",
        "Ended early by signal N: 130 after Ctrl-C, 143 after SIGTERM. What was changed was put back, what was measured printed.",
    ),
    ("any", "napier run has the status of the program that it ran, or 128+N if signal N ended that."),
];

/// Examples by command, as words behind `napier`.
pub(crate) const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            ("napier compare --quick", "which mode suits a cache server on this machine"),
            ("napier doctor --dev eth0", "what is set wrongly for low latency, and how to mend it"),
            (
                "sudo napier run --dev eth0 --mode suspend20 -- memcached -u nobody",
                "a program under a mode; all put back after",
            ),
            ("napier advise --rate 120k --p99 250", "which mode to take for a load, from a simulated machine"),
        ],
    ),
    (
        "compare",
        &[
            ("napier compare", "all modes at six loads, on links in memory: at most about four minutes"),
            ("napier compare --quick", "four modes, for a first look"),
            ("napier compare --modes base,defer20,suspend20 --load 50k,100k,max --runs 5", "these modes and loads"),
            ("napier compare --service exp:6us --load 60k --json --out histograms", "dearer requests; for programs"),
            ("sudo napier compare --backend engine,kernel", "the kernel's own stack beside the engine"),
            (
                "sudo napier compare --backend kernel -- memcached -u nobody",
                "the kernel's modes for a program of yours",
            ),
        ],
    ),
    (
        "run",
        &[
            ("sudo napier run --dev eth0 --mode suspend20 -- memcached -u nobody", "while it runs"),
            ("sudo napier run --dev eth0 --mode suspend20 --dry-run -- memcached -u nobody", "what would be changed"),
            ("sudo napier run --dev eth0 --mode napibusy --attach 4711", "a process that runs already"),
            ("napier run --engine -- memcached -l 192.0.2.10", "with the TCP sockets of a running engine"),
        ],
    ),
    (
        "engine start",
        &[
            (
                "sudo napier engine start --over xdp:eth1 --ip 192.0.2.10/24",
                "an interface for programs that were not changed",
            ),
            (
                "sudo napier engine start --over xdp:eth1 --ip 192.0.2.10/24 --mode suspend20 --for-all-users",
                "in a mode, for all users",
            ),
        ],
    ),
    ("engine ss", &[("napier engine ss", "which sockets of which programs it has")]),
    (
        "trial",
        &[
            ("sudo napier trial --dev eth0 --unit memcached", "which of three modes suits it"),
            (
                "sudo napier trial --dev eth0 --attach 4711 --modes base,suspend20 --for 2m --block 2s --guard 'cpu<90%'",
                "sooner, and back at once where its CPU time passes a bound",
            ),
            ("sudo napier trial --dev eth0 --attach 4711 --dry-run", "the turns, and what would be changed"),
        ],
    ),
    (
        "host tune",
        &[
            ("sudo napier host tune --dev eth0 --dry-run", "what would be changed, and what is there now"),
            ("sudo napier host tune --dev eth0 --cpus 2-3 --delivery threaded", "NAPI threads on CPUs 2 and 3"),
        ],
    ),
    (
        "host undo",
        &[
            ("sudo napier host undo", "all that napier keeps in force"),
            ("sudo napier host undo --stale", "only what commands left that were killed"),
        ],
    ),
    (
        "mode set",
        &[
            (
                "sudo napier mode set --dev eth0 --mode suspend20 --dry-run",
                "what would be changed, and what is there now",
            ),
            (
                "sudo napier mode set --dev eth0 --mode suspend20",
                "for programs that set up their epoll instances themselves",
            ),
        ],
    ),
    ("mode show", &[("napier mode show", "the mode of each interface's NAPI instances, and what keeps it")]),
    ("mode clear", &[("sudo napier mode clear --dev eth0", "back to what was there")]),
    (
        "mode enable",
        &[("sudo napier mode enable --unit memcached --dev eth0 --mode suspend20 --now", "for a service of systemd")],
    ),
    ("mode disable", &[("sudo napier mode disable --unit memcached", "puts everything back, and leaves no file")]),
    (
        "mode keep",
        &[("sudo napier mode keep --dev eth0 --mode suspend20 --queues 0-1", "in the foreground, until it is ended")],
    ),
    ("mode list", &[("napier mode list", "whether each is in force and acts")]),
    (
        "advise",
        &[
            ("napier advise --rate 120k --p99 250", "99 % of the answers within 250 us"),
            (
                "napier advise --rate 120k --service exp:6us --queues 4 --server-cpus 6",
                "a server of four threads on six CPUs",
            ),
            ("napier advise --rate 50k --measure", "on the machine that this is: measured first"),
            ("sudo napier advise --live 30s --pid 4711 --dev eth0", "for a program that runs, from what comes to it"),
            ("napier advise --pcap requests.pcap --service 4us", "for the requests in a file of packets"),
        ],
    ),
    (
        "bench",
        &[
            ("napier bench rx-cost", "what receiving a packet costs"),
            ("napier bench wakeup --json", "what waking a thread takes here, for sim calibrate"),
            ("sudo napier bench raw-rr --backend engine,kernel --runs 3", "raw ports beside AF_XDP sockets"),
        ],
    ),
    (
        "sim",
        &[
            ("napier sim plan irq-suspension", "a published table, predicted beside what was published"),
            ("napier sim plan mine.toml --shard 1/4 --out part1", "a quarter of a plan of yours"),
            ("napier sim farm --seconds 60", "random machines with faults, checked after every step"),
        ],
    ),
    (
        "serve kv",
        &[
            ("napier serve kv --over kernel", "on the kernel's sockets, for any client of memcached"),
            ("sudo napier serve kv --over xdp:eth1 --ip 192.0.2.10/24 --resp-port 6379 --mode suspend20", "by AF_XDP"),
            ("napier serve kv --over memif:@napier --ip 10.0.0.1/24", "for another process, or DPDK"),
        ],
    ),
    (
        "load kv",
        &[
            ("napier load kv --server 192.0.2.10 --rate 50k", "open loop; late answers count from when they were due"),
            ("napier load kv --server 192.0.2.10 --format resp --depth 8", "Redis, as fast as it goes"),
            ("napier load kv --over memif:@napier --ip 10.0.0.2/24 --server 10.0.0.1", "over shared memory"),
        ],
    ),
    (
        "doctor",
        &[
            ("napier doctor", "all interfaces that are up"),
            ("sudo napier doctor --dev eth0 --pid 4711 --workers 4", "with a program's epoll instances and sockets"),
            ("sudo napier doctor --dev eth0 --fix --dry-run", "what --fix would change"),
            ("napier doctor --json", "for programs; the exit status is 1 if something serious is found"),
        ],
    ),
    (
        "export",
        &[
            ("napier export", "for Prometheus on this machine: http://127.0.0.1:19100/metrics"),
            ("napier export --listen [::]:19100 --dev eth0", "for one elsewhere; there is no password"),
            ("napier export --once", "on standard output, for promtool or node_exporter's textfile collector"),
        ],
    ),
    (
        "report",
        &[
            ("napier report result.json", "what compare --json printed, for people"),
            ("napier report before.json after.json", "what differs by more than the runs do"),
            ("napier report before.json after.json --json", "the same for programs; --csv for what draws"),
            ("napier report before.json after.json --markdown", "the same as tables, for a review"),
        ],
    ),
    (
        "conform",
        &[
            ("napier conform conformance", "every scenario, in virtual time"),
            ("sudo napier conform --executor kernel --order-only conformance", "on the kernel that runs here"),
        ],
    ),
    (
        "explain",
        &[
            ("sudo napier explain --pid 4711", "a program that runs, for 5 s"),
            ("sudo napier explain --pid 4711 --for 2s --dev eth0 --json", "by one interface, for programs"),
        ],
    ),
    (
        "napi-get",
        &[
            ("napier napi-get --dump --dev eth0", "instances of an interface, as ynl prints them"),
            ("napier napi-get --id 8193 --json", "one, for programs"),
            ("napier napi-get --dump --engine 4711", "of a running engine"),
        ],
    ),
    (
        "napi-set",
        &[(
            "sudo napier napi-set --id 8193 --defer-hard-irqs 100 --gro-flush-timeout 20000",
            "defer interrupts by 20 us",
        )],
    ),
    ("queue-get", &[("napier queue-get --dump --dev eth0", "which instance serves which queue")]),
    ("dev-get", &[("napier dev-get --dump", "what devices can do with XDP")]),
    ("qstats-get", &[("napier qstats-get --dump --dev eth0 --scope queue", "counters of each queue")]),
    (
        "group",
        &[
            ("napier group new poll --engine 4711 --cpus 2-3", "CPUs 2 and 3 of an engine"),
            ("napier group attach poll --engine 4711 --queue eth0/0", "let them poll a queue"),
            ("napier group show --engine 4711", "what they do"),
        ],
    ),
    (
        "top",
        &[
            ("napier top", "the engine that runs, live: ? shows the keys"),
            ("sudo napier top --dev eth0", "the kernel's NAPI instances of an interface"),
            ("napier top --engine 4711 --once", "tables as text, of one second"),
            ("napier top --json --interval 10", "for programs"),
        ],
    ),
    (
        "completions",
        &[
            ("napier completions bash > /usr/share/bash-completion/completions/napier", "bash"),
            ("napier completions zsh > /usr/share/zsh/vendor-completions/_napier", "zsh"),
            ("napier completions fish > /usr/share/fish/vendor_completions.d/napier.fish", "fish"),
        ],
    ),
];

/// The whole command line as the parser has it: with examples where a command has some.
pub(crate) fn command(colour: ColorChoice) -> Command {
    let mut command = plain_command().color(colour);
    for (path, examples) in EXAMPLES {
        let words: Vec<&str> = path.split_whitespace().collect();
        command = with_examples(command, &words, examples);
    }
    let examples = command.get_after_help().map(StyledStr::ansi).map(|text| format!("{text}\n\n")).unwrap_or_default();
    let statuses = exit_statuses(command.get_styles());
    command.after_long_help(StyledStr::from(examples + &statuses))
}

/// The same without examples, for what has a place of its own for them.
pub(crate) fn plain_command() -> Command {
    super::Cli::command().version(env!("CARGO_PKG_VERSION")).long_version(version())
}

/// Version and commit.
fn version() -> String {
    match napier_lab::host::commit() {
        "unknown" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    }
}

fn with_examples(command: Command, path: &[&str], examples: &[Example]) -> Command {
    let Some((first, rest)) = path.split_first() else {
        let before = command.get_after_help().map(|text| format!("{}\n\n", text.ansi())).unwrap_or_default();
        let text = before + &shown(command.get_styles(), examples);
        return command.after_help(StyledStr::from(text));
    };
    command.mut_subcommand(*first, |command| with_examples(command, rest, examples))
}

/// Columns that help takes at most, but for a long example.
const WIDTH: usize = 100;

/// Examples one below the other: what each is for behind it if there is room, else above it.
fn shown(styles: &Styles, examples: &[Example]) -> String {
    let widest = examples.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let fits = examples.iter().all(|(_, what)| widest + what.len() + 6 <= WIDTH);
    let header = styles.get_header();
    let mut text = format!("{header}Examples:{header:#}\n");
    for (line, what) in examples {
        text += &if fits { format!("  {line:widest$}  # {what}\n") } else { format!("  # {what}\n  {line}\n") };
    }
    text.trim_end().to_owned()
}

fn exit_statuses(styles: &Styles) -> String {
    let header = styles.get_header();
    let mut text = format!("{header}Exit status:{header:#}\n");
    for (status, what) in EXIT_STATUS {
        text += &wrapped(&format!("  {status:<6} "), what, 80);
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_example_is_a_command_line_that_napier_takes() {
        for (path, examples) in EXAMPLES {
            for (line, _) in *examples {
                let line = line.split(" > ").next().expect("the command");
                let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word == "sudo").collect();
                let parsed = crate::Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
                assert!(words[1..].join(" ").starts_with(path), "{line} is an example of {path}");
            }
        }
    }

    #[test]
    fn every_command_that_is_shown_has_an_example_here_or_above() {
        let command = plain_command();
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let has = EXAMPLES.iter().any(|(path, _)| path.split(' ').next() == Some(below.get_name()));
            assert!(has, "{} has no example", below.get_name());
        }
    }

    #[test]
    fn the_definition_is_sound_and_help_is_at_most_so_wide() {
        command(ColorChoice::Never).debug_assert();
        let mut all = command(ColorChoice::Never);
        all.build();
        let lines = |command: &mut Command| command.render_long_help().to_string();
        let mut open = vec![all];
        while let Some(mut command) = open.pop() {
            let long = lines(&mut command);
            let wide = long.lines().filter(|line| line.chars().count() > WIDTH);
            assert!(
                wide.clone().all(|line| line.contains("napier ")),
                "{}: {:?}",
                command.get_name(),
                wide.collect::<Vec<_>>()
            );
            open.extend(command.get_subcommands().cloned());
        }
    }
}
