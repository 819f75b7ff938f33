//! `-ls`.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use protocol::namenode::FileStatus;
use serde::Serialize;

use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Item, Named};
use crate::output::{human_size, local_zone, minute_time, permissions};

/// Lists files and directories.
pub(super) fn ls(context: &Context) -> Result<(), Failure> {
    let mut listing = Listing::new(context)?;
    let here = [".".into()];
    let operands =
        if context.args.operands.is_empty() { &here[..] } else { &context.args.operands };
    let as_files = listing.options.directory_as_file;
    // Files named as operands are listed in the order of the operands.
    context.for_each(operands, |item| match item.status.directory && !as_files {
        true => listing.directory(&item.named),
        false => listing.print_all(vec![item]),
    })?;
    listing.end()
}

/// Options of `-ls`.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    paths_only: bool,
    directory_as_file: bool,
    human: bool,
    hide_unprintable: bool,
    recursive: bool,
    by_time: bool,
    by_size: bool,
    reverse: bool,
    access_time: bool,
    policy: bool,
    json: bool,
}

struct Listing<'a> {
    context: &'a Context,
    options: Options,
    widths: Widths,
    zone: &'static TimeZone,
    screen: Screen,
    json: Vec<Entry>,
}

impl<'a> Listing<'a> {
    fn new(context: &'a Context) -> Result<Self, Failure> {
        let has = |name| context.args.has(name);
        let options = Options {
            paths_only: has("C"),
            directory_as_file: has("d"),
            human: has("h"),
            hide_unprintable: has("q"),
            recursive: (has("R") || context.command == "lsr") && !has("d"),
            by_time: has("t"),
            by_size: has("S") && !has("t"),
            reverse: has("r"),
            access_time: has("u"),
            policy: has("e"),
            json: has("json"),
        };
        let zone = local_zone();
        let (widths, screen) = (Widths::default(), Screen::new()?);
        Ok(Listing { context, options, widths, zone, screen, json: Vec::new() })
    }

    fn directory(&mut self, named: &Named) -> Result<(), Failure> {
        let mut items = Vec::new();
        self.context.store.list(named, |page| {
            for status in page {
                items.push(Item { named: named.child(&status.name)?, status });
            }
            Ok(())
        })?;
        let Options { paths_only, recursive, json, .. } = self.options;
        if !items.is_empty() && !paths_only && !recursive && !json {
            self.screen.line(format_args!("Found {} items", items.len()))?;
        }
        if !recursive {
            return self.print_all(items);
        }
        sort(&mut items, &self.options);
        self.widths.adjust(&items, &self.options);
        for item in items {
            self.print(&item)?;
            if item.status.directory
                && let Err(failure) = self.directory(&item.named)
            {
                match failure {
                    Failure::ReaderLeft => return Err(failure),
                    failure => self.context.report(&failure),
                }
            }
        }
        Ok(())
    }

    fn print_all(&mut self, mut items: Vec<Item>) -> Result<(), Failure> {
        sort(&mut items, &self.options);
        self.widths.adjust(&items, &self.options);
        items.iter().try_for_each(|item| self.print(item))
    }

    fn print(&mut self, item: &Item) -> Result<(), Failure> {
        let Item { named, status } = item;
        if self.options.json {
            self.json.push(Entry::new(&named.typed, status));
            return Ok(());
        }
        let hidden;
        let name = if self.options.hide_unprintable {
            hidden = printable(&named.typed);
            &hidden
        } else {
            &named.typed
        };
        if self.options.paths_only {
            return self.screen.line(format_args!("{name}"));
        }
        let line = line(status, name, &self.widths, &self.options, self.zone);
        self.screen.line(format_args!("{line}"))
    }

    fn end(mut self) -> Result<(), Failure> {
        self.screen.flush()?;
        if self.options.json {
            drop(self.screen);
            crate::output::print_json(&self.json).map_err(Failure::output)?;
        }
        Ok(())
    }
}

