//! Answers `man is to king as woman is to …` with the vectors of words that `word_vectors` made.
//!
//! ```text
//! cargo run --release -p learning --example analogies -- --local man king woman VECTORS
//! ```
//!
//! Prints `closeness<TAB>word`, the nearest words first.
//!
//! Words with the same company have vectors of about the same direction, and what two words differ in is a direction, too. So an analogy is a
//! sum: the answer lies near `king - man + woman`, by angle. A first job finds the three vectors. The second compares all others with their
//! sum: the key is how close a word is, in falling order, and the sort puts the answers in front.

use std::io::Write;
use std::process::ExitCode;

use learning::least_squares::product;
use learning::rows::parse;
use mr_api::datum::Desc;
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Cluster, Job, Program, Result, intermediate, reduce_fn, text, usage_error,
};

const HELP: &str = "\
Answers `A is to B as C is to ...` with vectors of words.

Usage: analogies [options] A B C VECTORS

  A B C                  words
  VECTORS                the output of word_vectors
  --answers N            how many are printed (default 5)
";

fn main() -> ExitCode {
    Program::new(HELP).step(find).step(nearest).main(|args, cluster| {
        for line in answers(args, cluster)? {
            writeln!(mr_api::stdout(), "{line}")?;
        }
        Ok(())
    })
}

/// Lines `closeness<TAB>word`.
fn answers(args: &mut Args, cluster: &Cluster) -> Result<Vec<String>> {
    let count = args.value("--answers")?.unwrap_or(5);
    let mut asked = args.operands()?;
    let Some(vectors) = asked.pop().filter(|_| asked.len() == 3) else {
        return usage_error("three words and the vectors are needed");
    };
    let found = cluster.run(find, &(vectors.clone(), asked.clone()))?.lines()?;
    let mut target = Vec::new();
    for (word, sign) in asked.iter().zip([-1.0, 1.0, 1.0]) {
        let vector = found.iter().find_map(|line| line.strip_prefix(word)?.strip_prefix('\t'));
        let vector = unit(vector.ok_or_else(|| format!("`{word}` has no vector"))?)?;
        target.resize(vector.len(), 0.0);
        target.iter_mut().zip(vector).for_each(|(sum, x)| *sum += sign * x);
    }
    let mut lines = cluster.run(nearest, &(vectors, asked, target))?.lines()?;
    lines.truncate(count);
    Ok(lines)
}

/// A vector in text, of length 1.
fn unit(vector: &str) -> Result<Vec<f64>> {
    let mut unit = Vec::new();
    parse(vector.as_bytes(), &mut unit)?;
    let length = product(&unit, &unit).sqrt().max(f64::MIN_POSITIVE);
    unit.iter_mut().for_each(|x| *x /= length);
    Ok(unit)
}

fn find((vectors, words): (String, Vec<String>)) -> Result<CompleteJob> {
    let job = Job::new("find").input(text([vectors])).map_fn::<String, (), _>(move |line, out| {
        let line = line.to_str_lossy();
        let is_asked =
            line.split('\t').next().is_some_and(|word| words.iter().any(|asked| asked == word));
        if is_asked { out.emit(line, ()) } else { Ok(()) }
    });
    Ok(job.output(intermediate()))
}

/// All other words, the nearest first.
fn nearest((vectors, asked, target): (String, Vec<String>, Vec<f64>)) -> Result<CompleteJob> {
    let job = Job::new("nearest").input(text([vectors]));
    let job = job.map_fn::<(Desc<f64>, String), (), _>(move |line, out| {
        let line = line.to_str_lossy();
        let (word, vector) = line.split_once('\t').ok_or("a line is no vector of a word")?;
        if asked.iter().any(|asked| asked == word) {
            return Ok(());
        }
        out.emit((Desc(product(&unit(vector)?, &target)), word), ())
    });
    let write = reduce_fn(|(closeness, word), _, out| out.write(closeness, word));
    let job = job.reduce(write).reducers(Always(1));
    Ok(job.output(intermediate()))
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    /// Vectors with a direction for each sex and each office, of several lengths.
    const VECTORS: &str = "\
man\t1 0 0 0.1
king\t2 0 2 0
woman\t0 1 0 -0.1
queen\t0 3 3 0.2
prince\t1 0 1 1
sea\t0 0 0 1
";

    fn answered(words: &[&str]) -> Result<Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("in").to_string_lossy().into_owned();
        std::fs::write(&path, VECTORS).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(2).split_bytes(20).tiny_memory());
        answers(&mut Args::from_words(words.iter().copied().chain([path.as_str()]))?, &cluster)
    }

    #[test]
    fn the_answer_lies_where_the_directions_lead() {
        let lines = answered(&["man", "king", "woman"]).unwrap();
        let words: Vec<&str> = lines.iter().map(|line| line.split('\t').nth(1).unwrap()).collect();
        assert_eq!(words, ["queen", "prince", "sea"]);
        assert_eq!(answered(&["--answers", "1", "woman", "queen", "man"]).unwrap().len(), 1);
    }

    #[test]
    fn a_word_without_a_vector_is_named() {
        let error = answered(&["man", "duke", "woman"]).unwrap_err();
        assert!(error.to_string().contains("`duke` has no vector"), "{error}");
        assert!(answered(&["man", "king"]).is_err());
    }
}
