//! Directories in pages, and files with a preview of their bytes.

use daemon::page::{Action, action, format};
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::DfsPath;
use protocol::namenode::{FileStatus, LocatedBlocks};

use super::blocks;
use super::relay::Text;

/// Bytes shown by a preview.
pub(super) const PREVIEW_BYTES: u64 = 64 << 10;
/// Entries of a directory on one page. A thousand took a browser a quarter of a second to lay out.
pub(super) const PAGE_ROWS: u32 = 250;
/// The name under which the snapshots of a directory are read.
const DOT_SNAPSHOT: &str = protocol::namenode::DOT_SNAPSHOT;

/// What to show; kept in the address.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) path: String,
    /// Name after which the page of a directory begins.
    pub(super) after: String,
    /// Which of a file's bytes to show.
    pub(super) preview: Preview,
}

impl Parameters for Query {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let previews = [("none", Preview::None), ("head", Preview::Head), ("tail", Preview::Tail)];
        Ok(Query {
            path: given.text_or_empty("path")?,
            after: given.text_or_empty("after")?,
            preview: given.choice("preview", &previews)?.unwrap_or(Preview::None),
        })
    }
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Preview {
    /// Nothing.
    None,
    /// Its beginning.
    Head,
    /// Its end.
    Tail,
}

/// A directory to draw.
pub(super) struct Directory<'a> {
    pub(super) path: &'a DfsPath,
    pub(super) status: &'a FileStatus,
    pub(super) entries: &'a [FileStatus],
    pub(super) remaining: u64,
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn target(path: &str) -> String {
    format!("/browse?path={}", encoded(path))
}

/// The address of a file's bytes.
fn content(path: &DfsPath) -> String {
    format!("/api/v1/files/content?path={}", encoded(path.as_str()))
}

fn below(path: &DfsPath, name: &str) -> String {
    format!("{}/{name}", path.as_str().trim_end_matches('/'))
}

/// The path, each element a link.
pub(super) fn crumbs(path: &DfsPath) -> Markup {
    let mut parts = Vec::new();
    let mut whole = String::new();
    for element in path.elements() {
        whole.push('/');
        whole.push_str(element);
        parts.push((whole.clone(), element));
    }
    html! {
        h1.path {
            a href=(target("/")) { "/" }
            @for (place, (whole, element)) in parts.iter().enumerate() {
                @if place > 0 { "/" }
                a href=(target(whole)) { (element) }
            }
        }
    }
}

fn entry_count(count: u64) -> String {
    let noun = if count == 1 { "entry" } else { "entries" };
    format!("{} {noun}", format::count(count))
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
    if status.has_acl {
        text.push('+');
    }
    text
}

/// One page of a directory.
pub(super) fn directory(listing: &Directory<'_>, query: &Query, user: Option<&str>) -> Markup {
    let Directory { path, status, entries, remaining } = *listing;
    let before = if query.after.is_empty() { "" } else { " from here" };
    let is_part = !query.after.is_empty() || remaining > 0;
    html! {
        (crumbs(path))
        p.soft {
            (entry_count(status.children_count)) " · " (status.owner) ":" (status.group) " · " code { (mode(status)) }
            @if user.is_some() { " · " a href={ "/snapshots?path=" (encoded(path.as_str())) } { "snapshots" } }
        }
        (tools(path, user))
        @if entries.is_empty() { p.empty { "Nothing is here" (before) "." } } @else {
            div.scroll { table.cards data-fixed[is_part] {
                caption.unseen { "Content of the directory" }
                thead { tr {
                    th scope="col" { "Name" } th.number scope="col" { "Size" } th scope="col" { "Modified (UTC)" }
                    th scope="col" { "Owner" } th scope="col" { "Group" } th scope="col" { "Permission" }
                    th.number scope="col" { "Replicas" } th.number scope="col" { "Block size" }
                    @if user.is_some() { th.scripted scope="col" { span.unseen { "Actions" } } }
                } }
                @for entry in entries { (row(path, entry, user)) }
            } }
        }
        p.pager {
            @if !query.after.is_empty() { a href=(target(path.as_str())) { "← from the start" } " " }
            @if let Some(last) = entries.last().filter(|_| remaining > 0) {
                a href={ (target(path.as_str())) "&after=" (encoded(&last.name)) } { (format::count(remaining)) " more →" }
            }
        }
    }
}

fn row(path: &DfsPath, entry: &FileStatus, user: Option<&str>) -> Markup {
    let whole = below(path, &entry.name);
    html! {
        tr {
            td.wide { a href=(target(&whole)) { (entry.name) @if entry.directory { "/" } } @if entry.open { " " span.chip { "being written" } } }
            td.number {
                @if entry.directory { span.soft { (entry_count(entry.children_count)) } } @else { (format::bytes(entry.length)) }
            }
            td { (format::time(entry.mtime_ms)) } td { (entry.owner) } td { (entry.group) } td { code { (mode(entry)) } }
            td.number { @if !entry.directory { (entry.replication) } }
            td.number { @if !entry.directory { (format::bytes(entry.block_size)) } }
            @if user.is_some() { td.scripted { (remove(&whole, entry, None)) } }
        }
    }
}