/// The policy of every file, with `-e`.
const REPLICATED: &str = "Replicated";

/// Widths of columns: as wide as the widest entry so far, but for the policy's, which each directory has for itself.
#[derive(Clone, Copy, Debug)]
struct Widths {
    replication: usize,
    owner: usize,
    group: usize,
    /// Of the policy: it has a column where a file is listed.
    policy: usize,
    length: usize,
}

impl Default for Widths {
    fn default() -> Self {
        Widths { replication: 3, owner: 0, group: 0, policy: 0, length: 10 }
    }
}

impl Widths {
    fn adjust(&mut self, items: &[Item], options: &Options) {
        let has_policy = options.policy && items.iter().any(|item| !item.status.directory);
        match items {
            // What is empty prints nothing, and changes no column of what follows.
            [] => {}
            _ if has_policy => self.policy = REPLICATED.len(),
            _ => self.policy = 0,
        }
        for Item { status, .. } in items {
            self.replication = self.replication.max(replication(status).len());
            self.owner = self.owner.max(status.owner.chars().count());
            self.group = self.group.max(status.group.chars().count());
            self.length = self.length.max(length(status, options.human).len());
        }
    }
}

fn line(
    status: &FileStatus,
    path: &str,
    widths: &Widths,
    options: &Options,
    zone: &TimeZone,
) -> String {
    let kind = if status.directory { 'd' } else { '-' };
    let list = if status.has_acl { '+' } else { ' ' };
    let time = if options.access_time { status.atime_ms } else { status.mtime_ms };
    let policy = if status.directory { "" } else { REPLICATED };
    // A column that is empty everywhere has no blank after it either: `.snapshot` has no owner.
    let column = |text: &str, width: usize| match width {
        0 => String::new(),
        width => format!("{text:<width$} "),
    };
    format!(
        "{kind}{}{list}{:>replication$} {}{}{}{:>length$} {} {path}",
        permissions(status.mode),
        replication(status),
        column(&status.owner, widths.owner),
        column(&status.group, widths.group),
        column(policy, widths.policy),
        length(status, options.human),
        minute_time(time, zone),
        replication = widths.replication,
        length = widths.length,
    )
}

fn replication(status: &FileStatus) -> String {
    if status.directory { "-".to_owned() } else { status.replication.to_string() }
}

fn length(status: &FileStatus, human: bool) -> String {
    if human { human_size(status.length) } else { status.length.to_string() }
}

