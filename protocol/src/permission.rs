//! Rights as both ends name them: the actions of an access, and permission bits as text.
//!
//! Permission bits are those of POSIX: `rwx` for owner, group and others, and the sticky bit `0o1000`.

pub mod modes;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The sticky bit: entries of the directory can only be deleted or renamed by their owner or the directory's.
pub const STICKY: u16 = 0o1000;

/// The actions of an access: a set of read, write and execute.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Action(u8);

impl Action {
    /// Nothing.
    pub const NONE: Action = Action(0);
    /// Pass a directory.
    pub const EXECUTE: Action = Action(1);
    /// Change.
    pub const WRITE: Action = Action(2);
    /// Change and pass.
    pub const WRITE_EXECUTE: Action = Action(3);
    /// Read.
    pub const READ: Action = Action(4);
    /// Read and pass: list a directory.
    pub const READ_EXECUTE: Action = Action(5);
    /// Read and change.
    pub const READ_WRITE: Action = Action(6);
    /// Everything.
    pub const ALL: Action = Action(7);

    /// The lowest three bits of `bits`.
    pub fn from_bits(bits: u16) -> Action {
        Action(bits.to_le_bytes()[0] & 7)
    }

    /// Three bits, `r` is the highest.
    pub fn bits(self) -> u16 {
        u16::from(self.0)
    }

    /// What the owner's bits of `mode` grant.
    pub fn of_owner(mode: u16) -> Action {
        Action::from_bits(mode >> 6)
    }

    /// What the group's bits of `mode` grant.
    pub fn of_group(mode: u16) -> Action {
        Action::from_bits(mode >> 3)
    }

    /// What the others' bits of `mode` grant.
    pub fn of_others(mode: u16) -> Action {
        Action::from_bits(mode)
    }

    /// True if everything in `wanted` is in `self`.
    pub fn implies(self, wanted: Action) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The actions in both.
    #[must_use]
    pub fn and(self, other: Action) -> Action {
        Action(self.0 & other.0)
    }

    /// The actions in either.
    #[must_use]
    pub fn or(self, other: Action) -> Action {
        Action(self.0 | other.0)
    }

    /// As `rwx`.
    pub fn symbol(self) -> &'static str {
        ["---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx"][usize::from(self.0 & 7)]
    }

    /// Reads the form `rwx`.
    pub fn from_symbol(text: &str) -> Option<Action> {
        let mut bits = 0;
        let mut symbols = text.chars();
        for (symbol, bit) in [('r', 4), ('w', 2), ('x', 1)] {
            match symbols.next() {
                Some(found) if found == symbol => bits |= bit,
                Some('-') => {}
                _ => return None,
            }
        }
        symbols.next().is_none().then_some(Action(bits))
    }
}

impl fmt::Display for Action {
    /// Hadoop's name for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 & 7 {
            0 => "NONE",
            1 => "EXECUTE",
            2 => "WRITE",
            3 => "WRITE_EXECUTE",
            4 => "READ",
            5 => "READ_EXECUTE",
            6 => "READ_WRITE",
            _ => "ALL",
        })
    }
}

/// Permission bits as `rwxr-xr-x`; with the sticky bit the last character is `t`, or `T` if others may not pass.
pub fn symbols(mode: u16) -> String {
    let mut text = String::with_capacity(9);
    for action in [Action::of_owner(mode), Action::of_group(mode), Action::of_others(mode)] {
        text.push_str(action.symbol());
    }
    if mode & STICKY != 0 {
        text.pop();
        text.push(if mode & 1 != 0 { 't' } else { 'T' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_hadoops_names_and_symbols() {
        let names = [
            (Action::NONE, "NONE", "---"),
            (Action::EXECUTE, "EXECUTE", "--x"),
            (Action::WRITE, "WRITE", "-w-"),
            (Action::WRITE_EXECUTE, "WRITE_EXECUTE", "-wx"),
            (Action::READ, "READ", "r--"),
            (Action::READ_EXECUTE, "READ_EXECUTE", "r-x"),
            (Action::READ_WRITE, "READ_WRITE", "rw-"),
            (Action::ALL, "ALL", "rwx"),
        ];
        for (action, name, symbol) in names {
            assert_eq!((action.to_string().as_str(), action.symbol()), (name, symbol));
            assert_eq!(Action::from_symbol(symbol), Some(action));
            assert!(Action::ALL.implies(action) && action.implies(Action::NONE));
            assert_eq!(Action::NONE.implies(action), action == Action::NONE);
        }
        for text in ["", "rw", "rwxx", "xwr", "r w", "Rwx"] {
            assert_eq!(Action::from_symbol(text), None, "{text}");
        }
    }

    #[test]
    fn bits_are_read_by_class() {
        assert_eq!(Action::of_owner(0o1754), Action::ALL);
        assert_eq!(Action::of_group(0o1754), Action::READ_EXECUTE);
        assert_eq!(Action::of_others(0o1754), Action::READ);
        for (mode, text) in [
            (0o755, "rwxr-xr-x"),
            (0o640, "rw-r-----"),
            (0o1777, "rwxrwxrwt"),
            (0o1776, "rwxrwxrwT"),
            (0o1000, "--------T"),
        ] {
            assert_eq!(symbols(mode), text);
        }
    }
}
