//! Values as text: lists and masks of CPUs, words for a shell and for a terminal.

pub(crate) use napier_core::control::cpu_list;

/// A word of a command as a shell takes it: names of interfaces may hold anything but blanks and slashes.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:=,@%+-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.chars().any(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    // As `bash`, `zsh` and `ksh` read it.
    let letter = |letter: char| match letter {
        '\'' | '\\' => format!("\\{letter}"),
        control if control.is_control() => {
            control.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
        }
        other => other.to_string(),
    };
    format!("$'{}'", word.chars().map(letter).collect::<String>())
}

/// A text in one line of a terminal: what would move its cursor or colour it is shown as it is written in a string. Names of programs
/// and interfaces are others'.
#[must_use]
pub fn shown(text: &str) -> String {
    let hidden = |letter: char| letter.is_control() || ('\u{202a}'..='\u{202e}').contains(&letter);
    text.chars()
        .map(|letter| if hidden(letter) { letter.escape_default().to_string() } else { letter.to_string() })
        .collect()
}

/// Numbers as such a list, in order.
pub(crate) fn cpu_list_text(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let part = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// Numbers as a mask.
pub(crate) fn cpu_mask_text(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let bits =
        |group: u32| cpus.iter().filter(|cpu| *cpu / 32 == group).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
    let text = |group| if group + 1 == groups { format!("{:x}", bits(group)) } else { format!("{:08x}", bits(group)) };
    (0..groups).rev().map(text).collect::<Vec<_>>().join(",")
}

/// Bits of a mask as the kernel writes it: groups of 32 bits in hexadecimal, the highest first, with commas between.
pub(crate) fn cpu_mask(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for (group, bits) in text.trim().split(',').rev().enumerate() {
        let bits = u32::from_str_radix(bits.trim().trim_start_matches("0x"), 16).ok()?;
        let base = u32::try_from(group).ok()? * 32;
        all.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| base + bit));
    }
    Some(all)
}

/// Whether two texts are the same list of CPUs.
pub(crate) fn same_cpu_list(one: &str, other: &str) -> bool {
    cpu_list(one).is_some_and(|one| cpu_list(other) == Some(one))
}

/// Whether two values of a file are the same, by what its name says that it holds.
pub(crate) fn same_in_file(file: &str, one: &str, other: &str) -> bool {
    if file.ends_with("_list") {
        return same_cpu_list(one, other);
    }
    let is_mask = ["cpumask", "_cpus", "_rxqs", "smp_affinity"].iter().any(|end| file.ends_with(end));
    is_mask && cpu_mask(one).is_some_and(|one| cpu_mask(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_mask("1,00000003\n"), Some(vec![0, 1, 32]));
        assert_eq!((cpu_mask("0"), cpu_mask("g")), (Some(vec![]), None));
        assert_eq!((cpu_mask_text(&[0, 1, 32]).as_str(), cpu_mask_text(&[]).as_str()), ("1,00000003", "0"));
        assert_eq!((cpu_list_text(&[0, 1, 2, 5]).as_str(), cpu_list_text(&[]).as_str()), ("0-2,5", ""));
    }

    #[test]
    fn words_of_others_are_words_for_a_shell_and_for_a_terminal() {
        assert_eq!(
            (quoted("eth0").as_str(), quoted("a;b").as_str(), quoted("a'b").as_str()),
            ("eth0", "'a;b'", r"'a'\''b'")
        );
        assert_eq!((quoted("\u{1b}[31mE").as_str(), quoted("").as_str()), (r"$'\x1b[31mE'", "''"));
        assert_eq!((shown("\u{1b}[2J\nX").as_str(), shown("µs -> 3").as_str()), (r"\u{1b}[2J\nX", "µs -> 3"));
    }
}
