//! Directories in pages, and files with a preview of their bytes.

use daemon::page::format;
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use protocol::DfsPath;
use protocol::namenode::{FileStatus, LocatedBlocks};

use super::blocks;
use super::forms::Tools;
use super::links::{below, content, encoded, target};
use super::relay::Text;

/// Bytes shown by a preview.
pub(super) const PREVIEW_BYTES: u64 = 64 << 10;
/// Entries of a directory on one page. A thousand took a browser a quarter of a second to lay out.
pub(super) const PAGE_ROWS: u32 = 250;

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

/// One page of a directory, with the tools of who is signed in.
pub(super) fn directory(listing: &Directory<'_>, query: &Query, tools: Option<&Tools>) -> Markup {
    let Directory { path, status, entries, remaining } = *listing;
    let before = if query.after.is_empty() { "" } else { " from here" };
    let is_part = !query.after.is_empty() || remaining > 0;
    html! {
        (crumbs(path))
        p.soft {
            (entry_count(status.children_count)) " · " (status.owner) ":" (status.group) " · " code { (mode(status)) }
            @if tools.is_some() { " · " a href={ "/snapshots?path=" (encoded(path.as_str())) } { "snapshots" } }
        }
        @if tools.is_some() { (Tools::fill(path)) (Tools::changes(path, status)) }
        @if entries.is_empty() { p.empty { "Nothing is here" (before) "." } } @else {
            div.scroll { table.cards data-fixed[is_part] {
                caption.unseen { "Content of the directory" }
                thead { tr {
                    th scope="col" { "Name" } th.number scope="col" { "Size" } th scope="col" { "Modified (UTC)" }
                    th scope="col" { "Owner" } th scope="col" { "Group" } th scope="col" { "Permission" }
                    th.number scope="col" { "Replicas" } th.number scope="col" { "Block size" }
                    @if tools.is_some() { th.scripted scope="col" { span.unseen { "Actions" } } }
                } }
                @for entry in entries { (row(path, entry, tools)) }
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

fn row(path: &DfsPath, entry: &FileStatus, tools: Option<&Tools>) -> Markup {
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
            @if let Some(tools) = tools { td.scripted { (tools.removal(&whole, entry, None)) } }
        }
    }
}

/// One file, with the tools of who is signed in.
pub(super) fn file(
    path: &DfsPath,
    located: &LocatedBlocks,
    preview: Option<&Text>,
    tools: Option<&Tools>,
) -> Markup {
    let status = &located.status;
    let parent = path.parent().unwrap_or_else(DfsPath::root);
    let preview_url = |which: &str| format!("{}&preview={which}", target(path.as_str()));
    html! {
        (crumbs(path))
        div.tiles {
            div.tile { b { (format::bytes(status.length)) } span { (format::counted(status.length, "byte")) @if status.open { ", being written" } } }
            div.tile { b { (located.blocks.len()) } span { (format::noun(located.blocks.len() as u64, "block")) " of up to " (format::bytes(status.block_size)) } }
            div.tile { b { (status.replication) } span { "replicas wanted" } }
            div.tile { b.small { (status.owner) ":" (status.group) } span { code { (mode(status)) } } }
            div.tile { b.small { (format::time(status.mtime_ms)) } span { "modified (UTC), inode " (status.inode) } }
        }
        div.tools {
            a.button href=(content(path)) download { "Download" }
            a.button href=(preview_url("head")) { "First 64 KiB" }
            a.button href=(preview_url("tail")) { "Last 64 KiB" }
            @if let Some(tools) = tools { (tools.removal(path.as_str(), status, Some(&target(parent.as_str())))) }
        }
        @if tools.is_some() { (Tools::changes(path, status)) }
        @if let Some(text) = preview { (previewed(path, text)) }
        h2 { "Blocks" }
        (blocks::picture(located))
        (blocks::table(located))
    }
}

/// A path as one word of a shell, which the command takes for itself and for no pattern.
fn shell_word(path: &str) -> String {
    let mut word = String::from("'");
    for c in path.chars() {
        match c {
            '\'' => word.push_str("'\\''"),
            '*' | '?' | '[' | ']' | '{' | '}' | '\\' => word.extend(['\\', c]),
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

fn previewed(path: &DfsPath, text: &Text) -> Markup {
    html! {
        h2 { "From byte " (format::count(text.offset)) }
        @if let Some(kind) = text.packed {
            div.alert.tip { "This is " (kind) ", and these are its bytes. Its content as text: " code { "hdfs dfs -text " (shell_word(path.as_str())) } }
        }
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
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/a b"), "'/a b'");
        assert_eq!(shell_word("/q'; touch x; 'y"), r"'/q'\''; touch x; '\''y'");
        assert_eq!(shell_word("/a*[b]?{c}"), r"'/a\*\[b\]\?\{c\}'");
    }

    #[test]
    fn paths_are_escaped() {
        let path = DfsPath::parse("/a b/50%+\"<&?#ü").unwrap();
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
        let text = Text::of(0, hostile.as_bytes());
        let query = Query { path: String::new(), after: String::new(), preview: Preview::None };
        for user in [None, Some("alice")] {
            let tools = Tools::of(&path, user, 86_400_000);
            let directory = directory(&shown, &query, tools.as_ref()).into_string();
            let file = file(&path, &located, Some(&text), tools.as_ref()).into_string();
            for page in [directory, file] {
                assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
                for part in ["data-method", "data-change", "<button", "<input"] {
                    assert_eq!(page.contains(part), user.is_some(), "{part}: {page}");
                }
            }
        }
    }
}
