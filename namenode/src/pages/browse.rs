//! Directories in pages, and files with their blocks and where the replicas are. Bytes come from WebHDFS's `OPEN`.

use daemon::page::format;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::DfsPath;
use protocol::namenode::{FileStatus, LocatedBlocks};
use serde::Deserialize;

/// Blocks listed for one file; more are counted. A file of ten thousand blocks holds more than a terabyte.
const BLOCKS_SHOWN_MAX: usize = 1_000;
/// Bytes shown by a preview.
const PREVIEW_BYTES: u64 = 64 << 10;
/// What stays as it is in the path of an address.
const PATH: AsciiSet =
    NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What is to be shown; kept in the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    pub(super) path: String,
    /// Name after which the page of a directory begins.
    pub(super) after: String,
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn target(path: &str) -> String {
    format!("/browse?path={}", encoded(path))
}

/// The address of a file's bytes.
fn open(path: &DfsPath, range: &str) -> String {
    format!("/webhdfs/v1{}?op=OPEN{range}", utf8_percent_encode(path.as_str(), &PATH))
}

/// The path, each element a link.
fn crumbs(path: &DfsPath) -> Markup {
    let mut parts = Vec::new();
    let mut whole = String::new();
    for element in path.elements() {
        whole.push('/');
        whole.push_str(element);
        parts.push((whole.clone(), element));
    }
    html! {
        h1 {
            a href=(target("/")) { "/" }
            @for (place, (whole, element)) in parts.iter().enumerate() {
                @if place > 0 { "/" }
                a href=(target(whole)) { (element) }
            }
        }
    }
}

fn mode(status: &FileStatus) -> String {
    let mut text = String::from(if status.directory { "d" } else { "-" });
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if status.mode >> shift & bit != 0 { letter } else { '-' });
        }
    }
    if status.mode & 0o1000 != 0 {
        let letter = if text.pop() == Some('x') { 't' } else { 'T' };
        text.push(letter);
    }
    text
}

/// One page of a directory.
pub(super) fn directory(
    path: &DfsPath,
    query: &Query,
    entries: &[FileStatus],
    remaining: u64,
) -> Markup {
    let below = |name: &str| format!("{}/{name}", path.as_str().trim_end_matches('/'));
    html! {
        (crumbs(path))
        form.filter method="get" {
            input type="search" name="path" value=(path) aria-label="path" size="50";
            button { "Go" }
        }
        @if entries.is_empty() { p.soft { "Nothing is here." } } @else {
            div.scroll { table {
                tr {
                    th { "Permission" } th { "Owner" } th { "Group" } th.number { "Size" } th { "Modified (UTC)" }
                    th.number { "Replication" } th.number { "Block size" } th { "Name" }
                }
                @for entry in entries {
                    tr {
                        td { code { (mode(entry)) } } td { (entry.owner) } td { (entry.group) }
                        td.number { @if entry.directory { "" } @else { (format::bytes(entry.length)) } }
                        td { (format::time(entry.mtime_ms)) }
                        td.number { @if !entry.directory { (entry.replication) } }
                        td.number { @if !entry.directory { (format::bytes(entry.block_size)) } }
                        td.wide { a href=(target(&below(&entry.name))) { (entry.name) @if entry.directory { "/" } } }
                    }
                }
            } }
        }
        p {
            @if !query.after.is_empty() { a href=(target(path.as_str())) { "← from the start" } " " }
            @if let Some(last) = entries.last().filter(|_| remaining > 0) {
                a href={ (target(path.as_str())) "&after=" (encoded(&last.name)) } { (format::count(remaining)) " more →" }
            }
        }
    }
}

/// One file.
pub(super) fn file(path: &DfsPath, located: &LocatedBlocks) -> Markup {
    let status = &located.status;
    let tail = status.length.saturating_sub(PREVIEW_BYTES);
    html! {
        (crumbs(path))
        p {
            a href=(open(path, "")) download { "Download" } " · "
            a href=(open(path, &format!("&length={PREVIEW_BYTES}"))) { "first 64 KiB" } " · "
            a href=(open(path, &format!("&offset={tail}"))) { "last 64 KiB" }
        }
        div.scroll { table {
            tr { th { "Size" } td { (format::bytes(status.length)) " (" (format::count(status.length)) " bytes)" @if status.open { ", being written" } } }
            tr { th { "Permission" } td { code { (mode(status)) } " " (status.owner) ":" (status.group) } }
            tr { th { "Modified (UTC)" } td { (format::time(status.mtime_ms)) } }
            tr { th { "Replication" } td { (status.replication) } }
            tr { th { "Block size" } td { (format::bytes(status.block_size)) } }
            tr { th { "Inode" } td { (status.inode) } }
        } }
        h2 { "Blocks" }
        (blocks(located))
    }
}

fn blocks(located: &LocatedBlocks) -> Markup {
    let wanted = usize::from(located.status.replication);
    let hidden = located.blocks.len().saturating_sub(BLOCKS_SHOWN_MAX);
    html! {
        @if located.blocks.is_empty() { p.soft { "The file is empty." } } @else {
            div.scroll { table {
                tr { th { "Block" } th.number { "Offset" } th.number { "Size" } th { "State" } th { "Replicas" } }
                @for block in located.blocks.iter().take(BLOCKS_SHOWN_MAX) {
                    tr {
                        td { code { (block.id) "_" (block.stamp) } }
                        td.number { (format::count(block.offset)) } td.number { (format::bytes(block.length)) }
                        td {
                            @if block.corrupt { span.state.bad { "corrupt" } }
                            @else if block.replicas.is_empty() { span.state.bad { "missing" } }
                            @else if block.replicas.len() < wanted { span.state.warn { (block.replicas.len()) " of " (wanted) } }
                            @else { span.state.good { "good" } }
                        }
                        td.wide {
                            @for replica in &block.replicas {
                                (replica.host) " " span.soft { (replica.transfer_address) " " (replica.rack) } br;
                            }
                        }
                    }
                }
            } }
            @if hidden > 0 { p.soft { (format::count(hidden as u64)) " more blocks are not listed." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_once() {
        let path = DfsPath::parse("/a b/50%+\"<&?#ü").unwrap();
        assert_eq!(open(&path, ""), "/webhdfs/v1/a%20b/50%25%2B%22%3C%26%3F%23%C3%BC?op=OPEN");
        assert_eq!(target("/a b&c"), "/browse?path=%2Fa%20b%26c");
        let text = crumbs(&path).into_string();
        assert!(text.contains("&lt;&amp;") && !text.contains("\"<"), "{text}");
    }
}
