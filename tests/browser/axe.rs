//! axe-core, which finds in a page what shuts people out: weak contrast, controls without names, tables without heads.

use std::path::PathBuf;

use needs::{Need, lacks};

use super::chromium::Browser;

/// Where `tests/browser/axe.sh` puts the library, below the folder that has what is built.
const LIBRARY: &str = "axe-core-4.14.1/axe.min.js";

/// Rules of WCAG 2.0, 2.1 and 2.2, levels A and AA.
const RUN: &str = "window.axeFound = null;
    const values = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    axe.run(document, { runOnly: { type: 'tag', values }, preload: false }).then(
        (all) => { window.axeFound = all.violations.flatMap((rule) =>
            rule.nodes.map((node) => `${rule.id}: ${node.target}: ${node.failureSummary}`)); },
        (error) => { window.axeFound = [String(error)]; })";

/// The library.
pub(super) struct Axe(String);

impl Axe {
    /// `None` where it is not installed, which is told.
    pub(super) fn find() -> Option<Self> {
        let own = std::env::current_exe().unwrap();
        // The test is target/debug/deps/NAME.
        let path: PathBuf = own.ancestors().nth(3).unwrap().join(LIBRARY);
        let text = std::fs::read_to_string(&path);
        let text = text.inspect_err(|error| {
            lacks(Need::Axe, format_args!("{}: {error}: tests/browser/axe.sh", path.display()));
        });
        text.ok().map(Axe)
    }

    /// What it finds in the page that is open.
    pub(super) fn violations(&self, browser: &Browser) -> Vec<String> {
        if browser.script("return Boolean(window.axe)") != true {
            browser.script(&self.0);
        }
        browser.script(RUN);
        browser.wait("axe has looked at the page", "window.axeFound");
        serde_json::from_value(browser.script("return window.axeFound")).unwrap()
    }
}
