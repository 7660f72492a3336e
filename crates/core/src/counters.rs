//! Figures that threads add to while others read them: what is counted is listed once.
//!
//! [`counters!`](macro@crate::counters) makes of one list of fields the struct whose fields threads add to and the struct that
//! a reader gets, with the reading, the writing down, the difference of two readings and the printing. [`shown!`](macro@crate::shown) prints others.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::context::{PerContext, PollContext};

/// A number that threads add to and any thread reads. Relaxed throughout: it is ordered with nothing.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds, with a plain load and store: one thread at a time does.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets the number to one that is counted elsewhere.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds from any thread.
    #[inline]
    pub fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// A number that is counted, or one for each context.
pub trait Number: Sized {
    /// What threads add to.
    type Cell: Default;

    /// The number now.
    #[must_use]
    fn read(cell: &Self::Cell) -> Self;

    /// Writes down what one thread has counted, for others to read.
    fn publish(&self, cell: &Self::Cell);

    /// `f` of both.
    #[must_use]
    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self;
}

impl Number for u64 {
    type Cell = Counter;

    #[inline]
    fn read(cell: &Counter) -> Self {
        cell.get()
    }

    #[inline]
    fn publish(&self, cell: &Counter) {
        cell.set(*self);
    }

    #[inline]
    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        f(*self, *other)
    }
}

impl Number for PerContext<u64> {
    type Cell = PerContext<Counter>;

    fn read(cell: &Self::Cell) -> Self {
        Self::from_fn(|context| cell[context].get())
    }

    fn publish(&self, cell: &Self::Cell) {
        let _: PerContext<()> = PerContext::from_fn(|context| cell[context].set(self[context]));
    }

    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        Self::from_fn(|context| f(self[context], other[context]))
    }
}

/// A number that is printed on a line of its own, if it is not 0.
pub trait ShownNumber {
    /// Prints it with its name and its unit, as the name ends; of one for each context, who did it beside the sum.
    ///
    /// # Errors
    /// Those of the writer.
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// What a number counts if its name ends so; what ends otherwise counts times.
fn unit_of(name: &str) -> &'static str {
    let ends =
        [("_ns", " ns"), ("bytes", " bytes"), ("_ticks", " ticks"), ("packets", " packets"), ("_pkts", " packets")];
    ends.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

impl ShownNumber for u64 {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == 0 { Ok(()) } else { writeln!(f, "{name:<32}{self}{}", unit_of(name)) }
    }
}

impl ShownNumber for PerContext<u64> {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total() == 0 {
            return Ok(());
        }
        write!(f, "{name:<32}{}{}", self.total(), unit_of(name))?;
        let mut before = " (";
        for context in PollContext::ALL.into_iter().filter(|context| self[*context] != 0) {
            write!(f, "{before}{} {}", context.name(), self[context])?;
            before = ", ";
        }
        f.write_str(")\n")
    }
}

/// Prints a reading: a line for each number that is not 0, as `nstat` does, with its name and its unit. All fields are listed.
///
/// ```
/// struct Seen {
///     packets: u64,
///     spun_ns: u64,
///     lost: u64,
/// }
/// napier_core::shown!(Seen { packets, spun_ns, lost });
///
/// let seen = Seen { packets: 3, spun_ns: 50, lost: 0 }.to_string();
/// assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["packets", "3", "packets", "spun_ns", "50", "ns"]);
/// ```
#[macro_export]
macro_rules! shown {
    ($numbers:ident { $($field:ident),+ $(,)? }) => {
        /// One line per counter that is not 0, with its name and its unit.
        impl core::fmt::Display for $numbers {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let Self { $($field),+ } = self;
                $($crate::counters::ShownNumber::show($field, stringify!($field), f)?;)+
                Ok(())
            }
        }
    };
}

/// A reading of counters. Its numbers are read one after the other, not at one instant.
pub trait CounterReading<Cells>: Sized {
    /// The numbers now; 0 where they are counted elsewhere.
    #[must_use]
    fn read(cells: &Cells) -> Self;

    /// Writes down what one thread has counted, for others to read.
    fn publish(&self, cells: &Cells);

    /// `f` of each number of both.
    #[must_use]
    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self;
}

