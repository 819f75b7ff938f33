//! `-getfacl`, `-setfacl`, `-getfattr` and `-setfattr`: access control lists and extended attributes.

use protocol::acl::{AclChange, AclEntry, AclKind, AclScope, AclStatus};
use protocol::permission::{Action, STICKY};
use protocol::xattr::{Xattr, XattrFlag};

use crate::dfs::args::{flag, value};
use crate::dfs::command::{Command, MANY, command};
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Item, text_of};

const GETFACL_HELP: &str = "Displays the Access Control Lists (ACLs) of files and directories. If a directory has a default
ACL, then getfacl also displays the default ACL.

  -R      List the ACLs of all files and directories recursively.
  <path>  File or directory to list.";
const SETFACL_HELP: &str = "Sets Access Control Lists (ACLs) of files and directories.
Options:

  -b          Remove all but the base ACL entries. The entries for user, group and others are retained for
              compatibility with permission bits.
  -k          Remove the default ACL.
  -R          Apply operations to all files and directories recursively.
  -m          Modify ACL. New entries are added to the ACL, and existing entries are retained.
  -x          Remove specified ACL entries. Other ACL entries are retained.
  --set       Fully replace the ACL, discarding all existing entries. The <acl_spec> must include entries for
              user, group, and others for compatibility with permission bits.
  <acl_spec>  Comma separated list of ACL entries.
  <path>      File or directory to modify.";
const GETFATTR_HELP: &str = "Displays the extended attribute names and values (if any) for a file or directory.

  -R             Recursively list the attributes for all files and directories.
  -n name        Dump the named extended attribute value.
  -d             Dump all extended attribute values associated with pathname.
  -e <encoding>  Encode values after retrieving them. Valid encodings are \"text\", \"hex\", and \"base64\".
                 Values encoded as text strings are enclosed in double quotes (\"), and values encoded as
                 hexadecimal and base64 are prefixed with 0x and 0s, respectively.
  <path>         The file or directory.";
const SETFATTR_HELP: &str = "Sets an extended attribute name and value for a file or directory.

  -n name   The extended attribute name.
  -v value  The extended attribute value. There are three different encoding methods for the value. If the
            argument is enclosed in double quotes, then the value is the string inside the quotes. If the
            argument is prefixed with 0x or 0X, then it is taken as a hexadecimal number. If the argument
            begins with 0s or 0S, then it is taken as a base64 encoding.
  -x name   Remove the extended attribute.
  <path>    The file or directory.";

/// The commands of this file.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    command("getfacl", "[-R] <path>", (0, MANY), &[flag("R")], getfacl, GETFACL_HELP),
    command("getfattr", "[-R] {-n name | -d} [-e en] <path>", (0, MANY), &[flag("R"), flag("d"), value("n"), value("e")], getfattr, GETFATTR_HELP),
    command("setfacl", "[-R] [{-b|-k} {-m|-x <acl_spec>} <path>]|[--set <acl_spec> <path>]", (0, MANY), &[flag("R"), flag("b"), flag("k"), flag("m"), flag("x"), flag("set")], setfacl, SETFACL_HELP),
    command("setfattr", "{-n name [-v value] | -x name} <path>", (0, MANY), &[value("n"), value("v"), value("x")], setfattr, SETFATTR_HELP),
];

fn usage<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Usage(text.into()))
}

