//! Users and groups of this machine by their names and their numbers, for all that names owners of its files.

use std::fs;

/// Name of a user of this machine; its number if it has none.
pub fn user_name(id: u32) -> String {
    named("/etc/passwd", id)
}

/// Name of a group of this machine; its number if it has none.
pub fn group_name(id: u32) -> String {
    named("/etc/group", id)
}

/// Number of a user of this machine.
pub fn user_id(name: &str) -> Option<u32> {
    numbered("/etc/passwd", name)
}

/// Number of a group of this machine.
pub fn group_id(name: &str) -> Option<u32> {
    numbered("/etc/group", name)
}

fn numbered(table: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(table).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Both tables have lines `name:password:id:…`.
fn named(table: &str, id: u32) -> String {
    let text = fs::read_to_string(table).unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| id.to_string())
}
