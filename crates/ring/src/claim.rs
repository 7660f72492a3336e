//! The reference to a value that a word protects.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::sync::{MutPtr, UnsafeCell};

/// The value of a cell, for the thread that the cell's word lets in. It is to be dropped before the word says otherwise.
pub(crate) struct Claim<'a, T> {
    value: MutPtr<T>,
    cell: PhantomData<&'a UnsafeCell<T>>,
}

impl<'a, T> Claim<'a, T> {
    /// # Safety
    ///
    /// Until this is dropped no other thread makes one, or a reference to the value.
    pub(crate) unsafe fn new(cell: &'a UnsafeCell<T>) -> Self {
        Self { value: cell.get_mut(), cell: PhantomData }
    }
}

impl<T> Deref for Claim<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is ours (`new`), the cell outlives us, and `&self` keeps `deref_mut` away.
        unsafe { MutPtr::deref(&self.value) }
    }
}

impl<T> DerefMut for Claim<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is ours (`new`), the cell outlives us, and `&mut self` makes this reference the only one.
        unsafe { MutPtr::deref(&self.value) }
    }
}