/// Calls `each` on the path of the last operand, and with `-R` on everything below it.
fn walk(
    context: &Context,
    skip: usize,
    each: &mut dyn FnMut(&Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let recursive = context.args.has("R");
    let mut found = Vec::new();
    context.for_each(&context.args.operands[skip..], |item| {
        found.push(item);
        Ok(())
    })?;
    found.reverse();
    while let Some(item) = found.pop() {
        let children = each(&item).and_then(|()| match recursive && item.status.directory {
            true => context.store.children(&item.named),
            false => Ok(Vec::new()),
        });
        match children {
            Ok(children) => found.extend(children.into_iter().rev()),
            Err(Failure::ReaderLeft) => return Err(Failure::ReaderLeft),
            Err(failure) => context.report(&failure),
        }
    }
    Ok(())
}

fn check_one_path(context: &Context, skip: usize, missing: &str) -> Result<(), Failure> {
    match context.args.operands.len().checked_sub(skip) {
        None | Some(0) => usage(missing),
        Some(1) => Ok(()),
        Some(_) => usage("Too many arguments"),
    }
}

/// The same in the words of the commands about attributes.
fn check_one_path_dotted(context: &Context) -> Result<(), Failure> {
    match context.args.operands.len() {
        0 => usage("<path> is missing."),
        1 => Ok(()),
        _ => usage("Too many arguments."),
    }
}

/// Text that is not an attribute's name is a usage error: Hadoop's clients check it before they call.
fn check_name(name: Option<&str>) -> Result<(), Failure> {
    const SPACES: [&str; 5] = ["user.", "trusted.", "security.", "system.", "raw."];
    let Some(name) = name else { return Ok(()) };
    let space = |space: &&str| {
        name.get(..space.len()).is_some_and(|start| start.eq_ignore_ascii_case(space))
    };
    match SPACES.iter().find(|known| space(known)) {
        None => usage(
            "An XAttr name must be prefixed with user/trusted/security/system/raw, followed by a '.'",
        ),
        Some(space) if space.len() == name.len() => usage("XAttr name cannot be empty."),
        Some(_) => Ok(()),
    }
}

/// Prints access control lists.
fn getfacl(context: &Context) -> Result<(), Failure> {
    check_one_path(context, 0, "<path> is missing")?;
    let mut screen = Screen::new()?;
    walk(context, 0, &mut |item| {
        let acl = context.store.acl(item)?;
        screen.print(&acl_text(&item.named.typed, &acl))
    })?;
    screen.flush()
}

fn acl_text(path: &str, acl: &AclStatus) -> String {
    let mut lines = vec![
        format!("# file: {path}"),
        format!("# owner: {}", acl.owner),
        format!("# group: {}", acl.group),
    ];
    if acl.mode & STICKY != 0 {
        let others = Action::of_others(acl.mode);
        let sticky = if others.implies(Action::EXECUTE) { 't' } else { 'T' };
        lines.push(format!("# flags: --{sticky}"));
    }
    let whole = acl.whole();
    for scope in [AclScope::Access, AclScope::Default] {
        let entries: Vec<&AclEntry> = whole.iter().filter(|entry| entry.scope == scope).collect();
        let mask = entries.iter().find(|entry| entry.kind == AclKind::Mask);
        for entry in &entries {
            let is_limited = entry.kind == AclKind::Group || entry.name.is_some();
            let effective = match mask {
                Some(mask) if is_limited => entry.action.and(mask.action),
                _ => entry.action,
            };
            lines.push(match effective == entry.action {
                true => entry.to_string(),
                false => format!("{entry}\t#effective:{}", effective.symbol()),
            });
        }
    }
    lines.push("\n".to_owned());
    lines.join("\n")
}

/// Changes access control lists.
fn setfacl(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let has = |name| usize::from(args.has(name));
    let (removes, modifies, sets) = (has("b") + has("k"), has("m") + has("x"), has("set"));
    if args.operands.is_empty() && removes + modifies + sets == 0 {
        return usage("<path> is missing");
    }
    match (removes, modifies, sets) {
        (0, 0, 0) => return usage("Expected one of -b, -k, -m, -x or --set options"),
        (1, 0, 0) | (0, 1, 0) | (0, 0, 1) => {}
        _ => return usage("Specified flags contains both remove and modify flags"),
    }
    let skip = modifies + sets;
    let mut entries = Vec::new();
    if skip == 1 {
        let [spec, _, ..] = &args.operands[..] else {
            return usage("Missing either <acl_spec> or <path>");
        };
        let parsed = AclEntry::parse_list(text_of(spec)?, !args.has("x"));
        entries = parsed.map_err(|error| Failure::Usage(error.to_string()))?;
        if entries.is_empty() {
            return usage("Missing <acl_spec> entry");
        }
    }
    check_one_path(context, skip, "<path> is missing")?;
    let recursive = args.has("R");
    walk(context, skip, &mut |item| {
        let mut entries = entries.clone();
        if recursive && !item.status.directory {
            // Only directories have a default list.
            entries.retain(|entry| entry.scope == AclScope::Access);
        }
        let change = match () {
            () if args.has("b") => AclChange::RemoveAll,
            () if args.has("k") => AclChange::RemoveDefault,
            () if entries.is_empty() => return Ok(()),
            () if args.has("m") => AclChange::Modify(entries),
            () if args.has("x") => AclChange::Remove(entries),
            () => AclChange::Replace(entries),
        };
        let changed = context.store.client()?.change_acl(item.named.cluster()?, change);
        changed.map_err(|error| Failure::remote(&item.named.typed, &error))
    })
}

/// How values are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Text,
    Hex,
    Base64,
}

