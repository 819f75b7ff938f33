//! Pictures of pages for the documentation: on a desk, light and dark, and in the hand.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::DESK;
use super::chromium::Browser;
use super::png;

/// Where pictures go; nothing is kept if it is not set.
const VARIABLE: &str = "HANNO_SCREENSHOTS";
/// Size of a window in the hand.
const HAND: (u32, u32) = (390, 844);
/// Pages that are kept in that size too.
const IN_THE_HAND: [&str; 4] =
    ["jobtracker-overview", "jobtracker-job", "namenode-overview", "namenode-files"];
/// Tallest picture of a page.
const HEIGHT_MAX: u32 = 1400;

/// A script that puts `/data` for PLACE in all texts.
const HIDE_PLACE: &str = "const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(PLACE, '/data')";

/// Takes pictures, and looks at each page for what does not fit.
pub(super) struct Pictures {
    directory: Option<PathBuf>,
    /// Where the cluster keeps its data: in pictures it is `/data`.
    place: PathBuf,
    too_wide: RefCell<Vec<String>>,
}

impl Pictures {
    pub(super) fn from_environment(place: &Path) -> Self {
        let directory = std::env::var_os(VARIABLE).map(PathBuf::from);
        if let Some(directory) = &directory {
            std::fs::create_dir_all(directory).unwrap();
        }
        Pictures { directory, place: place.to_owned(), too_wide: RefCell::default() }
    }

    /// Looks at the page in both sizes: nothing may stick out. Keeps pictures where they are wanted.
    pub(super) fn take(&self, browser: &Browser, name: &str) {
        for (size, suffix) in [(HAND, "phone"), (DESK, "light"), (DESK, "dark")] {
            let in_hand = size == HAND;
            browser.appear(size, suffix == "dark");
            let width = browser.script("return document.documentElement.scrollWidth");
            if width.as_u64() > Some(u64::from(size.0)) {
                self.too_wide.borrow_mut().push(format!("{name} at {}: {width}", size.0));
            }
            let Some(directory) = &self.directory else { continue };
            if in_hand && !IN_THE_HAND.contains(&name) {
                continue;
            }
            browser.script(&HIDE_PLACE.replace("PLACE", &json!(self.place).to_string()));
            let height = browser.script("return document.documentElement.scrollHeight");
            let height = height.as_u64().and_then(|height| u32::try_from(height).ok());
            let height = height.unwrap_or(size.1).min(HEIGHT_MAX);
            browser.appear((size.0, height), suffix == "dark");
            let path = directory.join(format!("{name}-{suffix}.png"));
            std::fs::write(path, png::reduce(&browser.screenshot())).unwrap();
        }
        browser.appear(DESK, false);
    }

    /// Pages that are wider than their window.
    pub(super) fn wanting(&self) -> Vec<String> {
        self.too_wide.borrow().clone()
    }
}
