//! Gives a copy the attributes of its source.

use crate::attributes::Attributes;
use crate::error::{ACLS, Error, PlaceError, Result, XATTRS};
use crate::order::Entry;
use crate::places::{Files, Location, Place, Status, file};

/// Sets what is kept; the rights come last, for they may take from whoever copies what the rest needs.
pub(crate) fn keep(
    (from, to): (&dyn Files, &dyn Files),
    entry: &Entry,
    target: &Location,
    kept: Attributes,
) -> Result<()> {
    let (path, status) = (target.path.as_str(), &entry.status);
    // What is so already needs no right to set it.
    let is_compared = kept.user || kept.group || kept.replication || kept.mode;
    let there = match is_compared {
        true => to.status(path).map_err(file("look for", target))?,
        false => None,
    };
    let differs =
        |is: fn(&Status, &Status) -> bool| !there.as_ref().is_some_and(|it| is(it, status));
    let owner_differs = kept.user && differs(|there, status| there.owner == status.owner);
    let group_differs = kept.group && differs(|there, status| there.group == status.group);
    let owner = if owner_differs { status.owner.as_str() } else { "" };
    let group = if group_differs { status.group.as_str() } else { "" };
    if !owner.is_empty() || !group.is_empty() {
        to.set_owner(path, owner, group).map_err(file("set the owner of", target))?;
    }
    let replication_differs = differs(|there, status| there.replication == status.replication);
    if kept.replication && replication_differs && !status.directory && status.replication > 0 {
        let replication = status.replication;
        to.set_replication(path, replication).map_err(file("set the replication of", target))?;
    }
    if kept.xattrs && !matches!(entry.source.place, Place::Machine) {
        let xattrs = from.xattrs(&entry.source.path);
        for xattr in xattrs.map_err(lacking(XATTRS, "read the XAttrs of", &entry.source))? {
            to.set_xattr(path, &xattr).map_err(lacking(XATTRS, "set the XAttrs of", target))?;
        }
    }
    if kept.times {
        let (mtime, atime) = (status.mtime_ms, status.atime_ms);
        to.set_times(path, mtime, atime).map_err(file("set the times of", target))?;
    }
    if kept.acl && !matches!(entry.source.place, Place::Machine) {
        let acl = from.acl(&entry.source.path);
        let acl = acl.map_err(lacking(ACLS, "read the ACL of", &entry.source))?;
        to.set_acl(path, &acl).map_err(lacking(ACLS, "set the ACL of", target))?;
    }
    // Lists change the mode.
    if kept.mode && (kept.acl || differs(|there, status| there.mode == status.mode)) {
        to.set_mode(path, status.mode).map_err(file("set the mode of", target))?;
    }
    Ok(())
}

/// Refuses to keep what a place does not have, before anything is copied.
pub(crate) fn check(kept: Attributes, places: &[&Place]) -> Result<()> {
    for place in places {
        let lacks = |what| Err(Error::NoAttributes { what, place: place.to_string() });
        match place {
            Place::Machine if kept.acl => return lacks(ACLS),
            Place::Machine if kept.xattrs => return lacks(XATTRS),
            _ => {}
        }
    }
    Ok(())
}

/// The error of a place that refuses such attributes altogether.
fn lacking<'a>(
    kind: &'static str,
    what: &'static str,
    at: &'a Location,
) -> impl FnOnce(PlaceError) -> Error + 'a {
    move |error| match error {
        PlaceError::Remote { exception, .. } if exception == "UnsupportedOperationException" => {
            Error::NoAttributes { what: kind, place: at.place.to_string() }
        }
        error => file(what, at)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Status;
    use crate::places::double::Double;

    #[test]
    fn rights_come_last() {
        let (from, to) = (Double::default(), Double::default());
        let place = Place::Cluster { authority: "h:1".to_owned() };
        let source = Location { place, path: "/x".to_owned() };
        let status = Status { replication: 1, owner: "ann".to_owned(), ..Status::default() };
        let entry = Entry::new(source.clone(), String::new(), status);
        keep((&from, &to), &entry, &source, Attributes::parse("rugpaxt").unwrap()).unwrap();
        let order = [
            "status",
            "set_owner",
            "set_replication",
            "set_xattr",
            "set_times",
            "set_acl",
            "set_mode",
        ];
        assert_eq!(to.calls(), order);
    }

    #[test]
    fn a_machine_keeps_no_lists() {
        let cluster = Place::Cluster { authority: "h:1".to_owned() };
        let kept = |letters: &str| Attributes::parse(letters).unwrap();
        assert!(check(kept("ax"), &[&cluster]).is_ok());
        assert!(check(kept("rbugpt"), &[&Place::Machine]).is_ok());
        assert_eq!(check(kept("a"), &[&cluster, &Place::Machine]).unwrap_err().exit_code(), 253);
        assert_eq!(check(kept("x"), &[&Place::Machine]).unwrap_err().exit_code(), 252);
    }
}
