//! `-chmod`, `-chown`, `-chgrp`: modes as octal numbers or symbols, owners as `owner:group`.

use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Item, text_of};
use protocol::modes::ModeChange;

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
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-+_./@".contains(c);
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