/// Prints extended attributes.
fn getfattr(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let encoding = match args.value("e").map(str::to_ascii_lowercase).as_deref() {
        None | Some("text") => Encoding::Text,
        Some("hex") => Encoding::Hex,
        Some("base64") => Encoding::Base64,
        Some(_) => {
            let given = args.value("e").unwrap_or_default();
            return usage(format!("Invalid/unsupported encoding option specified: {given}"));
        }
    };
    let name = args.value("n");
    if name.is_none() && !args.has("d") {
        return usage("Must specify '-n name' or '-d' option.");
    }
    check_one_path_dotted(context)?;
    if !args.has("d") {
        check_name(name)?;
    }
    let names: Vec<&str> = if args.has("d") { Vec::new() } else { name.into_iter().collect() };
    let mut screen = Screen::new()?;
    let mut is_found = names.is_empty();
    walk(context, 0, &mut |item| {
        let path = item.named.cluster()?;
        screen.line(format_args!("# file: {}", item.named.typed))?;
        let client = context.store.client()?;
        let xattrs = match client.xattrs(path, &names) {
            Ok(xattrs) => xattrs,
            // For many paths HDFS does not report each one without any attribute.
            Err(_) if client.xattrs(path, &[]).is_ok_and(|all| all.is_empty()) => Vec::new(),
            Err(error) => return Err(Failure::remote(&item.named.typed, &error)),
        };
        is_found |= !xattrs.is_empty();
        xattrs.iter().try_for_each(|xattr| {
            screen.value(&xattr_line(xattr, encoding))?;
            screen.print("\n")
        })
    })?;
    screen.flush()?;
    match is_found || context.has_failed() {
        true => Ok(()),
        false => Err(Failure::Text(NO_XATTR.to_owned())),
    }
}

/// HDFS's words for an attribute that does not exist.
const NO_XATTR: &str = "At least one of the attributes provided was not found.";

fn xattr_line(xattr: &Xattr, encoding: Encoding) -> Vec<u8> {
    let mut line = xattr.name.clone().into_bytes();
    if xattr.value.is_empty() {
        return line;
    }
    line.push(b'=');
    match encoding {
        Encoding::Text => {
            line.push(b'"');
            line.extend_from_slice(&xattr.value);
            line.push(b'"');
        }
        Encoding::Hex => {
            line.extend_from_slice(b"0x");
            xattr.value.iter().for_each(|byte| line.extend(format!("{byte:02x}").bytes()));
        }
        Encoding::Base64 => {
            line.extend_from_slice(b"0s");
            line.extend(base64(&xattr.value).bytes());
        }
    }
    line
}

/// Sets or removes an extended attribute.
fn setfattr(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let (name, removed) = (args.value("n"), args.value("x"));
    match (name, removed) {
        (None, None) => return usage("Must specify '-n name' or '-x name' option."),
        (Some(_), Some(_)) => {
            return usage("Can not specify both '-n name' and '-x name' option.");
        }
        _ => {}
    }
    check_one_path_dotted(context)?;
    check_name(name.or(removed))?;
    let given = args.value("v").unwrap_or_default();
    let value = decoded(given).ok_or_else(|| {
        Failure::Usage(format!("Invalid/unsupported encoding of the value: {given}"))
    })?;
    walk(context, 0, &mut |item| {
        let path = item.named.cluster()?;
        let client = context.store.client()?;
        let done = match (name, removed) {
            (Some(name), _) => client.set_xattr(path, name, &value, XattrFlag::CreateOrReplace),
            (None, removed) => client.remove_xattr(path, removed.unwrap_or_default()),
        };
        done.map_err(|error| Failure::remote(&item.named.typed, &error))
    })
}

