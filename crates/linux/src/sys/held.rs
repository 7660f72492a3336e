//! Answers to held system calls that carry a value or a descriptor, memory of the process that made them, and the page by which a keeper
//! knows which of them its supervisor still has.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};

/// Held calls that a supervisor may have unanswered at one time, beside the one that it was handed last.
pub(crate) const UNANSWERED_MAX: usize = 256;
/// Theirs, and the first of what the kernel writes behind them of the one that it handed out last: its id.
const WORDS: usize = UNANSWERED_MAX + 1;
const PAGE_BYTES: usize = UNANSWERED_MAX * size_of::<AtomicU64>() + size_of::<libc::seccomp_notif>();
const _: () = assert!(std::mem::offset_of!(libc::seccomp_notif, id) == 0, "the word behind the others");
const _: () = assert!(align_of::<libc::seccomp_notif>() <= align_of::<AtomicU64>(), "it follows them");

/// What became of an answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum AnswerHeard {
    /// The call returns; with a descriptor: its number.
    Heard(i32),
    /// A signal has ended the call, or its thread has ended: what was to be told is not known to the program.
    Gone,
}

/// What an ioctl on a listener came to.
fn told(result: libc::c_int) -> io::Result<AnswerHeard> {
    if result >= 0 {
        return Ok(AnswerHeard::Heard(result));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOENT) { Ok(AnswerHeard::Gone) } else { Err(error) }
}

/// Lets a call return `value`, or an error if that is not 0.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, value: i64, error: i32) -> io::Result<AnswerHeard> {
    let answer = libc::seccomp_notif_resp { id, val: value, error: -error, flags: 0 };
    // SAFETY: the descriptor is open while it is borrowed, and `answer` lives through the call, which only reads it.
    told(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) })
}

/// Gives the caller a descriptor, and its number; the call still waits. It takes the place of `number`, or gets the lowest that is free.
pub(crate) fn add(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    number: Option<i32>,
    close_on_exec: bool,
) -> io::Result<AnswerHeard> {
    let flags = if number.is_some() { libc::SECCOMP_ADDFD_FLAG_SETFD } else { 0 };
    let added = libc::seccomp_notif_addfd {
        id,
        flags: flags as u32,
        srcfd: fd.as_raw_fd().cast_unsigned(),
        newfd: number.unwrap_or(0).cast_unsigned(),
        newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
    };
    // SAFETY: the descriptors are open while they are borrowed, and `added` lives through the call, which only reads it.
    told(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const added) })
}

/// Reads memory of a process by the number of one of its threads; fewer bytes if the rest is not mapped. Source: `process_vm_readv(2)`.
pub(crate) fn read_memory(tid: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` names bytes that live through the call; `remote` is of another process, where the kernel checks it.
    let count = unsafe { libc::process_vm_readv(tid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The page, mapped.
#[derive(Debug)]
struct MappedPage(NonNull<AtomicU64>);

// SAFETY: the words are atomic, and the mapping lives as long as this.
unsafe impl Send for MappedPage {}

impl MappedPage {
    fn map(file: impl AsFd, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: the address is the kernel's choice, so nothing that is there is replaced.
        let page =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, file, 0) }?;
        NonNull::new(page.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The ids of calls that wait, and behind them that of the one that was handed out last.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, lives as long as this, cannot shrink, and atomic words may be written by others.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), WORDS) }
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this size, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// Which calls a supervisor has not answered: it writes their ids, and a keeper reads them when the supervisor has ended. The kernel itself writes
/// there which call it handed out last, so that one is known wherever the supervisor was killed. No other process can write there: what a call is, is
/// the kernel's word.
#[derive(Debug)]
pub(crate) struct Unanswered {
    page: MappedPage,
    file: OwnedFd,
}

impl Unanswered {
    /// In a file that cannot shrink, so that an access to the mapping never fails.
    ///
    /// # Errors
    /// As `memfd_create(2)`; `EINVAL` before Linux 5.1, which has no seal against later writers.
    pub(crate) fn make() -> io::Result<Self> {
        let file = memfd_create("napier-held", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, PAGE_BYTES as u64)?;
        let page = MappedPage::map(&file, ProtFlags::READ | ProtFlags::WRITE)?;
        // The mapping that is there stays as it is.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Self { page, file })
    }

    pub(crate) fn set(&self, at: usize, id: u64) {
        assert!(at < UNANSWERED_MAX, "the last one is the kernel's");
        // Relaxed: it is read when the process that writes it has ended.
        self.page.words()[at].store(id, Ordering::Relaxed);
    }

    /// Where the kernel writes the next call (`seccomp::receive`).
    pub(crate) fn next_call(&mut self) -> &mut libc::seccomp_notif {
        let found = self.page.0.as_ptr().wrapping_add(UNANSWERED_MAX).cast::<libc::seccomp_notif>();
        // SAFETY: it lies in the mapping behind the words that are set, is aligned as they are, nothing else of this process borrows it, and no other
        // process can write there.
        unsafe { &mut *found }
    }
}

impl AsFd for Unanswered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The same as a keeper has it.
#[derive(Debug)]
pub(crate) struct SeenUnanswered(MappedPage);

impl SeenUnanswered {
    /// Maps what a supervisor has made.
    pub(crate) fn map(file: impl AsFd) -> io::Result<Self> {
        // The seal first: without it the size may be another when it has been asked for.
        let is_sealed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        if !is_sealed || fstat(&file)?.st_size != PAGE_BYTES as i64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        MappedPage::map(file, ProtFlags::READ).map(Self)
    }

    /// The ids; 0 and those of calls that have been answered name none.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_read() {
        let cell = std::hint::black_box([1_u8, 2, 3]);
        let (pid, at) = (std::process::id(), cell.as_ptr() as u64);
        let mut read = [0; 3];
        assert_eq!(read_memory(pid, at, &mut read).expect("own memory"), 3);
        assert_eq!(read, [1, 2, 3]);
        assert_eq!(read_memory(pid, 8, &mut read).expect_err("nothing is there").raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_page_is_taken_only_if_it_cannot_shrink_and_no_other_writes_to_it() {
        let made = Unanswered::make().expect("a file");
        let seen = SeenUnanswered::map(&made).expect("mapped");
        made.set(UNANSWERED_MAX - 1, 7);
        assert_eq!(seen.words()[UNANSWERED_MAX - 1].load(Ordering::Relaxed), 7);
        assert_eq!(seen.words().len(), UNANSWERED_MAX + 1);
        assert!(ftruncate(&made, 0).is_err(), "it is sealed");
        assert!(MappedPage::map(&made, ProtFlags::READ | ProtFlags::WRITE).is_err(), "it is its supervisor's");
        assert!(rustix::io::pwrite(&made, &[1], 0).is_err(), "it is its supervisor's");
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        assert!(SeenUnanswered::map(&open).is_err(), "it is empty");
        ftruncate(&open, PAGE_BYTES as u64).expect("grown");
        assert!(SeenUnanswered::map(&open).is_err(), "it could shrink");
    }
}
