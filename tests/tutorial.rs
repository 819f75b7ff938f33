//! The tutorial, `docs/tutorial.md`: a reader who does all that it says, in its order, sees what it shows.
//!
//! | block | what the test does |
//! |---|---|
//! | `sh` | runs it; it must end with exit code 0 and print what the `text` below it shows, or nothing if there is none |
//! | `text` | compares ([`shown`]) |
//! | `rust`, `awk` | writes the file that the line above it names |
//! | `diff` | changes the file that the line above it names |
//!
//! A page that has another block, or one of these where it means nothing, is refused ([`page`]): each is done, or the test fails.

mod page;
mod reader;
mod shown;

use std::fs;
use std::path::Path;

use page::{Block, Step};
use reader::Reader;

/// The page, from the project's root.
const PAGE: &str = "docs/tutorial.md";
/// Fewer blocks than the page has, and more than one that was not understood would.
const BLOCKS_MIN: usize = 30;

#[test]
fn the_tutorial_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let blocks = page::blocks(&fs::read_to_string(page).unwrap()).unwrap();
    assert!(blocks.len() >= BLOCKS_MIN, "only {} blocks were found", blocks.len());
    let reader = Reader::new();
    for Block { line, step } in blocks {
        let begin = std::time::Instant::now();
        if let Err(reason) = follow(&reader, &step) {
            panic!("{PAGE}, line {line}: {reason}");
        }
        println!("line {line}: {:.1} s", begin.elapsed().as_secs_f64());
    }
}

/// Does what a block says.
fn follow(reader: &Reader, step: &Step) -> Result<(), String> {
    match step {
        Step::Run { script, shown } => {
            let (code, printed) = reader.run(script);
            if code != 0 {
                return Err(format!("exit code {code}\n{script}printed:\n{printed}"));
            }
            shown::compare(shown, &printed).map_err(|reason| format!("{reason}\n{script}"))
        }
        Step::Write { path, text } => {
            let place = reader.path(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).map_err(|error| format!("{path}: {error}"))
        }
        Step::Change { path, from, to } => {
            let place = reader.path(path);
            let text = fs::read_to_string(&place).map_err(|error| format!("{path}: {error}"))?;
            if text.matches(from).count() != 1 {
                return Err(format!("{path} does not have this exactly once:\n{from}"));
            }
            fs::write(place, text.replace(from, to)).map_err(|error| format!("{path}: {error}"))
        }
    }
}
