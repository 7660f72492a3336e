//! The rows that a list of modes asks for.

use napier_core::control::mode;

use crate::modes::{Mode, ModeError, parse};
use crate::subject::{COPY_MARK, IRQ_SUFFIX, copy_of};

/// What `--modes` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedModes {
    /// Modes, in the order of their rows.
    pub modes: Vec<Mode>,
    /// Those with one more row of the kernel, which receives on the server's CPU.
    pub irq: Vec<Mode>,
    /// Those with one more row that is the same, and which copy it is.
    pub copies: Vec<(Mode, u8)>,
}

impl AskedModes {
    /// Reads a list of modes with commas between them. A mode with `-irq` behind it has one more row of the kernel, which receives
    /// on the server's CPU. One with `@2` behind it (to `@9`) is there once more: two names of one mode show what chance does.
    ///
    /// # Errors
    /// [`ModeError`] for the first name that is wrong or given twice, or if there is none.
    pub fn parse(names: &str) -> Result<Self, ModeError> {
        let (mut asked, mut plain) = (Self::default(), Vec::new());
        for name in names.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(mode::ModeError::Empty.into());
            }
            let (mode, is_new) = if let Some((mode, copy)) = name.split_once(COPY_MARK) {
                let copy = (parse(mode)?, copy_of(name, copy)?);
                (copy.0, insert(&mut asked.copies, copy))
            } else if let Some(mode) = name.strip_suffix(IRQ_SUFFIX) {
                let mode = parse(mode)?;
                (mode, insert(&mut asked.irq, mode))
            } else {
                let mode = parse(name)?;
                (mode, insert(&mut plain, mode))
            };
            if !is_new {
                return Err(mode::ModeError::Twice { name: name.to_owned() }.into());
            }
            insert(&mut asked.modes, mode);
        }
        Ok(asked)
    }
}

fn insert<T: PartialEq>(list: &mut Vec<T>, one: T) -> bool {
    let is_new = !list.contains(&one);
    if is_new {
        list.push(one);
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_may_have_a_row_that_receives_like_a_nic() {
        let suspend = Mode::Suspend { us: 20 };
        let asked = AskedModes::parse("base, suspend20-irq,defer20").unwrap();
        assert_eq!((asked.modes, asked.irq), (vec![Mode::Base, suspend, Mode::Defer { us: 20 }], vec![suspend]));
        let asked = AskedModes::parse("base-irq,base").unwrap();
        assert_eq!((asked.modes, asked.irq, asked.copies), (vec![Mode::Base], vec![Mode::Base], vec![]));
    }

    #[test]
    fn a_mode_may_be_there_under_two_names() {
        let asked = AskedModes::parse("base,defer20,base@2,base@3").unwrap();
        assert_eq!(asked.modes, [Mode::Base, Mode::Defer { us: 20 }]);
        assert_eq!(asked.copies, [(Mode::Base, 2), (Mode::Base, 3)]);
        assert_eq!(AskedModes::parse("base@2").unwrap().modes, [Mode::Base], "a copy is one of a row");
    }

    #[test]
    fn what_is_no_row_is_refused_with_what_may_be_given() {
        for wrong in ["base-irq,base-irq", "base,base", "base,,x", "-irq", "", "base@2,base@2", "bose@2"] {
            assert!(AskedModes::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["base@", "base@1", "base@10", "base@two", "base@2-irq", "base@2@3"] {
            let error = AskedModes::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("@2 to @9"), "{error}");
        }
    }
}
