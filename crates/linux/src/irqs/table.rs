//! Rows of `/proc/interrupts`.

/// A table, parsed.
pub(crate) struct IrqTable<'t> {
    rows: Vec<IrqRow<'t>>,
}

/// An interrupt with a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IrqRow<'t> {
    pub(crate) number: u32,
    /// What raises it.
    pub(crate) chip: &'t str,
    /// What its drivers call it: all words behind the chip, for a name may have blanks, and a shared interrupt has several
    /// names with commas between.
    pub(crate) name: &'t str,
}

impl<'t> IrqTable<'t> {
    pub(crate) fn parse(text: &'t str) -> Self {
        let head = text.lines().next().unwrap_or_default();
        let cpus = head.split_whitespace().filter(|word| word.starts_with("CPU")).count();
        Self { rows: text.lines().filter_map(|line| IrqRow::parse(line, cpus)).collect() }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &IrqRow<'t>> {
        self.rows.iter()
    }
}

impl<'t> IrqRow<'t> {
    /// Source: `kernel/irq/proc.c show_interrupts`: number, a count for each CPU, chip, number and kind of the chip's, names.
    fn parse(line: &'t str, cpus: usize) -> Option<Self> {
        let (number, mut rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        for _ in 0..cpus {
            let (count, behind) = word(rest)?;
            count.parse::<u64>().ok()?;
            rest = behind;
        }
        let (chip, rest) = word(rest)?;
        Some(Self { number, chip, name: name(rest) })
    }

    /// Whether one of its names has this one in it, by itself: `eth0-rx-1` and `i40e-eth0-TxRx-0` have `eth0`; `eth01-rx-0`,
    /// `veth0-q0` and `eth0.100-x` do not.
    pub(crate) fn bears(&self, wanted: &str) -> bool {
        has_apart(self.name, wanted)
    }

    /// Whether the chip is this device's (since Linux 6.2: `PCI-MSIX-0000:81:00.0`).
    pub(crate) fn is_of_chip(&self, device: &str) -> bool {
        has_apart(self.chip, device)
    }
}

/// The first word, and what is behind it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// What is behind the chip's own number and kind: `3-edge`, `27 Level`, `-event`, or nothing of it.
fn name(rest: &str) -> &str {
    match word(rest) {
        Some((own, behind)) if own.starts_with(|c: char| c.is_ascii_digit() || c == '-') => match word(behind) {
            Some(("Edge" | "Level" | "None", name)) => name.trim(),
            _ => behind.trim(),
        },
        // A chip whose name has blanks: two of them are before the names.
        _ => rest.trim_end().rsplit_once("  ").map_or("", |(_, name)| name).trim(),
    }
}

/// Whether `wanted` is in `text` with neither a letter nor a digit beside it, nor the number of a VLAN behind.
pub(super) fn has_apart(text: &str, wanted: &str) -> bool {
    apart(text, wanted).next().is_some()
}

/// Where `wanted` is by itself in `text`.
pub(super) fn apart<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let places = text.match_indices(if wanted.is_empty() { "\0" } else { wanted }).map(|(at, _)| at);
    places.filter(move |at| {
        let (front, back) = (&text[..*at], &text[at + wanted.len()..]);
        let mut behind = back.chars();
        let (next, second) = (behind.next(), behind.next());
        let is_vlan = next == Some('.') && second.is_some_and(|c| c.is_ascii_digit());
        !front.ends_with(char::is_alphanumeric) && !next.is_some_and(char::is_alphanumeric) && !is_vlan
    })
}