fn sort(items: &mut [Item], options: &Options) {
    let time = |item: &Item| {
        if options.access_time { item.status.atime_ms } else { item.status.mtime_ms }
    };
    // Equal entries stay in the order of names, in a reversed listing too.
    let turned = |ordering: Ordering| if options.reverse { ordering.reverse() } else { ordering };
    if options.by_time {
        items.sort_by(|left, right| turned(time(right).cmp(&time(left))));
    } else if options.by_size {
        items.sort_by(|left, right| turned(right.status.length.cmp(&left.status.length)));
    } else if options.reverse {
        items.reverse();
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// An entry for programs.
#[derive(Serialize)]
pub(super) struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    length: u64,
    replication: u16,
    block_size: u64,
    owner: String,
    group: String,
    permission: String,
    modification_time_ms: u64,
    access_time_ms: u64,
    inode: u64,
    children_count: u64,
}

impl Entry {
    pub(super) fn new(path: &str, status: &FileStatus) -> Self {
        Entry {
            path: path.to_owned(),
            kind: if status.directory { "directory" } else { "file" },
            length: status.length,
            replication: status.replication,
            block_size: status.block_size,
            owner: status.owner.clone(),
            group: status.group.clone(),
            permission: format!("{:o}", status.mode),
            modification_time_ms: status.mtime_ms,
            access_time_ms: status.atime_ms,
            inode: status.inode.0,
            children_count: status.children_count,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use protocol::{DfsPath, InodeId};

    /// A status for golden texts.
    pub(crate) fn status(name: &str, directory: bool, length: u64) -> FileStatus {
        FileStatus {
            name: name.to_owned(),
            inode: InodeId(16386),
            directory,
            length,
            replication: if directory { 0 } else { 3 },
            block_size: if directory { 0 } else { 128 << 20 },
            owner: "alice".to_owned(),
            group: "supergroup".to_owned(),
            mode: if directory { 0o755 } else { 0o644 },
            mtime_ms: 1_767_609_005_000,
            atime_ms: if directory { 0 } else { 1_767_609_065_000 },
            children_count: 0,
            open: false,
            has_acl: false,
            snapshottable: false,
            storage_policy: None,
        }
    }

    fn item(path: &str, directory: bool, length: u64) -> Item {
        let named = Named::untyped(DfsPath::parse(path).unwrap());
        Item { named, status: status(path.trim_start_matches('/'), directory, length) }
    }

    fn lines(items: &[Item], options: Options) -> Vec<String> {
        let mut widths = Widths::default();
        widths.adjust(items, &options);
        let line = |i: &Item| line(&i.status, &i.named.typed, &widths, &options, &TimeZone::UTC);
        items.iter().map(line).collect()
    }

    #[test]
    fn columns_are_hadoops() {
        let items = [item("/data", true, 0), item("/f x", false, 134_217_728)];
        assert_eq!(
            lines(&items, Options::default()),
            [
                "drwxr-xr-x   - alice supergroup          0 2026-01-05 10:30 /data",
                "-rw-r--r--   3 alice supergroup  134217728 2026-01-05 10:30 /f x",
            ]
        );
        let options = Options { human: true, access_time: true, ..Options::default() };
        assert_eq!(
            lines(&items[1..], options),
            ["-rw-r--r--   3 alice supergroup      128 M 2026-01-05 10:31 /f x"]
        );
    }

    #[test]
    fn a_policy_has_a_column_where_there_are_files() {
        let items = [item("/data", true, 0), item("/f", false, 5)];
        let options = Options { policy: true, ..Options::default() };
        assert_eq!(
            lines(&items, options),
            [
                "drwxr-xr-x   - alice supergroup                     0 2026-01-05 10:30 /data",
                "-rw-r--r--   3 alice supergroup Replicated          5 2026-01-05 10:30 /f",
            ]
        );
        assert_eq!(
            lines(&items[..1], options),
            ["drwxr-xr-x   - alice supergroup          0 2026-01-05 10:30 /data"]
        );
    }

    #[test]
    fn columns_grow_with_their_entries() {
        let mut wide = item("/w", false, 123_456_789_012);
        wide.status.owner = "a-long-name".to_owned();
        wide.status.replication = 1000;
        assert_eq!(
            lines(&[item("/a", false, 5), wide], Options::default()),
            [
                "-rw-r--r--    3 alice       supergroup            5 2026-01-05 10:30 /a",
                "-rw-r--r-- 1000 a-long-name supergroup 123456789012 2026-01-05 10:30 /w",
            ]
        );
    }

    #[test]
    fn orders() {
        let mut items = [item("/a", false, 1), item("/b", false, 3), item("/c", false, 2)];
        items[2].status.mtime_ms += 1;
        let names = |options| {
            let mut items = items.to_vec();
            sort(&mut items, &options);
            items.iter().map(|item| item.status.name.clone()).collect::<String>()
        };
        assert_eq!(names(Options::default()), "abc");
        assert_eq!(names(Options { by_size: true, ..Options::default() }), "bca");
        assert_eq!(names(Options { by_time: true, ..Options::default() }), "cab");
        assert_eq!(names(Options { reverse: true, ..Options::default() }), "cba");
        assert_eq!(names(Options { by_time: true, reverse: true, ..Options::default() }), "abc");
    }
}
