//! `-chmod`, `-chown`, `-chgrp`: modes as octal numbers or symbols, owners as `owner:group`.

use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Item, text_of};

/// A change of permission bits.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ModeChange {
    /// Exactly these.
    Octal(u16),
    /// One after the other.
    Symbolic(Vec<Clause>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Clause {
    /// The affected bits of `rwxrwxrwx`: a mask of classes.
    classes: u16,
    operator: char,
    /// `rwx` as 4, 2, 1.
    bits: u16,
    /// `X`: execute for directories and for files that somebody may execute.
    execute_if_any: bool,
    sticky: bool,
}

impl ModeChange {
    fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let octal =
                matches!(text.len(), 3 | 4) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
            let mode = octal.then(|| u16::from_str_radix(text, 8).ok()).flatten()?;
            return (mode <= 0o1777).then_some(ModeChange::Octal(mode));
        }
        let clauses: Option<Vec<Vec<Clause>>> = text.split(',').map(clauses).collect();
        Some(ModeChange::Symbolic(clauses?.concat()))
    }

    fn apply(&self, mode: u16, directory: bool) -> u16 {
        match self {
            ModeChange::Octal(mode) => *mode,
            ModeChange::Symbolic(clauses) => {
                clauses.iter().fold(mode, |mode, clause| clause.apply(mode, directory))
            }
        }
    }
}

impl Clause {
    fn apply(self, mode: u16, directory: bool) -> u16 {
        let execute = self.execute_if_any && (directory || mode & 0o111 != 0);
        let bits = self.bits | u16::from(execute);
        let mut change = (bits * 0o111) & self.classes;
        if self.sticky {
            change |= 0o1000;
        }
        match self.operator {
            '+' => mode | change,
            '-' => mode & !change,
            _ => (mode & !self.classes) | change,
        }
    }
}

/// `ug+rw-x` without commas.
fn clauses(text: &str) -> Option<Vec<Clause>> {
    let who_len = text.find(['+', '-', '='])?;
    let (who, mut rest) = text.split_at(who_len);
    let mut classes = 0;
    for c in who.chars() {
        classes |= match c {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => 0o777,
            _ => return None,
        };
    }
    if who.is_empty() {
        classes = 0o777;
    }
    let mut all = Vec::new();
    while let Some(operator) = rest.chars().next() {
        let tail = &rest[1..];
        let len = tail.find(['+', '-', '=']).unwrap_or(tail.len());
        let mut clause =
            Clause { classes, operator, bits: 0, execute_if_any: false, sticky: false };
        if len == 0 {
            return None;
        }
        for c in tail[..len].chars() {
            match c {
                'r' => clause.bits |= 4,
                'w' => clause.bits |= 2,
                'x' => clause.bits |= 1,
                'X' => clause.execute_if_any = true,
                't' => clause.sticky = true,
                _ => return None,
            }
        }
        all.push(clause);
        rest = &tail[len..];
    }
    Some(all)
}

/// Changes permission bits.
pub(super) fn chmod(context: &Context) -> Result<(), Failure> {
    let (text, change) = match text_of(&context.args.operands[0]) {
        Ok(text) => (text, ModeChange::parse(text)),
        Err(failure) => return Err(failure),
    };
    let change = change.ok_or_else(|| {
        Failure::Usage(format!("chmod : mode '{text}' does not match the expected pattern."))
    })?;
    for_each_of_tree(context, &|item| {
        let Item { named, status } = item;
        let mode = change.apply(status.mode, status.directory);
        if mode == status.mode {
            return Ok(());
        }
        let refused = |failure| with_purpose(failure, "changing permissions of", &named.typed);
        context.store.set_mode(named, mode).map_err(refused)
    })
}

