//! Sections that a thread can wait for: a switch is thrown, and its thread waits until no other can still act by its
//! old position. As `rcu_read_lock` and `synchronize_rcu`, with one [`Exclusive`] per reader.
//!
//! A reader enters with [`enter_section`] and only then looks at the switch; who throws it asks [`section_is_over`] of
//! every reader's cell until each has answered `true` once. Then every thread that is inside, or will be, has seen the new position.

use crate::sync::{Point, full_fence};
use crate::{Entered, Exclusive};

/// Enters a reader's cell; `None` if a thread is inside. What the caller reads next is the switch as it is now, or who
/// throws it waits for the guard to be dropped.
#[inline]
pub fn enter_section<T>(cell: &Exclusive<T>) -> Option<Entered<'_, T>> {
    let entered = cell.try_enter()?;
    // Pairs with the fence in `section_is_over`: either this entry is seen there, or the new position is seen here.
    full_fence(Point::SectionEnter);
    Some(entered)
}

/// Whether no section of this cell goes on that may have begun before the switch was thrown. To be called after that, as
/// often as it takes.
#[must_use]
pub fn section_is_over<T>(cell: &Exclusive<T>) -> bool {
    // Pairs with the fence in `enter_section`.
    full_fence(Point::SectionWait);
    !cell.is_entered()
}
