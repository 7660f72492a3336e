//! Two hosts with an ssh server each: two namespaces, wired to each other. Keys, configurations and homes are the test's own.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use napier_testkit::eventually;
use napier_testnet::{self as net, Veth, VethEnd};

use crate::common::{Folder, Running, has};
use crate::{output, said};

/// Addresses of the hosts, by name.
pub(crate) const HOSTS: [(&str, &str); 2] = [("left", "10.81.0.1"), ("right", "10.81.0.2")];

/// Processes, mounts and, through the interface, the network of a host end with it.
///
/// What sshd wants to find is mounted over what is there: its empty folder, and an account that is not locked.
const SSHD: &str = r#"
mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount --bind "$1/shadow" /etc/shadow || exit 1
exec "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$1/sshd-$2"
"#;

pub(crate) struct Hosts {
    pair: Veth,
    servers: [Option<Running>; 2],
}

impl Hosts {
    /// `None`, said aloud, where this machine lacks something.
    pub(crate) fn new(test: &str, folder: &Folder) -> Option<Self> {
        let sshd = if std::path::Path::new("/usr/sbin/sshd").exists() { "ssh" } else { "sshd" };
        if ![sshd, "ssh", "ssh-keygen", "perl", "unshare"].into_iter().all(|program| has(test, program)) {
            return None;
        }
        let [(left, left_ip), (right, right_ip)] = HOSTS;
        let [left_ip, right_ip] = [left_ip, right_ip].map(|address| format!("{address}/24"));
        let pair = net::pair(test, &net::ends((left, &[&left_ip]), (right, &[&right_ip])))?;
        write_files(folder);
        let mut hosts = Self { pair, servers: [None, None] };
        for at in 0..HOSTS.len() {
            hosts.servers[at] = Some(hosts.start(folder, at));
        }
        Some(hosts)
    }

    fn end(&self, at: usize) -> &VethEnd {
        if at == 0 { self.pair.left() } else { self.pair.right() }
    }

    fn start(&self, folder: &Folder, at: usize) -> Running {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", SSHD, "sh"]);
        command.args([&folder.file(""), HOSTS[at].0]).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(folder.file(&format!("log-{}", HOSTS[at].0))).expect("created");
        let server = self.end(at).netns().run(|| command.stderr(log).spawn()).expect("entered").expect("it starts");
        let server = Running(server);
        let address = (HOSTS[at].1, 22);
        eventually("the ssh server listens", || {
            self.end(at).netns().run(|| std::net::TcpStream::connect(address)).expect("entered").is_ok()
        });
        server
    }

    /// A host is gone, with all that runs there.
    pub(crate) fn kill(&mut self, at: usize) {
        drop(self.servers[at].take());
    }

    /// Starts a command on the first host.
    pub(crate) fn spawn(&self, command: &mut Command) -> Running {
        let child = self.end(0).netns().run(|| command.stdin(Stdio::null()).spawn());
        Running(child.expect("entered").expect("it starts"))
    }
}

/// What servers and client read: keys, configurations, and a home for each host.
fn write_files(folder: &Folder) {
    let write = |name: &str, text: &str| std::fs::write(folder.file(name), text).expect("written");
    for key in ["key", "left-key", "right-key"] {
        let file = folder.file(key);
        let made = output(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file]));
        assert!(made.status.success(), "{}", said(&made));
    }
    write("shadow", "root:*:20000:0:99999:7:::\n");
    let (mut known, mut client) = (String::new(), String::new());
    for (name, address) in HOSTS {
        std::fs::create_dir_all(folder.file(&format!("home-{name}"))).expect("a home");
        let lines = [
            format!("ListenAddress {address}:22"),
            format!("HostKey {}", folder.file(&format!("{name}-key"))),
            format!("AuthorizedKeysFile {}", folder.file("key.pub")),
            format!("ForceCommand cd {} && exec sh -c \"$SSH_ORIGINAL_COMMAND\"", folder.file(&format!("home-{name}"))),
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n".to_owned(),
        ];
        write(&format!("sshd-{name}"), &lines.join("\n"));
        let key = std::fs::read_to_string(folder.file(&format!("{name}-key.pub"))).expect("a key");
        known += &format!("{address} {key}");
        client += &format!("Host {name}\n  HostName {address}\n");
    }
    write("known", &known);
    let all = format!(
        "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  StrictHostKeyChecking yes\n",
        folder.file("key"),
        folder.file("known")
    );
    write("ssh-config", &(client + &all));
}

/// A script that can be run.
pub(crate) fn program(folder: &Folder, name: &str, text: &str) -> String {
    let file = folder.file(name);
    std::fs::write(&file, text).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("made a program");
    file
}