/// Makes two structs of one list: the cells that threads add to, and the numbers that a reading of them gives.
///
/// Each field is a [`Number`], mostly a `u64`, whose cell is a [`Counter`]. What stands under `elsewhere` has no cell:
/// a reading leaves it at its default, and who reads fills it in; differences and sums have it. What stands under `beside`
/// is no number; a sum or difference keeps that of its first operand.
///
/// ```
/// use napier_core::counters::CounterReading;
///
/// napier_core::counters! {
///     /// What the owner of a door counts.
///     struct DoorCounters;
///     /// Counters of one door.
///     #[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
///     struct DoorStats {
///         /// Times that it was opened.
///         opened: u64,
///     }
///     elsewhere {
///         /// Rings of its bell.
///         rings: u64,
///     }
/// }
///
/// let door = DoorCounters::default();
/// door.opened.add(1);
/// let before = DoorStats { rings: 7, ..DoorStats::read(&door) };
/// door.opened.add(2);
/// let after = DoorStats { rings: 9, ..DoorStats::read(&door) };
/// assert_eq!(after - before, DoorStats { opened: 2, rings: 2 });
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$cells_meta:meta])*
        $cells_vis:vis struct $cells:ident;
        $(#[$meta:meta])*
        $vis:vis struct $numbers:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $of:ty),* $(,)?
        }
        $(elsewhere { $($(#[$else_meta:meta])* $else_vis:vis $else:ident: $else_of:ty),* $(,)? })?
        $(beside { $($(#[$beside_meta:meta])* $beside_vis:vis $beside:ident: $beside_of:ty),* $(,)? })?
    ) => {
        $(#[$cells_meta])*
        #[derive(Default)]
        $cells_vis struct $cells {
            $($field_vis $field: <$of as $crate::counters::Number>::Cell,)*
        }

        $(#[$meta])*
        $vis struct $numbers {
            $($($(#[$beside_meta])* $beside_vis $beside: $beside_of,)*)?
            $($($(#[$else_meta])* $else_vis $else: $else_of,)*)?
            $($(#[$field_meta])* $field_vis $field: $of,)*
        }

        impl $crate::counters::CounterReading<$cells> for $numbers {
            fn read(cells: &$cells) -> Self {
                Self {
                    $($field: <$of as $crate::counters::Number>::read(&cells.$field),)*
                    $($($else: Default::default(),)*)?
                    $($($beside: Default::default(),)*)?
                }
            }

            fn publish(&self, cells: &$cells) {
                $($crate::counters::Number::publish(&self.$field, &cells.$field);)*
            }

            fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
                Self {
                    $($field: $crate::counters::Number::combine(&self.$field, &other.$field, f),)*
                    $($($else: $crate::counters::Number::combine(&self.$else, &other.$else, f),)*)?
                    $($($beside: self.$beside.clone(),)*)?
                }
            }
        }

        /// One line per counter that is not 0, with its name and its unit.
        impl core::fmt::Display for $numbers {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $($crate::counters::ShownNumber::show(&self.$field, stringify!($field), f)?;)*
                $($($crate::counters::ShownNumber::show(&self.$else, stringify!($else), f)?;)*)?
                Ok(())
            }
        }

        impl core::ops::AddAssign for $numbers {
            /// Adds the numbers of another.
            fn add_assign(&mut self, other: Self) {
                *self = <Self as $crate::counters::CounterReading<$cells>>::combine(self, &other, u64::wrapping_add);
            }
        }

        impl core::ops::Sub for $numbers {
            type Output = Self;

            /// What was counted between two moments.
            fn sub(self, earlier: Self) -> Self {
                <Self as $crate::counters::CounterReading<$cells>>::combine(&self, &earlier, u64::wrapping_sub)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        struct Cells;
        #[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
        struct Numbers {
            polls: PerContext<u64>,
            schedules: u64,
        }
        elsewhere {
            interrupts: u64,
        }
        beside {
            name: &'static str,
        }
    }

    fn read(cells: &Cells, interrupts: u64) -> Numbers {
        Numbers { interrupts, name: "cpu", ..Numbers::read(cells) }
    }

    #[test]
    fn a_difference_is_of_each_number_and_keeps_what_is_none() {
        let cells = Cells::default();
        let before = read(&cells, 3);
        cells.polls[PollContext::User].add(2);
        cells.schedules.add_shared(5);
        let mut between = read(&cells, 7) - before;
        assert_eq!((between.polls[PollContext::User], between.polls.total()), (2, 2));
        assert_eq!((between.schedules, between.interrupts, between.name), (5, 4, "cpu"));
        let shown = alloc::format!("{between}");
        let words = ["polls", "2", "(user", "2)", "schedules", "5", "interrupts", "4"];
        assert!(shown.split_whitespace().eq(words), "{shown}");
        between += between;
        assert_eq!((between.polls.total(), between.schedules, between.interrupts), (4, 10, 8));
    }

    #[test]
    fn a_name_ends_as_what_it_counts() {
        for (name, want) in [("busy_ns", "7 ns"), ("rx_bytes", "7 bytes"), ("tx_packets", "7 packets"), ("polls", "7")]
        {
            let shown = alloc::format!("{}", Line(name));
            assert_eq!(shown, alloc::format!("{name:<32}{want}\n"));
        }
    }

    struct Line(&'static str);

    impl fmt::Display for Line {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            ShownNumber::show(&7, self.0, f)
        }
    }

    #[test]
    fn what_is_published_is_read() {
        let mut mine = Numbers { schedules: 9, ..Numbers::default() };
        mine.polls[PollContext::Group] = 1;
        let cells = Cells::default();
        mine.publish(&cells);
        assert_eq!(Numbers::read(&cells), mine);
    }
}
