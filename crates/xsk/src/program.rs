//! A small assembler for XDP programs: instructions, and labels for jumps that go forward.

use std::os::fd::{AsRawFd, BorrowedFd};

use napier_sys::bpf::Instruction;

/// A register.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R4: Register = Register(4);
pub(crate) const R5: Register = Register(5);
pub(crate) const R6: Register = Register(6);

/// How much is loaded; the rest of the register becomes zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Byte,
    Half,
    Word,
}

/// A place in the program that jumps lead to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Label(u32);

/// What happens to packets that a program takes.
#[derive(Copy, Clone, Debug)]
pub(crate) enum XdpVerdict<'a> {
    /// They go to the socket of their queue in this map, and on to the kernel where the queue has none.
    Redirect(BorrowedFd<'a>),
    /// The program answers with this number (`enum xdp_action`), to be tried without a socket.
    #[cfg_attr(not(test), expect(dead_code, reason = "programs are tried with it"))]
    Answer(i32),
}

/// `enum xdp_action`, in `include/uapi/linux/bpf.h`.
pub(crate) const XDP_PASS: i32 = 2;
/// `enum bpf_func_id` of the same file.
const BPF_REDIRECT_MAP: i32 = 51;
/// `struct xdp_md`: the queue that the packet came in by.
const MD_QUEUE: i16 = 16;

// Instruction codes. Source: `include/uapi/linux/bpf.h` and `bpf_common.h`.
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const LOAD_IMMEDIATE: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_GREATER: u8 = 0x2d;
/// These compare the low 32 bits.
const JUMP_EQUAL: u8 = 0x16;
const JUMP_NOT_EQUAL: u8 = 0x56;
const JUMP_SET: u8 = 0x46;
const JUMP_LESS: u8 = 0xa6;
const JUMP_LESS_EQUAL: u8 = 0xb6;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The immediate is the descriptor of a map.
const PSEUDO_MAP_FD: u8 = 1;

/// A program in the making.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// Jumps whose label is not bound yet.
    open: Vec<(usize, Label)>,
    labels: u32,
}

impl Assembler {
    /// A new label, to be bound once.
    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Jumps to `label` so far lead here. False if there are none.
    pub(crate) fn bind(&mut self, label: Label) -> bool {
        let (here, open) = (self.code.len(), self.open.len());
        self.open.retain(|&(from, to)| {
            if to == label {
                let distance = i16::try_from(here - from - 1).expect("a filter is shorter than a jump");
                self.code[from].offset = distance;
            }
            to != label
        });
        self.open.len() < open
    }

    /// The program.
    pub(crate) fn finish(self) -> Vec<Instruction> {
        assert!(self.open.is_empty(), "a jump leads nowhere");
        self.code
    }

    /// `to = from`.
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.put(MOVE, to, from, 0, 0);
    }

    /// `to += number`.
    pub(crate) fn add(&mut self, to: Register, number: i32) {
        self.put(ADD_NUMBER, to, R0, 0, number);
    }

    /// `to` = what is at `offset` from `base`.
    pub(crate) fn load(&mut self, size: Size, to: Register, base: Register, offset: i16) {
        let code = match size {
            Size::Byte => LOAD_BYTE,
            Size::Half => LOAD_HALF,
            Size::Word => LOAD_WORD,
        };
        self.put(code, to, base, offset, 0);
    }

    /// Turns two bytes from a packet into a number.
    pub(crate) fn decode_number(&mut self, register: Register) {
        self.put(TO_BIG_ENDIAN, register, R0, 0, 16);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.branch(JUMP, R0, R0, 0, to);
    }

    pub(crate) fn jump_if_greater(&mut self, left: Register, right: Register, to: Label) {
        self.branch(JUMP_GREATER, left, right, 0, to);
    }

    pub(crate) fn jump_if_eq(&mut self, register: Register, number: i32, to: Label) {
        self.branch(JUMP_EQUAL, register, R0, number, to);
    }

    pub(crate) fn jump_unless_eq(&mut self, register: Register, number: i32, to: Label) {
        self.branch(JUMP_NOT_EQUAL, register, R0, number, to);
    }

    /// Jumps if any of `bits` is set.
    pub(crate) fn jump_if_set(&mut self, register: Register, bits: i32, to: Label) {
        self.branch(JUMP_SET, register, R0, bits, to);
    }

    pub(crate) fn jump_if_less(&mut self, register: Register, number: i32, to: Label) {
        self.branch(JUMP_LESS, register, R0, number, to);
    }

    pub(crate) fn jump_unless_above(&mut self, register: Register, number: i32, to: Label) {
        self.branch(JUMP_LESS_EQUAL, register, R0, number, to);
    }

    /// Ends the program: the kernel's stack gets the packet.
    pub(crate) fn pass(&mut self) {
        self.put(MOVE_NUMBER, R0, R0, 0, XDP_PASS);
        self.put(EXIT, R0, R0, 0, 0);
    }

    /// Ends the program: the packet is taken.
    pub(crate) fn verdict(&mut self, verdict: XdpVerdict<'_>) {
        match verdict {
            XdpVerdict::Answer(answer) => self.put(MOVE_NUMBER, R0, R0, 0, answer),
            XdpVerdict::Redirect(map) => {
                self.load(Size::Word, R2, R6, MD_QUEUE);
                self.put(LOAD_IMMEDIATE, R1, Register(PSEUDO_MAP_FD), 0, map.as_raw_fd());
                self.put(0, R0, R0, 0, 0); // the high half of the immediate
                self.put(MOVE_NUMBER, R3, R0, 0, XDP_PASS);
                self.put(CALL, R0, R0, 0, BPF_REDIRECT_MAP);
            }
        }
        self.put(EXIT, R0, R0, 0, 0);
    }

    fn branch(&mut self, code: u8, left: Register, right: Register, number: i32, to: Label) {
        self.open.push((self.code.len(), to));
        self.put(code, left, right, 0, number);
    }

    fn put(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: to.0 | from.0 << 4, offset, immediate });
    }
}