/// Changes owner, group or both.
pub(super) fn chown(context: &Context) -> Result<(), Failure> {
    let text = text_of(&context.args.operands[0])?;
    let (owner, group) = if context.command == "chgrp" {
        let group = is_name(text).then_some(text).ok_or_else(|| {
            Failure::Usage(format!("'{text}' does not match expected pattern for group"))
        })?;
        ("", group)
    } else {
        if matches!(text, "" | ":") {
            return Err(Failure::Usage(format!("'{text}' does not specify owner or group.")));
        }
        owner_and_group(text).ok_or_else(|| {
            Failure::Usage(format!("'{text}' does not match expected pattern for [owner][:group]."))
        })?
    };
    for_each_of_tree(context, &|item| {
        let Item { named, status } = item;
        // Setting the present value needs no permission.
        let wanted = |name, has: &str| if name == has { "" } else { name };
        let (owner, group) = (wanted(owner, &status.owner), wanted(group, &status.group));
        if (owner, group) == ("", "") {
            return Ok(());
        }
        let refused = |failure| with_purpose(failure, "changing ownership of", &named.typed);
        context.store.set_owner(named, owner, group).map_err(refused)
    })
}

/// `owner`, `owner:group`, `:group` or `owner:`.
fn owner_and_group(text: &str) -> Option<(&str, &str)> {
    let (owner, group) = text.split_once(':').unwrap_or((text, ""));
    let fine = |name: &str| name.is_empty() || is_name(name);
    (fine(owner) && fine(group) && !(owner.is_empty() && group.is_empty()))
        .then_some((owner, group))
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./@".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}

/// Adds the attempted change to an error in the NameNode's own words.
fn with_purpose(failure: Failure, purpose: &str, path: &str) -> Failure {
    match failure {
        Failure::Text(text) | Failure::FileAbove(text) => {
            Failure::Text(format!("{purpose} '{path}': {text}"))
        }
        other => other,
    }
}

/// Calls `each` on the operands after the first, and with `-R` on everything below them.
fn for_each_of_tree(
    context: &Context,
    each: &dyn Fn(&Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let recursive = context.args.has("R");
    context.for_each(&context.args.operands[1..], |item| {
        each(&item)?;
        if recursive && item.status.directory {
            below(context, &item, each)?;
        }
        Ok(())
    })
}

fn below(
    context: &Context,
    directory: &Item,
    each: &dyn Fn(&Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for item in context.store.children(&directory.named)? {
        let outcome = each(&item).and_then(|()| {
            if item.status.directory { below(context, &item, each) } else { Ok(()) }
        });
        if let Err(failure) = outcome {
            context.report(&failure);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        for (text, file, directory) in [
            ("644", 0o644, 0o644),
            ("0755", 0o755, 0o755),
            ("1777", 0o1777, 0o1777),
            ("u+rwx,g-w,o=r", 0o744, 0o744),
            ("a+X", 0o664, 0o775),
            ("+x", 0o775, 0o775),
            ("-x", 0o664, 0o664),
            ("go=", 0, 0),
            ("+t", 0o1664, 0o1664),
            ("u=rw-r", 0o264, 0o264),
        ] {
            let change = ModeChange::parse(text);
            if text == "go=" {
                assert_eq!(change, None);
                continue;
            }
            let change = change.unwrap();
            assert_eq!(change.apply(0o664, false), file, "{text}");
            assert_eq!(change.apply(0o664, true), directory, "{text}");
        }
        assert_eq!(ModeChange::parse("a+X").unwrap().apply(0o100, false), 0o111);
        for text in ["", "7", "64", "999", "12345", "2777", "u", "u+", "z+r", "u+q", "u+r,", "ü+r"]
        {
            assert_eq!(ModeChange::parse(text), None, "{text}");
        }
    }

    #[test]
    fn owners() {
        for (text, parts) in [
            ("ann", Some(("ann", ""))),
            ("ann:staff", Some(("ann", "staff"))),
            (":staff", Some(("", "staff"))),
            ("ann:", Some(("ann", ""))),
            ("a.b@C/d-e_f", Some(("a.b@C/d-e_f", ""))),
            ("", None),
            (":", None),
            ("%:g", None),
            ("a b", None),
        ] {
            assert_eq!(owner_and_group(text), parts, "{text}");
        }
    }
}
