//! `-stat` and `-test`: the status of a path.

use std::ffi::OsString;

use protocol::glob;
use protocol::namenode::FileStatus;
use protocol::permission::Action;

use super::list::Entry;
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, text_of};
use crate::output::{permissions, print_json, second_time_utc};

/// Format of `-stat` without one.
const DEFAULT_FORMAT: &str = "%y";

/// Prints facts about each path in a format of the user's.
pub(super) fn stat(context: &Context) -> Result<(), Failure> {
    let mut operands = &context.args.operands[..];
    let mut format = DEFAULT_FORMAT;
    if let [first, rest @ ..] = operands
        && let Ok(text) = text_of(first)
        && text.contains('%')
    {
        if rest.is_empty() {
            return Err(Failure::Usage("Not enough arguments: expected 1 but got 0".to_owned()));
        }
        (format, operands) = (text, rest);
    }
    let json = context.args.has("json");
    let mut entries = Vec::new();
    let mut screen = Screen::new()?;
    context.for_each(operands, |item| {
        if json {
            entries.push(Entry::new(&item.named.typed, &item.status));
            return Ok(());
        }
        let name = item.named.path.name().unwrap_or_default();
        screen.line(format_args!("{}", formatted(format, name, &item.status)))
    })?;
    screen.flush()?;
    drop(screen);
    if json {
        print_json(&entries).map_err(Failure::output)?;
    }
    Ok(())
}

fn formatted(format: &str, name: &str, status: &FileStatus) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let text = match chars.next() {
            Some('a') => format!("{:o}", status.mode),
            Some('A') => permissions(status.mode),
            Some('b') => status.length.to_string(),
            Some('F') if status.directory => "directory".to_owned(),
            Some('F') => "regular file".to_owned(),
            Some('g') => status.group.clone(),
            Some('n') => name.to_owned(),
            Some('o') => status.block_size.to_string(),
            Some('r') => status.replication.to_string(),
            Some('u') => status.owner.clone(),
            Some('x') => second_time_utc(status.atime_ms),
            Some('X') => status.atime_ms.to_string(),
            Some('y') => second_time_utc(status.mtime_ms),
            Some('Y') => status.mtime_ms.to_string(),
            Some(other) => other.to_string(),
            None => break,
        };
        out.push_str(&text);
    }
    out
}

/// Answers with the exit code.
pub(super) fn test(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let given: Vec<char> = "defswrz".chars().filter(|c| args.has(&c.to_string())).collect();
    let [question] = given[..] else {
        let text =
            if given.is_empty() { "No test flag given" } else { "Only one test flag is allowed" };
        return Err(Failure::Usage(text.to_owned()));
    };
    let operand: &OsString = &args.operands[0];
    let mut yes = true;
    if glob::is_glob(text_of(operand)?) {
        // Hadoop has a message for a pattern without a match, but none for a missing path.
        context.expand(operand)?;
    }
    for named in context.expand_any(operand)? {
        let status = context.store.find(&named)?;
        yes &= match (status, question) {
            (None, _) => false,
            (Some(_), 'r') => context.store.allows(&named, Action::READ)?,
            (Some(_), 'w') => context.store.allows(&named, Action::WRITE)?,
            (Some(status), question) => answer(question, &status),
        };
    }
    if !yes {
        context.set_failed();
    }
    Ok(())
}

fn answer(question: char, status: &FileStatus) -> bool {
    match question {
        'e' => true,
        'd' => status.directory,
        'f' => !status.directory,
        's' => status.length > 0,
        'z' => status.length == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::tests::status;
    use super::*;

    #[test]
    fn formats() {
        let file = status("f", false, 15);
        let directory = status("d", true, 0);
        for (format, of_file, of_directory) in [
            ("%y", "2026-01-05 10:30:05", "2026-01-05 10:30:05"),
            ("%b %o %r", "15 134217728 3", "0 0 0"),
            ("%F:%n", "regular file:f", "directory:d"),
            ("%a %A %u %g", "644 rw-r--r-- alice supergroup", "755 rwxr-xr-x alice supergroup"),
            ("%x|%X", "2026-01-05 10:31:05|1767609065000", "1970-01-01 00:00:00|0"),
            ("%Y%%q%q%", "1767609005000%qq", "1767609005000%qq"),
        ] {
            assert_eq!(formatted(format, "f", &file), of_file);
            assert_eq!(formatted(format, "d", &directory), of_directory);
        }
    }

    #[test]
    fn questions() {
        let (file, empty, directory) =
            (status("f", false, 1), status("f", false, 0), status("d", true, 0));
        for (question, of_file, of_empty, of_directory) in [
            ('e', true, true, true),
            ('d', false, false, true),
            ('f', true, true, false),
            ('s', true, false, false),
            ('z', false, true, true),
        ] {
            assert_eq!(answer(question, &file), of_file, "{question}");
            assert_eq!(answer(question, &empty), of_empty, "{question}");
            assert_eq!(answer(question, &directory), of_directory, "{question}");
        }
    }
}
