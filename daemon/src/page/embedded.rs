//! Style sheet, scripts and icon of the pages, as they are in the program.

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const ICON: &str = include_str!("icon.svg");
pub(super) const PATCH: &str = include_str!("patch.js");
pub(super) const TABLES: &str = include_str!("tables.js");
pub(super) const LIVE: &str = include_str!("live.js");
pub(super) const ACTIONS: &str = include_str!("actions.js");
/// Paths of the scripts, in the order in which pages load them: each names what those before it define.
pub(super) const SCRIPTS: [&str; 4] = ["/patch.js", "/tables.js", "/live.js", "/actions.js"];
