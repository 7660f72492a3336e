//! What a compiler of C makes of the header: the same sizes and places as here.

use std::mem::offset_of;
use std::process::Command;

use napier::{NapierDeviceOptions, NapierEngineOptions, NapierFrame, NapierMemifOptions, NapierStat, NapierXdpOptions};
use napier_testkit::{Folder, skip};

use super::reader::Item;
use super::{PARTS, items};

/// The sizes of structs and the places of their members, as they are here.
macro_rules! layouts {
    ($($type:ident $name:literal: $($member:ident)+;)+) => {
        vec![$(($name, size_of::<$type>(), vec![$((stringify!($member), offset_of!($type, $member))),+])),+]
    };
}

type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

fn layouts() -> Vec<Layout> {
    layouts! {
        NapierEngineOptions "napier_engine_options":
            size softirq_cpus softirq_cpus_len workers no_fifo busy_poll_us busy_read_us;
        NapierDeviceOptions "napier_device_options":
            size name addresses netns queues ring_size frame_bytes mac reserved;
        NapierMemifOptions "napier_memif_options": size socket role id secret access keep_connections;
        NapierXdpOptions "napier_xdp_options": size interface first_queue mode copy everything;
        NapierStat "napier_stat": name value;
        NapierFrame "napier_frame": data len reserved token;
    }
}

#[test]
fn every_struct_is_compared() {
    let all = PARTS.iter().flat_map(|(_, _, sources)| items(sources));
    let declared: Vec<(String, Vec<String>)> =
        all.filter_map(|item: Item| Some((item.name().to_owned(), item.members()?))).collect();
    let compared: Vec<(String, Vec<String>)> = layouts()
        .into_iter()
        .map(|(name, _, members)| (name.to_owned(), members.into_iter().map(|(member, _)| member.to_owned()).collect()))
        .collect();
    assert_eq!(declared, compared);
}

#[test]
fn a_compiler_finds_the_same_sizes_and_places() {
    let test = "a_compiler_finds_the_same_sizes_and_places";
    let mut program = "#include <napier.h>\n#include <stddef.h>\n".to_owned();
    for (name, size, members) in layouts() {
        program += &format!("_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");\n");
        for (member, at) in members {
            program += &format!("_Static_assert(offsetof(struct {name}, {member}) == {at}, \"{name}.{member}\");\n");
        }
    }
    let folder = Folder::new(test);
    // What the sources say: the one in the tree may be written meanwhile.
    std::fs::write(folder.file("napier.h"), super::header()).expect("a file");
    std::fs::write(folder.file("sizes.c"), program).expect("a file");
    std::fs::write(folder.file("plain.cc"), "#include <napier.h>\nint main() { return napier_close(-1) != -1; }\n")
        .expect("a file");
    for (compiler, standard, source) in [("cc", "c11", "sizes.c"), ("c++", "c++17", "plain.cc")] {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o", "out.o"]).arg(format!("-std={standard}"));
        command.args(["-I", ".", source]).current_dir(&folder);
        match command.output() {
            Ok(output) => assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => skip!(test, "{compiler} is not installed"),
            Err(error) => panic!("{compiler}: {error}"),
        }
    }
}