fn remove(path: &str, status: &FileStatus, then: Option<&str>) -> Markup {
    let what = if status.directory { "the directory with all that is in it" } else { "the file" };
    let question = format!("Delete {what}, for good and not to the trash?\n\n{path}");
    let url = format!("/api/v1/files?recursive={}&path={}", status.directory, encoded(path));
    let how = Action { confirm: Some(&question), then, danger: true, ..Action::default() };
    action("DELETE", &url, "Delete", &how)
}

/// What can be done in a directory.
fn tools(path: &DfsPath, user: Option<&str>) -> Markup {
    let prefix = encoded(&below(path, ""));
    let is_snapshot = path.elements().any(|element| element == DOT_SNAPSHOT);
    html! {
        @if user.is_some() && !is_snapshot {
            div.tools.scripted {
                form data-make={ "/api/v1/files?type=directory&path=" (prefix) } {
                    input name="name" required placeholder="new directory" aria-label="name of a new directory";
                    button { "Create" }
                }
                form data-upload={ "/api/v1/files?path=" (prefix) } {
                    input type="file" name="files" multiple required aria-label="files to upload";
                    button { "Upload" }
                    progress hidden {}
                }
            }
        }
    }
}

/// One file.
pub(super) fn file(
    path: &DfsPath,
    located: &LocatedBlocks,
    preview: Option<&Text>,
    user: Option<&str>,
) -> Markup {
    let status = &located.status;
    let parent = path.parent().unwrap_or_else(DfsPath::root);
    let preview_url = |which: &str| format!("{}&preview={which}", target(path.as_str()));
    html! {
        (crumbs(path))
        div.tiles {
            div.tile { b { (format::bytes(status.length)) } span { (format::count(status.length)) " bytes" @if status.open { ", being written" } } }
            div.tile { b { (located.blocks.len()) } span { "blocks of up to " (format::bytes(status.block_size)) } }
            div.tile { b { (status.replication) } span { "replicas wanted" } }
            div.tile { b.small { (status.owner) ":" (status.group) } span { code { (mode(status)) } } }
            div.tile { b.small { (format::time(status.mtime_ms)) } span { "modified (UTC), inode " (status.inode) } }
        }
        div.tools {
            a.button href=(content(path)) download { "Download" }
            a.button href=(preview_url("head")) { "First 64 KiB" }
            a.button href=(preview_url("tail")) { "Last 64 KiB" }
            @if user.is_some() { (remove(path.as_str(), status, Some(&target(parent.as_str())))) }
        }
        @if let Some(text) = preview { (previewed(text)) }
        h2 { "Blocks" }
        (blocks::picture(located))
        (blocks::table(located))
    }
}

fn previewed(text: &Text) -> Markup {
    html! {
        h2 { "From byte " (format::count(text.offset)) }
        @match &text.content {
            Ok(content) => pre.preview tabindex="0" { (content) },
            Err(reason) => div.alert.bad { (reason) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_once() {
        let path = DfsPath::parse("/a b/50%+\"<&?#ü").unwrap();
        let address = "/api/v1/files/content?path=%2Fa%20b%2F50%25%2B%22%3C%26%3F%23%C3%BC";
        assert_eq!(content(&path), address);
        assert_eq!(target("/a b&c"), "/browse?path=%2Fa%20b%26c");
        let text = crumbs(&path).into_string();
        assert!(text.contains("&lt;&amp;") && !text.contains("\"<"), "{text}");
    }

    #[test]
    fn hostile_texts_are_escaped_and_only_who_is_signed_in_sees_tools() {
        let hostile = "\"><img src=x onerror=alert(1)>";
        let path = DfsPath::parse(&format!("/{hostile}")).unwrap();
        let entry = FileStatus {
            name: hostile.to_owned(),
            owner: hostile.to_owned(),
            group: hostile.to_owned(),
            ..FileStatus::default()
        };
        let shown = Directory {
            path: &path,
            status: &entry,
            entries: std::slice::from_ref(&entry),
            remaining: 1,
        };
        let located = LocatedBlocks { status: entry.clone(), blocks: Vec::new() };
        let text = Text { offset: 0, content: Ok(hostile.to_owned()) };
        let query = Query { path: String::new(), after: String::new(), preview: Preview::None };
        for user in [None, Some("alice")] {
            let directory = directory(&shown, &query, user).into_string();
            let file = file(&path, &located, Some(&text), user).into_string();
            for page in [directory, file] {
                assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
                assert_eq!(page.contains("data-method"), user.is_some(), "{page}");
            }
        }
    }
}
