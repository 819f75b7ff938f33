//! Users and groups of this machine by their names and their numbers, from the files `/etc/passwd` and `/etc/group`.
//!
//! Both have lines `name:password:number:…`; a line that has not is passed over.

use std::path::Path;
use std::{fs, io};

const PASSWORDS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Name of a user of this machine; its number if it has none.
pub fn user_name(id: u32) -> String {
    named(Path::new(PASSWORDS), id).unwrap_or_else(|| id.to_string())
}

/// Name of a group of this machine; its number if it has none.
pub fn group_name(id: u32) -> String {
    named(Path::new(GROUPS), id).unwrap_or_else(|| id.to_string())
}

/// Number of a user of this machine.
pub fn user_id(name: &str) -> Option<u32> {
    numbered(Path::new(PASSWORDS), name)
}

/// Number of a group of this machine.
pub fn group_id(name: &str) -> Option<u32> {
    numbered(Path::new(GROUPS), name)
}

/// Name of a user that the password file knows.
pub(super) fn known_user_name(id: u32) -> Option<String> {
    named(Path::new(PASSWORDS), id)
}

/// Groups of a user: the first one from the password file, then those that list it; none for a user that is in neither.
///
/// # Errors
/// If the file of groups cannot be read.
pub fn groups_of(user: &str) -> io::Result<Vec<String>> {
    groups_in_files(Path::new(PASSWORDS), Path::new(GROUPS), user)
}

fn numbered(table: &Path, name: &str) -> Option<u32> {
    let text = fs::read_to_string(table).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

fn named(table: &Path, id: u32) -> Option<String> {
    let text = fs::read_to_string(table).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    })
}

fn groups_in_files(passwords: &Path, groups: &Path, user: &str) -> io::Result<Vec<String>> {
    let first = fs::read_to_string(passwords).ok().and_then(|text| {
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == user).then(|| fields.nth(2).map(str::to_owned))?
        })
    });
    let mut names = Vec::new();
    for line in fs::read_to_string(groups)?.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, members] = fields[..] else { continue };
        if first.as_deref() == Some(number)
            || (!user.is_empty() && members.split(',').any(|member| member == user))
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_password_file_names_users() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/:/bin/sh")
            .unwrap();
        assert_eq!(named(file.path(), 1000).as_deref(), Some("ann"));
        assert_eq!(named(file.path(), 7), None);
        assert_eq!(numbered(file.path(), "ann"), Some(1000));
        assert_eq!(numbered(file.path(), "broken"), None);
        assert_eq!(numbered(file.path(), "an"), None);
    }

    #[test]
    fn the_group_file_names_groups() {
        let mut passwords = tempfile::NamedTempFile::new().unwrap();
        writeln!(passwords, "ann:x:1000:50::/:/bin/sh\nbob:x:1001:51").unwrap();
        let mut groups = tempfile::NamedTempFile::new().unwrap();
        writeln!(groups, "staff:x:50:\nbroken:x\netl:x:60:bob,ann\nops:x:61:bobby,bob\nnone:x:62:")
            .unwrap();
        for (user, expected) in [
            ("ann", &["staff", "etl"][..]),
            ("bob", &["etl", "ops"]),
            ("bobby", &["ops"]),
            ("", &[]),
            ("eve", &[]),
        ] {
            let found = groups_in_files(passwords.path(), groups.path(), user).unwrap();
            assert_eq!(found, expected, "{user}");
        }
        assert!(groups_in_files(passwords.path(), Path::new("/nowhere"), "ann").is_err());
    }
}
