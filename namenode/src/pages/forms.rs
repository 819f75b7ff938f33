//! What a signed-in user can do with files from a page: make, upload, change, delete. Every field has its name beside it or in it, and all of it works by keyboard.

use daemon::page::{Action, action, format};
use maud::{Markup, html};
use protocol::DfsPath;
use protocol::namenode::{DOT_SNAPSHOT, FileStatus, REPLICATION_MAX};

use super::links::{below, encoded, target};
use super::trash::Trash;

/// The tools of a signed-in user.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    trash: Option<Trash>,
}

impl Tools {
    /// For what a path names. `None` where nothing can be changed: nobody is signed in, or it is in a snapshot.
    pub(super) fn of(path: &DfsPath, user: Option<&str>, trash_interval_ms: u64) -> Option<Self> {
        let is_kept = path.elements().any(|element| element == DOT_SNAPSHOT);
        let user = user.filter(|_| !is_kept)?;
        Some(Tools { trash: Trash::of(user, trash_interval_ms) })
    }

    /// What a directory can get.
    pub(super) fn fill(path: &DfsPath) -> Markup {
        let prefix = encoded(&below(path, ""));
        html! {
            div.tools.scripted {
                form data-make={ "/api/v1/files?type=directory&path=" (prefix) } {
                    input name="name" required placeholder="new directory" aria-label="name of a new directory";
                    button { "Create" }
                }
                form data-upload={ "/api/v1/files?path=" (prefix) } {
                    input type="file" name="files" multiple required aria-label="files to upload";
                    button { "Upload" }
                    progress hidden aria-label="sent of the upload" {}
                    output {}
                    button type="button" data-cancel hidden { "Cancel" }
                }
            }
        }
    }

    /// The button that deletes: to the trash if that takes it, or for good.
    pub(super) fn removal(&self, path: &str, status: &FileStatus, then: Option<&str>) -> Markup {
        let takes = |trash: &&Trash| DfsPath::parse(path).is_ok_and(|path| trash.takes(&path));
        let Some(trash) = self.trash.as_ref().filter(takes) else {
            return removal_for_good("Delete", path, status, then);
        };
        let (what, kept) = (content(status), format::duration(trash.interval_ms));
        let question = format!("Move {what} to your trash, which keeps it for {kept}?\n\n{path}");
        let url = format!("/api/v1/files/trash?path={}", encoded(path));
        let how = Action { confirm: Some(&question), then, danger: true, ..Action::default() };
        action("POST", &url, "Delete", &how)
    }

    /// What else can be done with a file or directory.
    pub(super) fn changes(path: &DfsPath, status: &FileStatus) -> Markup {
        let url = |what: &str| format!("/api/v1/files/{what}?path={}", encoded(path.as_str()));
        let parent = target(path.parent().unwrap_or_else(DfsPath::root).as_str());
        html! {
            details #change.scripted {
                summary { "Move, permission, owner" @if !status.directory { ", replicas" } }
                div.tools {
                    @if !path.is_root() {
                        form.long data-change=(url("move")) data-follow="/browse?path=" {
                            label { "Path" input name="to" value=(path) required title="One that ends with / is a directory to move it into"; }
                            button { "Move" }
                        }
                    }
                    form data-change=(url("permission")) {
                        label { "Permission" input.short name="mode" value=(format!("{:03o}", status.mode)) required pattern="[01]?[0-7]{3}" title="An octal number, such as 644"; }
                        button { "Set permission" }
                    }
                    form data-change=(url("owner")) {
                        label { "Owner" input.short name="owner" value=(status.owner); }
                        label { "Group" input.short name="group" value=(status.group); }
                        button { "Set owner" }
                    }
                    @if !status.directory {
                        form data-change=(url("replication")) {
                            label { "Replicas" input.short type="number" name="replication" value=(status.replication) min="1" max=(REPLICATION_MAX) required; }
                            button { "Set replicas" }
                        }
                    }
                    @if !path.is_root() { (removal_for_good("Delete for good", path.as_str(), status, Some(&parent))) }
                }
            }
        }
    }
}

fn content(status: &FileStatus) -> &'static str {
    if status.directory { "the directory with all that is in it" } else { "the file" }
}

fn removal_for_good(text: &str, path: &str, status: &FileStatus, then: Option<&str>) -> Markup {
    let what = content(status);
    let question = format!("Delete {what}, for good and not to the trash?\n\n{path}");
    let url = format!("/api/v1/files?recursive={}&path={}", status.directory, encoded(path));
    let how = Action { confirm: Some(&question), then, danger: true, ..Action::default() };
    action("DELETE", &url, text, &how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(path: &str, user: Option<&str>) -> Option<Tools> {
        Tools::of(&DfsPath::parse(path).unwrap(), user, 86_400_000)
    }

    #[test]
    fn only_who_is_signed_in_has_tools_and_none_for_what_cannot_change() {
        assert!(tools("/a", Some("ann")).is_some());
        assert!(tools("/a", None).is_none());
        assert!(tools("/a/.snapshot/s/b", Some("ann")).is_none());
    }

    #[test]
    fn the_trash_comes_first_where_it_takes_something() {
        let file = FileStatus::default();
        let removal = |tools: &Tools, path: &str| tools.removal(path, &file, None).into_string();
        let tools = tools("/", Some("ann")).unwrap();
        let page = removal(&tools, "/a b");
        assert!(
            page.contains("data-method=\"POST\" data-url=\"/api/v1/files/trash?path=%2Fa%20b\"")
        );
        assert!(page.contains("keeps it for 24 h 00 min"), "{page}");
        let off = Tools { trash: None };
        for page in [removal(&tools, "/user/ann/.Trash/Current/x"), removal(&off, "/a")] {
            assert!(page.contains("data-method=\"DELETE\"") && page.contains("for good"), "{page}");
        }
    }

    #[test]
    fn forms_offer_what_there_is_and_name_every_field() {
        let drawn = |path: &str, directory: bool| {
            let status = FileStatus {
                directory,
                mode: 0o644,
                owner: "\"><img".to_owned(),
                replication: 3,
                ..FileStatus::default()
            };
            Tools::changes(&DfsPath::parse(path).unwrap(), &status).into_string()
        };
        let (file, directory, root) = (drawn("/f", false), drawn("/d", true), drawn("/", true));
        for page in [&file, &directory, &root] {
            assert!(!page.contains("<img") && page.contains("value=\"644\""), "{page}");
            assert_eq!(page.matches("<input").count(), page.matches("<label").count(), "{page}");
        }
        assert!(file.contains("files/replication") && !directory.contains("files/replication"));
        for part in ["files/move", "data-method"] {
            assert!(directory.contains(part) && !root.contains(part), "{part}: {root}");
        }
    }
}
