//! Snapshots: directories that may have them, those of one directory, and what changed between two.

use daemon::page::format;
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use protocol::namenode::{
    DOT_SNAPSHOT, DiffEntry, DiffKind, DiffPage, FileStatus, LIST_ENTRIES_MAX,
    SnapshottableDirectory, calls,
};
use protocol::{DfsPath, ErrorKind, RemoteError};

use super::context::{Pages, path_of};
use super::links::{encoded, target};

/// What to show; kept in the address.
#[derive(Clone, Debug)]
pub(super) struct Query {
    path: String,
    /// Snapshots to compare; empty for the present.
    from: Option<String>,
    to: String,
    /// Changes to leave out at the front.
    skip: u64,
}

impl Parameters for Query {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Query {
            path: given.text_or_empty("path")?,
            from: given.any_text("from")?.map(str::to_owned),
            to: given.text_or_empty("to")?,
            skip: given.number("skip", 0..=u64::MAX)?.unwrap_or(0),
        })
    }
}

/// The page.
pub(super) async fn page(
    pages: &Pages,
    query: &Query,
    user: Option<&str>,
) -> Result<Markup, RemoteError> {
    if query.path.is_empty() {
        let directories = pages.read(user, calls::SnapshottableDirectories).await?;
        return Ok(all(&directories, user));
    }
    let path = path_of(&query.path)?;
    let below = path
        .join(DOT_SNAPSHOT)
        .map_err(|error| RemoteError::new(ErrorKind::InvalidArgument, error.to_string()))?;
    let call = calls::List { path: below, start_after: String::new(), limit: LIST_ENTRIES_MAX };
    let snapshots = match pages.read(user, call).await {
        Ok(page) => page.entries,
        Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let changes = match &query.from {
        Some(from) => {
            let (from, to) = (from.clone(), query.to.clone());
            let call = calls::SnapshotDiff { path: path.clone(), from, to, skip: query.skip };
            let DiffPage { entries, remaining } = pages.read(user, call).await?;
            Some((entries, remaining))
        }
        None => None,
    };
    Ok(one(&path, query, &snapshots, changes.as_ref()))
}

fn all(directories: &[SnapshottableDirectory], user: Option<&str>) -> Markup {
    html! {
        h1 { "Snapshots" }
        @if directories.is_empty() {
            p.empty {
                @match user {
                    Some(user) => { "No directory of " (user) " may have snapshots: " code { "hanno dfsadmin -allowSnapshot PATH" } " lets one." },
                    None => { "Only their owners and the superuser see which directories have snapshots: " a href="/login" { "how to sign in" } "." },
                }
            }
        } @else {
            div.scroll { table.cards {
                caption.unseen { "Directories that may have snapshots" }
                thead { tr {
                    th scope="col" { "Directory" } th.number scope="col" { "Snapshots" } th.number scope="col" { "At most" }
                    th scope="col" { "Owner" } th scope="col" { "Modified (UTC)" }
                } }
                @for each in directories {
                    tr {
                        td.wide { a href={ "/snapshots?path=" (encoded(each.path.as_str())) } { (each.path) } }
                        td.number { (each.snapshot_count) } td.number { (each.snapshot_quota) }
                        td { (each.status.owner) } td { (format::time(each.status.mtime_ms)) }
                    }
                }
            } }
        }
    }
}

fn one(
    path: &DfsPath,
    query: &Query,
    snapshots: &[FileStatus],
    changes: Option<&(Vec<DiffEntry>, u64)>,
) -> Markup {
    let choice = |name: &str, chosen: &str, present: &str| {
        html! {
            select name=(name) aria-label=(name) {
                @for each in snapshots { option value=(each.name) selected[each.name == chosen] { (each.name) } }
                option value="" selected[chosen.is_empty()] { (present) }
            }
        }
    };
    let first = snapshots.first().map_or("", |each| each.name.as_str());
    html! {
        h1.path { "Snapshots of " a href=(target(path.as_str())) { (path) } }
        @if snapshots.is_empty() { p.empty { "There are none." } } @else {
            div.scroll { table.cards {
                caption.unseen { "Snapshots" }
                thead { tr { th scope="col" { "Snapshot" } th scope="col" { "Made (UTC)" } th scope="col" { "Owner" } } }
                @for each in snapshots {
                    @let inside = format!("{}/{DOT_SNAPSHOT}/{}", path.as_str().trim_end_matches('/'), each.name);
                    tr {
                        td.wide { a href=(target(&inside)) { (each.name) } }
                        td { (format::time(each.mtime_ms)) } td { (each.owner) }
                    }
                }
            } }
            h2 { "What changed" }
            form.filter method="get" {
                input type="hidden" name="path" value=(path);
                "from" (choice("from", query.from.as_deref().unwrap_or(first), "the present"))
                "to" (choice("to", &query.to, "the present"))
                button { "Compare" }
            }
        }
        @if let Some((entries, remaining)) = changes { (difference(query, entries, *remaining)) }
    }
}

fn difference(query: &Query, entries: &[DiffEntry], remaining: u64) -> Markup {
    let word = |kind: DiffKind| match kind {
        DiffKind::Created => ("good", "+ created"),
        DiffKind::Deleted => ("bad", "− deleted"),
        DiffKind::Modified => ("warn", "M modified"),
        DiffKind::Renamed => ("run", "R renamed"),
    };
    let next = || {
        let from = query.from.as_deref().unwrap_or_default();
        let skip = query.skip + entries.len() as u64;
        let (path, from, to) = (encoded(&query.path), encoded(from), encoded(&query.to));
        format!("/snapshots?path={path}&from={from}&to={to}&skip={skip}")
    };
    html! {
        @if entries.is_empty() { p.empty { "Nothing differs." } } @else {
            div.scroll { table.cards {
                caption.unseen { "Changes" }
                thead { tr { th scope="col" { "Change" } th scope="col" { "Path" } } }
                @for entry in entries {
                    @let (class, text) = word(entry.kind);
                    tr {
                        td { span class={ "state " (class) } { (text) } }
                        td.wide { @if entry.path.is_empty() { "." } @else { (entry.path) } @if let Some(target) = &entry.target { " → " (target) } }
                    }
                }
            } }
        }
        @if remaining > 0 { p.pager { a href=(next()) { (format::count(remaining)) " more →" } } }
    }
}
