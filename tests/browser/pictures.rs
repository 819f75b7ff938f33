//! Looks at pages, on a desk, light and dark, and in the hand: what sticks out, what shuts people out. Keeps pictures for the documentation.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::DESK;
use super::axe::Axe;
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

/// A script that names the tables of which a window shows a part.
const SIDEWAYS: &str = "return [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1)
    .map((box) => box.querySelector('caption')?.textContent ?? box.outerHTML.slice(0, 200))";

/// A script that names tables without a caption, and their heads without a scope.
const NAMELESS: &str =
    "return [...document.querySelectorAll('table:not(:has(> caption)), th:not([scope])')]
    .map((part) => part.outerHTML.slice(0, 200))";

/// Takes pictures, and looks at each page for what does not fit.
pub(super) struct Pictures {
    directory: Option<PathBuf>,
    /// Where the cluster keeps its data: in pictures it is `/data`.
    place: PathBuf,
    axe: Option<Axe>,
    wanting: RefCell<Vec<String>>,
}

impl Pictures {
    pub(super) fn from_environment(place: &Path) -> Self {
        let directory = std::env::var_os(VARIABLE).map(PathBuf::from);
        if let Some(directory) = &directory {
            std::fs::create_dir_all(directory).unwrap();
        }
        let (axe, wanting) = (Axe::find(), RefCell::default());
        Pictures { directory, place: place.to_owned(), axe, wanting }
    }

    /// Looks at the page in both sizes and both themes: nothing may stick out, and axe may find nothing. Keeps pictures where they are wanted.
    pub(super) fn take(&self, browser: &Browser, name: &str) {
        for (size, suffix) in [(HAND, "phone"), (DESK, "light"), (DESK, "dark")] {
            let in_hand = size == HAND;
            browser.appear(size, suffix == "dark");
            self.judge(browser, &format!("{name}, {suffix}"), size.0);
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

    /// Notes what is wrong with a page in a window of this width.
    fn judge(&self, browser: &Browser, name: &str, width: u32) {
        let mut wrong = Vec::new();
        let drawn = browser.script("return document.documentElement.scrollWidth");
        if drawn.as_u64() > Some(u64::from(width)) {
            wrong.push(format!("it is {drawn} wide, the window {width}"));
        }
        let hidden = browser.script(SIDEWAYS);
        let hidden = hidden.as_array().expect("a list").iter();
        wrong.extend(hidden.map(|table| format!("one must scroll sideways to read {table}")));
        let nameless = browser.script(NAMELESS);
        let nameless = nameless.as_array().expect("a list").iter();
        wrong.extend(nameless.map(|part| format!("no caption or scope: {part}")));
        wrong.extend(self.axe.iter().flat_map(|axe| axe.violations(browser)));
        let mut wanting = self.wanting.borrow_mut();
        wanting.extend(wrong.into_iter().map(|what| format!("{name}: {what}")));
    }

    /// What is wrong with the pages so far.
    pub(super) fn wanting(&self) -> Vec<String> {
        self.wanting.borrow().clone()
    }
}
