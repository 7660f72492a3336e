//! What writes formatted text to a descriptor by calls inside of the C library: the connection goes on by its pair.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};

use super::abi::{self, DPRINTF, DPRINTF_CHK};
use super::connections::WhyLeft;
use super::forget;

/// As `vdprintf(3)`. Its list of arguments is passed by a pointer on both machines.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    forget(fd, Some(WhyLeft::Dprintf));
    // SAFETY: as the caller promises.
    unsafe { abi::vdprintf(fd, format, arguments) }
}

/// The same as programs call it that are compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    forget(fd, Some(WhyLeft::Dprintf));
    // SAFETY: as the caller promises.
    unsafe { abi::__vdprintf_chk(fd, flag, format, arguments) }
}

extern "C" fn before_dprintf(fd: c_int) -> *const c_void {
    forget(fd, Some(WhyLeft::Dprintf));
    DPRINTF.place()
}

extern "C" fn before_dprintf_chk(fd: c_int) -> *const c_void {
    forget(fd, Some(WhyLeft::Dprintf));
    DPRINTF_CHK.place()
}

/// Calls a function with the first argument, and goes on at the place that it gives with all registers that arguments are in, and the stack, as they
/// were. Source: System V ABI, AMD64, 3.2.3 and 3.5.7.
#[cfg(target_arch = "x86_64")]
macro_rules! pass_on {
    ($before:ident) => {
        naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0",
            "movaps [rsp + 80], xmm1",
            "movaps [rsp + 96], xmm2",
            "movaps [rsp + 112], xmm3",
            "movaps [rsp + 128], xmm4",
            "movaps [rsp + 144], xmm5",
            "movaps [rsp + 160], xmm6",
            "movaps [rsp + 176], xmm7",
            "call {before}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movaps xmm0, [rsp + 64]",
            "movaps xmm1, [rsp + 80]",
            "movaps xmm2, [rsp + 96]",
            "movaps xmm3, [rsp + 112]",
            "movaps xmm4, [rsp + 128]",
            "movaps xmm5, [rsp + 144]",
            "movaps xmm6, [rsp + 160]",
            "movaps xmm7, [rsp + 176]",
            "leave",
            "jmp r11",
            before = sym $before,
        )
    };
}

/// The same. Source: AAPCS64, 6.8.2.
#[cfg(target_arch = "aarch64")]
macro_rules! pass_on {
    ($before:ident) => {
        naked_asm!(
            "stp x29, x30, [sp, #-208]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "stp q0, q1, [sp, #80]",
            "stp q2, q3, [sp, #112]",
            "stp q4, q5, [sp, #144]",
            "stp q6, q7, [sp, #176]",
            "bl {before}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldp q0, q1, [sp, #80]",
            "ldp q2, q3, [sp, #112]",
            "ldp q4, q5, [sp, #144]",
            "ldp q6, q7, [sp, #176]",
            "ldp x29, x30, [sp], #208",
            "br x16",
            before = sym $before,
        )
    };
}

/// As `dprintf(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dprintf() {
    pass_on!(before_dprintf)
}

/// The same as programs call it that are compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __dprintf_chk() {
    pass_on!(before_dprintf_chk)
}
