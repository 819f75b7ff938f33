//! Makes an inverted index: for each word, the documents that it is in, and where it is there.
//!
//! ```text
//! cargo run --release --example inverted_index -- --local books INDEX
//! grep -P '^whale\t' INDEX/part-*
//! ```
//!
//! A line of the index is `word<TAB>document:position,position… document:…`. A document is an input file; a position is the byte at which
//! the word begins. Words are what is between characters that are no letters or digits, in lower case.
//!
//! Documents and positions of a word come in order, and nothing sorts them in memory: the key is `(word, (document, position))`, grouped by
//! its first element, and has all there is to say; values are empty. So the engine's sort puts the postings in order, and the reducer writes
//! them down as they come. This also holds for a word that is in each line of each book.

use std::fmt::Write;
use std::process::ExitCode;

use mr_api::{
    Args, Context, Emit, Job, Line, Lines, Mapper, Output, Plan, Reducer, Result, Sink, Values,
    text, text_out,
};

const HELP: &str = "\
Makes an index of the words of text files.

Usage: inverted_index [options] IN... OUT

  IN...                  files or directories; each file is a document
  OUT                    a new directory: lines `word<TAB>document:position,position... document:...`

Example:
  inverted_index --local books index
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("inverted-index")
        .input(text(inputs))
        .map(Words::default())
        .group_by_first()
        .reduce(Postings)
        .output(text_out(output));
    Ok(job.into())
}

/// A word, and its place: document and position.
type Place = (String, (String, u64));

/// Emits the place of each word.
#[derive(Clone, Default)]
struct Words {
    document: String,
    word: String,
}

impl Mapper for Words {
    type In = Lines;
    type Key = Place;
    type Value = ();

    fn setup(&mut self, context: &Context) -> Result<()> {
        let input = context.input().ok_or("a map reads a file")?;
        self.document = input.path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Place, (), S>) -> Result<()> {
        let text = line.to_str_lossy();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let position = line.offset + (word.as_ptr().addr() - text.as_ptr().addr()) as u64;
            self.word.clear();
            self.word.extend(word.chars().flat_map(char::to_lowercase));
            out.emit((&self.word, (&self.document, position)), ())?;
        }
        Ok(())
    }
}

/// Writes the places of a word in one line.
#[derive(Clone)]
struct Postings;

impl Reducer for Postings {
    type Key = Place;
    type Value = ();

    fn reduce(
        &mut self,
        (word, _): (std::borrow::Cow<'_, str>, (std::borrow::Cow<'_, str>, u64)),
        places: &mut Values<'_, Place, ()>,
        out: &mut Output,
    ) -> Result<()> {
        let (mut line, mut last) = (String::new(), String::new());
        while places.next_value()?.is_some() {
            let (_, (document, position)) = places.current_key()?;
            if *document == *last && !line.is_empty() {
                write!(line, ",{position}")?;
            } else {
                let between = if line.is_empty() { "" } else { " " };
                write!(line, "{between}{document}:{position}")?;
                last = document.into_owned();
            }
        }
        out.write(word, line)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;
    use mr_api::testing::JobDriver;
    use regex::Regex;

    use super::*;

    const A: &str = "Call me Ishmael. Some years ago--\r\nnever mind how\n\nlong\n";
    const B: &str = "ME, me, and Ishmael's né é\nsome  Some\n";

    /// An index by another way: a regular expression over the whole text of each file.
    fn slow() -> String {
        let mut index = BTreeMap::<String, BTreeMap<&str, Vec<String>>>::new();
        let words = Regex::new(r"[\p{Alphabetic}\p{N}]+").unwrap();
        for (name, text) in [("a.txt", A), ("b.txt", B)] {
            for found in words.find_iter(text) {
                let places = index.entry(found.as_str().to_lowercase()).or_default();
                places.entry(name).or_default().push(found.start().to_string());
            }
        }
        let line = |(word, documents): (String, BTreeMap<&str, Vec<String>>)| {
            let documents: Vec<String> =
                documents.iter().map(|(name, at)| format!("{name}:{}", at.join(","))).collect();
            format!("{word}\t{}\n", documents.join(" "))
        };
        index.into_iter().map(line).collect()
    }

    #[test]
    fn the_index_is_that_of_a_small_program_however_files_are_split() {
        assert!(slow().contains("me\ta.txt:5 b.txt:0,4\n"), "{}", slow());
        for bytes in [7, 1000] {
            let runner = LocalRunner::new().reducers(1).split_bytes(bytes).tiny_memory();
            let driver = JobDriver::new().file("in/a.txt", A).file("in/b.txt", B).runner(runner);
            let run = driver.run(|path| plan(&mut Args::from_words([path("in"), path("out")])?));
            assert_eq!(run.unwrap().text("part"), slow(), "splits of {bytes} bytes");
        }
    }
}