/// A value as it was typed: in quotes, hexadecimal after `0x`, base64 after `0s`, otherwise literal.
fn decoded(text: &str) -> Option<Vec<u8>> {
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Some(inner.as_bytes().to_vec());
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let digits: Option<Vec<u8>> =
            digits.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        return Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect());
    }
    if let Some(symbols) = text.strip_prefix("0s").or_else(|| text.strip_prefix("0S")) {
        return from_base64(symbols);
    }
    Some(text.as_bytes().to_vec())
}

/// The alphabet of RFC 4648.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for position in 0..4 {
            let symbol = BASE64[(bits >> (18 - 6 * position) & 63) as usize];
            text.push(if position <= group.len() { char::from(symbol) } else { '=' });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let symbols = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - symbols.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(symbols.len() * 3 / 4);
    for group in symbols.chunks(4) {
        let mut bits = 0_u32;
        for position in 0..4 {
            let value = match group.get(position) {
                Some(symbol) => BASE64.iter().position(|known| known == symbol)?,
                None => 0,
            };
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(mode: u16, entries: &str) -> AclStatus {
        let entries = AclEntry::parse_list(entries, true).unwrap();
        AclStatus { owner: "alice".to_owned(), group: "supergroup".to_owned(), mode, entries }
    }

    #[test]
    fn lists_are_hadoops() {
        assert_eq!(
            acl_text("/f", &acl(0o644, "user:bob:rwx,group::r-x")),
            "# file: /f\n# owner: alice\n# group: supergroup\nuser::rw-\nuser:bob:rwx\t#effective:r--\n\
             group::r-x\t#effective:r--\nmask::r--\nother::r--\n\n"
        );
        assert_eq!(
            acl_text(
                "/d",
                &acl(
                    0o1755,
                    "default:user::rwx,default:user:bob:rwx,default:group::r-x,default:mask::r-x,default:other::---"
                )
            ),
            "# file: /d\n# owner: alice\n# group: supergroup\n# flags: --t\nuser::rwx\ngroup::r-x\nother::r-x\n\
             default:user::rwx\ndefault:user:bob:rwx\t#effective:r-x\ndefault:group::r-x\n\
             default:mask::r-x\ndefault:other::---\n\n"
        );
        assert!(acl_text("/d", &acl(0o1754, "")).contains("# flags: --T\n"));
    }

    #[test]
    fn values_are_coded() {
        for (typed, value) in [
            ("\"a b\"", Some(&b"a b"[..])),
            ("plain", Some(b"plain")),
            ("\"", Some(b"\"")),
            ("0x7610", Some(b"\x76\x10")),
            ("0X", Some(b"")),
            ("0x761", None),
            ("0xzz", None),
            ("0sdg==", Some(b"v")),
            ("0Sdmk=", Some(b"vi")),
            ("0sdmll", Some(b"vie")),
            ("0sd", None),
            ("0s====", None),
        ] {
            assert_eq!(decoded(typed).as_deref(), value, "{typed}");
        }
        for bytes in [&b""[..], b"v", b"vi", b"vie", b"vier", &[0, 255, 128, 7]] {
            assert_eq!(from_base64(&base64(bytes)).as_deref(), Some(bytes));
        }
        let xattr = |value: &[u8]| Xattr { name: "user.a".to_owned(), value: value.to_vec() };
        for (encoding, line) in [
            (Encoding::Text, "user.a=\"v\""),
            (Encoding::Hex, "user.a=0x76"),
            (Encoding::Base64, "user.a=0sdg=="),
        ] {
            assert_eq!(xattr_line(&xattr(b"v"), encoding), line.as_bytes());
            assert_eq!(xattr_line(&xattr(b""), encoding), b"user.a");
        }
    }
}
