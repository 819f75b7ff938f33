//! All commands of the shell: the joined tables of the folders, and searches by name.

use super::command::Command;
use super::{contents, listing, namespace};

/// Every command, by the folder that defines it. A new folder is one more word here.
pub(super) static ROOMS: &[(&str, &[&[Command]])] = &[
    ("contents", contents::COMMANDS),
    ("listing", listing::COMMANDS),
    ("namespace", namespace::COMMANDS),
];

fn each() -> impl Iterator<Item = &'static Command> {
    ROOMS.iter().flat_map(|(_, tables)| tables.iter()).flat_map(|table| table.iter())
}

/// All commands, by name.
pub(super) fn all() -> Vec<&'static Command> {
    let mut all: Vec<&Command> = each().collect();
    all.sort_by_key(|command| command.name.to_ascii_lowercase());
    all
}

/// The command of this name.
pub(super) fn named(name: &str) -> Option<&'static Command> {
    each().find(|command| command.name == name)
}

/// The command that differs from a mistyped name by one or two letters; by one for short names.
pub(super) fn nearest(typed: &str) -> Option<&'static str> {
    let slips_max = if typed.len() > SHORT_NAME_CHARS { 2 } else { 1 };
    let distance = |command: &&Command| strsim::damerau_levenshtein(command.name, typed);
    let nearest = all().into_iter().filter(|command| !command.deprecated).min_by_key(distance)?;
    (distance(&nearest) <= slips_max).then_some(nearest.name)
}

/// Names up to this length are too similar for two typing errors.
const SHORT_NAME_CHARS: usize = 4;

/// Hadoop's replacement for a deprecated command.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    match name {
        "dus" => Some("du -s"),
        "lsr" => Some("ls -R"),
        "rmr" => Some("-rm -r"),
        _ => None,
    }
}
