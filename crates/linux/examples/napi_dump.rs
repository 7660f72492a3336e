//! What `napi-get --dump` of many instances costs beyond the kernel's own time: in turn, a dump whose bytes are received and
//! thrown away, the same decoded, and the command itself.
//!
//! ```sh
//! cargo run --release -p napier-linux --example napi_dump -- 1000 20 target/release/napier
//! ```

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Instant;

use napier_core::control::QueryError;
use napier_linux::netdev::Netdev;
use napier_linux::{EndConfig, Veth, VethConfig};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::GENERIC, recv, send, socket_with,
};

const GENL_ID_CTRL: u16 = 0x10;
const NLMSG_DONE: u16 = 3;
const NAPI_GET: u8 = 11;

fn message(family: u16, flags: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (20 + attributes.len()) as u32;
    [&length.to_ne_bytes()[..], &family.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], &[command, 1, 0, 0], attributes]
        .concat()
}

/// A socket and the number of the family `netdev`.
fn open() -> io::Result<(OwnedFd, u16)> {
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    let name = [&11_u16.to_ne_bytes()[..], &2_u16.to_ne_bytes(), b"netdev\0\0"].concat();
    send(&fd, &message(GENL_ID_CTRL, 1, 3, &name), SendFlags::empty())?;
    let mut buffer = [0; 8192];
    let (received, _) = recv(&fd, &mut buffer[..], RecvFlags::empty())?;
    let mut attributes = &buffer[20..received];
    while let Some(head) = attributes.first_chunk::<6>() {
        if u16::from_ne_bytes([head[2], head[3]]) == 1 {
            return Ok((fd, u16::from_ne_bytes([head[4], head[5]])));
        }
        attributes = &attributes[usize::from(u16::from_ne_bytes([head[0], head[1]])).next_multiple_of(4)..];
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Bytes of a dump that nobody looks at.
fn raw() -> io::Result<usize> {
    let (fd, family) = open()?;
    send(&fd, &message(family, 0x301, NAPI_GET, &[]), SendFlags::empty())?;
    let mut buffer = vec![0; 32 * 1024];
    let mut bytes = 0;
    loop {
        let (received, _) = recv(&fd, &mut buffer[..], RecvFlags::empty())?;
        bytes += received;
        // The end is a message of its own datagram, or the last of one.
        let end = received.checked_sub(20).map(|at| u16::from_ne_bytes([buffer[at + 4], buffer[at + 5]]));
        if u16::from_ne_bytes([buffer[4], buffer[5]]) == NLMSG_DONE || end == Some(NLMSG_DONE) {
            return Ok(bytes);
        }
    }
}

fn decoded() -> usize {
    let mut netdev = Netdev::open::<QueryError>().expect("the kernel has the family");
    netdev.napi_dump(None).expect("dumped").len()
}

/// Median, smallest and largest, ms.
fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:.2} ms ({:.2} to {:.2})", times[times.len() / 2], times[0], times[times.len() - 1])
}

fn timed<T>(act: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let value = act();
    (begun.elapsed().as_secs_f64() * 1e3, value)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: usize| words.next().map_or(default, |word| word.parse().expect("a number"));
    let (instances, runs) = (number(1000), number(20));
    let program = words.next();
    let ends = [1, 2].map(|n| EndConfig::new(if n == 1 { "left" } else { "right" }, [2, 0, 0, 0, 9, n]));
    let [left, right] = ends;
    let queues = u16::try_from(instances).expect("at most 4096");
    let config = VethConfig { queues, gro: true, tso: false, ..VethConfig::new(left, right) };
    let pair = Veth::new(&config).expect("it needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
    let path = format!("/proc/{}/fd/{}", std::process::id(), pair.left().netns().as_fd().as_raw_fd());
    let figures = pair.left().netns().run(|| {
        let (mut base, mut ours, mut command) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..runs {
            let (time, bytes) = timed(|| raw().expect("dumped"));
            base.push(time);
            assert!(bytes > instances * 40, "{bytes} bytes");
            let (time, found) = timed(decoded);
            ours.push(time);
            assert_eq!(found, instances);
            if let Some(program) = &program {
                let mut child = Command::new(program);
                child.args(["napi-get", "--dump", "--netns", &path]).stdout(Stdio::null());
                let (time, status) = timed(|| child.status().expect("it starts"));
                assert!(status.success());
                command.push(time);
            }
        }
        (base, ours, command)
    });
    let (base, ours, command) = figures.expect("entered");
    let beyond = |times: &[f64]| spread(times.iter().zip(&base).map(|(time, base)| time - base).collect());
    println!("{instances} instances, {runs} runs in turn: median (smallest to largest)");
    println!("dump alone       {}", spread(base.clone()));
    println!("decoded          {}, beyond the dump {}", spread(ours.clone()), beyond(&ours));
    if program.is_some() {
        println!("command          {}, beyond the dump {}", spread(command.clone()), beyond(&command));
    }
}
