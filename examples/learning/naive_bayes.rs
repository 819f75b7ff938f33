//! Learns the labels of texts by counting words, and labels others: multinomial naive Bayes.
//!
//! ```text
//! cargo run --release -p learning --example naive_bayes -- --local train mails.tsv MODEL
//! cargo run --release -p learning --example naive_bayes -- --local --files MODEL/part-r-00000#model classify new.tsv OUT
//! ```
//!
//! Reads lines `label<TAB>text`. Words are what is between characters that are no letters or digits, in lower case.
//!
//! **Train** is WordCount with two words for a key: how often each word stands in the texts of each label. The model is its output, lines
//! `label<TAB>word<TAB>count`; an empty word counts the texts of the label.
//!
//! **Classify** needs the model in each map, so the model is a side file: each worker gets it once. A text gets the label that is most probable
//! if each of its words were drawn from the words of that label, whatever stands beside it. That is naive, and works well. A word that a
//! label never had would make the label impossible; so each word counts once more than it was there (Laplace), or `--smoothing` times more.
//! Words that no text of the training had say nothing.

use std::collections::HashMap;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use learning::text::each_word;
use mr_api::formats::KeyValueLines;
use mr_api::{
    Always, Args, Context, Emit, Job, Mapper, Plan, Result, Sink, Sum, from_files, parse, text_out,
    usage_error,
};

const HELP: &str = "\
Learns the labels of texts, and labels others.

Usage: naive_bayes [options] train IN... MODEL
       naive_bayes [options] --files MODEL/part-r-00000#model classify IN... OUT

  IN...                  lines `label<TAB>text`
  MODEL                  a new directory: lines `label<TAB>word<TAB>count`
  OUT                    a new directory: lines `first field of the text<TAB>label that was found`
  --smoothing X          how often a word counts beside the times that it was there (default 1)
";

/// Text fields separated by tabs.
const TABS: KeyValueLines = KeyValueLines { separator: b'\t' };

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let smoothing = args.value("--smoothing")?.unwrap_or(1.0);
    if !(f64::MIN_POSITIVE..=f64::MAX).contains(&smoothing) {
        return usage_error("--smoothing must be a number above 0");
    }
    let (mut inputs, output) = args.inputs_and_output()?;
    let way = inputs.remove(0);
    match way.as_str() {
        _ if inputs.is_empty() => {
            usage_error("train or classify, an input and an output are needed")
        }
        "train" => Ok(train(inputs, output)),
        "classify" => {
            let classify = Classify { smoothing, model: Arc::new(Model::default()) };
            let job = Job::new("classify").input(from_files(inputs, TABS)).map(classify);
            Ok(job.depends_on(smoothing).output(text_out(output)).into())
        }
        _ => usage_error(format!("`{way}` is neither train nor classify")),
    }
}

fn train(inputs: Vec<String>, output: String) -> Plan {
    let job = Job::new("train").input(from_files(inputs, TABS));
    let job = job.map_fn::<(Vec<u8>, Vec<u8>), u64, _>(|(label, text), out| {
        out.emit((label, ""), 1u64)?;
        each_word(text, |word| out.emit((label, word), 1u64))
    });
    // One file, whatever `--reducers` says.
    let job = job.combine(Sum).reduce(Sum);
    job.reducers(Always(1)).output(text_out(output)).into()
}

/// What is known of labels.
#[derive(Default)]
struct Model {
    labels: Vec<String>,
    /// Of each word, for each label: the logarithm of its part of all words. Of the empty word, that of the label's part of all texts.
    parts: HashMap<String, Vec<f64>>,
}

impl Model {
    /// Reads a model, which has its labels one after the other.
    fn read(lines: &str, smoothing: f64) -> Result<Model> {
        let Model { mut labels, mut parts } = Model::default();
        for line in lines.lines() {
            let &[label, word, count] = &line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(format!("`{line}` is no line of a model").into());
            };
            if labels.last().is_none_or(|last| last != label) {
                labels.push(label.to_owned());
            }
            let counts = parts.entry(word.to_owned()).or_default();
            counts.resize(labels.len(), 0.0);
            counts[labels.len() - 1] = parse(count, "count", line)?;
        }
        let texts = parts.remove("").ok_or("the model is empty: train it first")?;
        let mut totals = vec![0.0; labels.len()];
        for counts in parts.values_mut() {
            counts.resize(labels.len(), 0.0);
            counts.iter_mut().for_each(|count| *count += smoothing);
            totals.iter_mut().zip(&*counts).for_each(|(total, count)| *total += count);
        }
        for counts in parts.values_mut() {
            counts
                .iter_mut()
                .zip(&totals)
                .for_each(|(count, total)| *count = (*count / total).ln());
        }
        let all: f64 = texts.iter().sum();
        parts.insert(String::new(), texts.iter().map(|count| (count / all).ln()).collect());
        Ok(Model { labels, parts })
    }

    /// The most probable label.
    fn label(&self, text: &[u8]) -> Result<&str> {
        let mut scores = self.parts[""].clone();
        each_word(text, |word| {
            let parts = self.parts.get(word).into_iter().flatten();
            scores.iter_mut().zip(parts).for_each(|(score, part)| *score += part);
            Ok(())
        })?;
        let best = scores.iter().zip(&self.labels).max_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, label)| label.as_str()).ok_or_else(|| "the model has no labels".into())
    }
}

