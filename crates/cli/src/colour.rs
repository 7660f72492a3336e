//! Whether to write in colours: as `--color` says, else as `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and the terminal do.

use std::ffi::OsString;

use clap::ColorChoice;

/// What `--color` in these arguments says. Help and errors of the parser are written before they are parsed; the parser judges
/// the word itself.
pub(crate) fn asked(args: impl IntoIterator<Item = OsString>) -> ColorChoice {
    // What is behind -- is a program's.
    let mut args = args.into_iter().take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        let arg = arg.to_string_lossy();
        let word = match arg.strip_prefix("--color") {
            Some("") => args.next().map(|word| word.to_string_lossy().into_owned()),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        if let Some(word) = word {
            return word.parse().unwrap_or(ColorChoice::Auto);
        }
    }
    ColorChoice::Auto
}

/// From here on what this process writes follows the choice.
pub(crate) fn apply(choice: ColorChoice) {
    let always = match choice {
        // console knows the variables and the terminal.
        ColorChoice::Auto => return,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    };
    console::set_colors_enabled(always);
    console::set_colors_enabled_stderr(always);
}

/// The name before a message on standard error.
pub(crate) fn napier() -> String {
    console::style("napier:").for_stderr().red().bold().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> ColorChoice {
        asked(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_choice_is_found_before_the_arguments_are_parsed() {
        assert_eq!(of("napier doctor --color never"), ColorChoice::Never);
        assert_eq!(of("napier --color=always doctor"), ColorChoice::Always);
        for line in [
            "napier",
            "napier --color",
            "napier --color green",
            "napier --colour never",
            "napier run -- ls --color never",
        ] {
            assert_eq!(of(line), ColorChoice::Auto, "{line}");
        }
    }
}
