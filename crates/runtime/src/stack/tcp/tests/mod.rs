//! Tables of the rules, and segments fed to a name space by hand.

mod rules;
mod segments;
