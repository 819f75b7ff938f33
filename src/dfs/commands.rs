//! All commands of the shell: the tables of the rooms, joined, and what is found in them by name.

use super::command::Command;
use super::{contents, listing, namespace};

/// Every command, by the room that brings it. A new room is one more word here.
static ROOMS: &[&[&[Command]]] = &[contents::COMMANDS, listing::COMMANDS, namespace::COMMANDS];

fn each() -> impl Iterator<Item = &'static Command> {
    ROOMS.iter().flat_map(|tables| tables.iter()).flat_map(|table| table.iter())
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

/// The command that a mistyped name is a slip or two away from; of short names one.
pub(super) fn nearest(typed: &str) -> Option<&'static str> {
    let slips_max = if typed.len() > SHORT_NAME_CHARS { 2 } else { 1 };
    let distance = |command: &&Command| strsim::damerau_levenshtein(command.name, typed);
    let nearest = all().into_iter().filter(|command| !command.deprecated).min_by_key(distance)?;
    (distance(&nearest) <= slips_max).then_some(nearest.name)
}

/// Names up to this length are too alike for two slips.
const SHORT_NAME_CHARS: usize = 4;

/// What Hadoop tells to use instead of a deprecated command.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    match name {
        "dus" => Some("du -s"),
        "lsr" => Some("ls -R"),
        "rmr" => Some("-rm -r"),
        _ => None,
    }
}