/// Labels texts.
#[derive(Clone)]
struct Classify {
    smoothing: f64,
    model: Arc<Model>,
}

impl Mapper for Classify {
    type In = KeyValueLines;
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn setup(&mut self, context: &Context) -> Result<()> {
        let lines = fs::read_to_string(context.side_file("model")?)?;
        self.model = Arc::new(Model::read(&lines, self.smoothing)?);
        Ok(())
    }

    fn map<S: Sink>(
        &mut self,
        (first, text): (&[u8], &[u8]),
        out: &mut Emit<Vec<u8>, Vec<u8>, S>,
    ) -> Result<()> {
        out.emit(first, self.model.label(text)?)
    }
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    /// The example of Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 13.1.
    const TRAINING: &str = "\
china\tChinese Beijing Chinese
china\tChinese, Chinese: Shanghai!
china\tchinese macao
other\tTokyo Japan Chinese
";

    /// Files of a model and of what it found in `texts`.
    fn run(training: &str, texts: &str) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        fs::write(path("training"), training).unwrap();
        fs::write(path("texts"), texts).unwrap();
        let go = |runner: LocalRunner, words: [&str; 3]| {
            let words = [words[0].to_owned(), path(words[1]), path(words[2])];
            runner.run(plan(&mut Args::from_words(words).unwrap()).unwrap()).unwrap();
        };
        go(
            LocalRunner::new().reducers(3).split_bytes(20).tiny_memory(),
            ["train", "training", "model"],
        );
        let model = path("model/part-r-00000");
        let runner = LocalRunner::new().side_file(&format!("{model}#model")).unwrap();
        go(runner, ["classify", "texts", "out"]);
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        (read("model/part-r-00000"), read("out/part-m-00000"))
    }

    #[test]
    fn the_example_of_the_book_is_of_china() {
        let (model, found) =
            run(TRAINING, "?\tChinese Chinese Chinese Tokyo Japan\n!\tTokyo Japan\n");
        assert!(model.starts_with("china\t\t3\nchina\tbeijing\t1\nchina\tchinese\t5\n"), "{model}");
        assert_eq!(found, "?\tchina\n!\tother\n");
        let model = Model::read(&model, 1.0).unwrap();
        for (word, parts) in
            [("chinese", [6.0 / 14.0, 2.0 / 9.0]), ("tokyo", [1.0 / 14.0, 2.0 / 9.0])]
        {
            for (found, part) in model.parts[word].iter().zip(parts) {
                assert!((found.exp() - part).abs() < 1e-12, "{word}: {} and {part}", found.exp());
            }
        }
    }

    #[test]
    fn a_label_is_that_of_a_sum_over_all_words() {
        let words = ["ant", "bee", "cow", "dog", "elk"];
        let line = |n: usize| {
            let text: Vec<&str> = (0..6).map(|i| words[(n * n + i * (n % 3 + 1)) % 5]).collect();
            (format!("l{}", n % 3), text)
        };
        let training: Vec<_> = (0..40).map(line).collect();
        let text = |lines: &[(String, Vec<&str>)]| -> String {
            lines.iter().map(|(label, words)| format!("{label}\t{}\n", words.join(" "))).collect()
        };
        let probability = |label: &str, text: &[&str]| {
            let of_label: Vec<_> = training.iter().filter(|(other, _)| other == label).collect();
            let all: Vec<&str> = of_label.iter().flat_map(|(_, words)| words).copied().collect();
            let part = |word: &&str| {
                let count = all.iter().filter(|other| *other == word).count();
                (count as f64 + 1.0) / (all.len() as f64 + 5.0)
            };
            of_label.len() as f64 / 40.0 * text.iter().map(part).product::<f64>()
        };
        let (_, found) = run(&text(&training), &text(&training));
        assert_eq!(found.lines().count(), 40);
        for ((_, words), line) in training.iter().zip(found.lines()) {
            let label = line.split_once('\t').unwrap().1;
            let others = ["l0", "l1", "l2"].map(|other| probability(other, words));
            assert!(
                others.iter().all(|other| *other <= probability(label, words) * (1.0 + 1e-9)),
                "{line}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for words in [
            &["train", "in"][..],
            &["learn", "in", "out"],
            &["--smoothing", "0", "train", "a", "b"],
        ] {
            assert!(plan(&mut Args::from_words(words.iter().copied()).unwrap()).is_err());
        }
        assert!(Model::read("", 1.0).is_err() && Model::read("a b\n", 1.0).is_err());
    }
}
