//! Style sheet, scripts and icon of the pages, as they are in the program.

pub(super) const STYLE: &str = include_str!("style.css");
/// The scripts, in the order in which pages load them: each names what those before it define.
pub(super) const SCRIPTS: [(&str, &str); 4] = [
    ("/patch.js", include_str!("patch.js")),
    ("/tables.js", include_str!("tables.js")),
    ("/live.js", include_str!("live.js")),
    ("/actions.js", include_str!("actions.js")),
];
pub(super) const ICON: &str = include_str!("icon.svg");
