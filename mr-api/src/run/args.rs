//! The command line of a job program: takes out the job options and leaves the rest to the program.

use std::any::Any;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use mr_model::runner::SideFile;
use mr_model::{Error, Result};
use protocol::property::keys;

use super::options::Options;
use super::shipped::Shipped;

/// The text that every job program prints after its own help.
pub(crate) const OPTIONS_HELP: &str = "\
Job options:
  --local[=N]            run in this process on local files, with N threads (default: one per core)
  --reducers N           number of reduce tasks (default: the program's, or chosen by what the maps made); 0: what the maps emit is the output
  -D NAME=VALUE          a job property by its name of Hadoop's, of today or a former one; `hanno job properties` lists them
  -conf FILE             properties from a file of Hadoop's form; -D wins
  --default NAME=VALUE   a property as from such a file: -D wins, and it may be one that this job does not read
  --name NAME            name of the job
  --skip-bad N           leave out up to N records per map in which attempts failed; OUT/_logs/skip names them
  --namenode URL         http://host:port of the NameNode    (default: HANNO_NAMENODE or hanno.toml)
  --jobtracker URL       http://host:port of the JobTracker  (default: HANNO_JOBTRACKER or hanno.toml)
  --files A,B#NAME       side files: every task finds them in its directory (hdfs:///… is a file of the cluster)
  --quiet                no progress, no counters
  --json                 at the end, the job report as one line of JSON on stdout
  --                     what follows are paths, even if they begin with a dash
  --help                 this text

IN and OUT are paths of the file system of the cluster (plain, hdfs:///… or webhdfs://host:port/…); file:///… is a file of this machine,
which is copied in, or out. With --local plain ones are of this machine, too. With no
cluster configured, an embedded one is started, IN is copied into it and OUT comes back as a local directory.
";

/// How a job option takes values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// `--local[=N]`.
    OneOrNothing,
    One,
    /// One each time it is given.
    Several,
}

/// The job options.
const JOB_OPTIONS: [(&str, Takes); 13] = [
    ("--help", Takes::Nothing),
    ("-h", Takes::Nothing),
    ("--quiet", Takes::Nothing),
    ("--json", Takes::Nothing),
    ("--local", Takes::OneOrNothing),
    ("--reducers", Takes::One),
    ("--name", Takes::One),
    ("--namenode", Takes::One),
    ("--jobtracker", Takes::One),
    ("--skip-bad", Takes::One),
    ("--files", Takes::Several),
    ("-D", Takes::Several),
    ("--default", Takes::Several),
];

/// True for a job option whose value is the next word.
pub(crate) fn wants_next(word: &str) -> bool {
    let takes = JOB_OPTIONS.into_iter().find(|(known, _)| *known == word).map(|(_, takes)| takes);
    matches!(takes, Some(Takes::One | Takes::Several))
}

/// A job option and its value as given.
struct Given<'a> {
    name: &'static str,
    value: Option<&'a str>,
}

impl<'a> Given<'a> {
    /// The job option that `word` is, if it is one; its value may be the next of `rest`.
    fn of(
        word: &'a str,
        rest: &mut std::slice::Iter<'a, String>,
        seen: &mut Vec<&'static str>,
    ) -> Result<Option<Self>, Error> {
        let (name, inline) = match word.split_once('=') {
            Some((name, inline)) if name.starts_with("--") => (name, Some(inline)),
            _ => match word.strip_prefix("-D") {
                Some(property) if !property.is_empty() => ("-D", Some(property)),
                _ => (word, None),
            },
        };
        let Some((name, takes)) = JOB_OPTIONS.into_iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let value = match (takes, inline) {
            (Takes::Nothing, Some(value)) => {
                return Err(Error::usage(format!(
                    "option {name} takes no value, and not `{value}`"
                )));
            }
            (Takes::One | Takes::Several, None) => {
                let next = rest.next().map(String::as_str);
                Some(next.ok_or_else(|| Error::usage(format!("option {name} needs a value")))?)
            }
            (_, inline) => inline,
        };
        if matches!(takes, Takes::One | Takes::OneOrNothing) {
            once(seen, name)?;
        }
        Ok(Some(Given { name, value }))
    }
}

/// Refuses an option that was seen before: which of its values is meant?
pub(crate) fn once(seen: &mut Vec<&'static str>, name: &'static str) -> Result<(), Error> {
    if seen.contains(&name) {
        return Err(Error::usage(format!("option {name} is given twice: give it once")));
    }
    seen.push(name);
    Ok(())
}

/// The arguments of a program, job options removed.
#[derive(Clone, Debug)]
pub struct Args {
    words: Vec<Word>,
    pub(crate) shipped: Shipped,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// Begins with a dash and can be one of the program's options.
    Dashed(String),
    Plain(String),
}

impl Args {
    /// Splits a command line (without the program's name) into job options and the rest.
    pub(crate) fn parse(words: &[String]) -> Result<(Args, Options), Error> {
        let (mut options, mut rest) = (Options::default(), Vec::new());
        let (mut words, mut seen) = (words.iter(), Vec::new());
        while let Some(word) = words.next() {
            if word == "--" {
                rest.extend(words.by_ref().cloned().map(Word::Plain));
                break;
            }
            match Given::of(word, &mut words, &mut seen)? {
                Some(given) => take(&mut options, &given)?,
                None if word.len() > 1 && word.starts_with('-') => {
                    rest.push(Word::Dashed(word.clone()));
                }
                None => rest.push(Word::Plain(word.clone())),
            }
        }
        Ok((Args { words: rest, shipped: Shipped::default() }, options))
    }

    /// Makes arguments from words, for the tests of job authors; job options are ignored.
    ///
    /// # Errors
    /// A malformed job option.
    pub fn from_words<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Result<Args> {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        Ok(Args::parse(&words)?.0)
    }

    /// True if the option `name` (with its dashes) is given; takes it out.
    pub fn flag(&mut self, name: &str) -> bool {
        let count = self.words.len();
        self.words.retain(|word| *word != Word::Dashed(name.to_owned()));
        self.words.len() < count
    }

    /// The value of `name VALUE` or `name=VALUE`, if given; takes it out. A number is a finite one: with what is none, as `nan`, every comparison is false.
    ///
    /// # Errors
    /// If the value is missing or does not parse as `T`.
    pub fn value<T: FromStr<Err: Display> + 'static>(&mut self, name: &str) -> Result<Option<T>> {
        let position = self.words.iter().position(|word| match word {
            Word::Dashed(text) => {
                text == name || text.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
            }
            Word::Plain(_) => false,
        });
        let Some(position) = position else { return Ok(None) };
        let Word::Dashed(word) = self.words.remove(position) else { return Ok(None) };
        let value = match word.split_once('=') {
            Some((_, value)) => value.to_owned(),
            None if position < self.words.len() => match self.words.remove(position) {
                Word::Dashed(text) | Word::Plain(text) => text,
            },
            None => return Err(Error::usage(format!("option {name} needs a value")).into()),
        };
        match value.parse() {
            Ok(parsed) if !is_finite(&parsed) => {
                Err(Error::usage(format!("option {name}: `{value}` is no finite number")).into())
            }
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) => Err(Error::usage(format!("option {name}: `{value}`: {error}")).into()),
        }
    }

    /// The driver's value of the environment variable `name`, in the driver and in tasks, if it is set. [`std::env::var`] returns the same
    /// while the job's function runs, except for variables that belong to the machine (`PATH`, `TMPDIR`, `PWD`, `HANNO_…`, `RUST_…`,
    /// `LD_…`). The value travels with the job, visible to everybody who may see the job.
    pub fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// A file of the driver's machine that the job's function, its mapper or its reducer reads. It is sent to each worker once, as a side
    /// file of all jobs of the plan. Returns its path, here or there.
    ///
    /// ```no_run
    /// # fn job(args: &mut mr_api::Args) -> mr_api::Result<()> {
    /// let stop_words = std::fs::read_to_string(args.file("stop-words.txt")?)?;
    /// let seed: u64 = args.once("seed", || Ok(std::process::id().to_string()))?.parse()?;
    /// # let _ = (stop_words, seed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read, or if another file of the same name was requested.
    pub fn file(&mut self, path: &str) -> Result<PathBuf> {
        self.shipped.file(path)
    }

    /// A value that only the driver makes: a time, a seed, an answer from another system. Tasks get the same.
    ///
    /// # Errors
    /// Those of `make`; a value of more than 100 KiB.
    pub fn once(&mut self, name: &str, make: impl FnOnce() -> Result<String>) -> Result<String> {
        self.shipped.value(name, make)
    }

    /// The arguments that are not options. Take out the program's options first.
    ///
    /// # Errors
    /// If an option is left: the program does not know it.
    pub fn operands(&mut self) -> Result<Vec<String>> {
        let mut operands = Vec::new();
        for word in self.words.drain(..) {
            match word {
                Word::Plain(text) => operands.push(text),
                Word::Dashed(text) => {
                    return Err(Error::usage(format!("unknown option `{text}`")).into());
                }
            }
        }
        Ok(operands)
    }

    /// The operands as `IN... OUT`.
    ///
    /// # Errors
    /// If there are fewer than two, or an unknown option.
    pub fn inputs_and_output(&mut self) -> Result<(Vec<String>, String)> {
        let mut operands = self.operands()?;
        match operands.pop() {
            Some(output) if !operands.is_empty() => Ok((operands, output)),
            _ => Err(Error::usage("an input and an output path are needed").into()),
        }
    }
}

/// False for a floating-point number that is infinite or none.
fn is_finite<T: 'static>(value: &T) -> bool {
    let value: &dyn Any = value;
    value.downcast_ref::<f64>().is_none_or(|value| value.is_finite())
        && value.downcast_ref::<f32>().is_none_or(|value| value.is_finite())
}

/// Puts a job option into `options`.
fn take(options: &mut Options, given: &Given<'_>) -> Result<(), Error> {
    let (name, value) = (given.name, given.value.unwrap_or_default());
    match name {
        "--local" => options.local = Some(given.value.map(|n| number(name, n)).transpose()?),
        "--reducers" => options.reducers = Some(number(name, value)?),
        "--name" => options.name = Some(value.to_owned()),
        "--namenode" => options.namenode = Some(value.to_owned()),
        "--jobtracker" => options.jobtracker = Some(value.to_owned()),
        "--skip-bad" => {
            let count: u32 = number(name, value)?;
            keys::SKIP_MAX.set(&mut options.properties, count.to_string());
        }
        "--quiet" => options.quiet = true,
        "--json" => options.json = true,
        "--files" => {
            for file in value.split(',') {
                options.side_files.push(SideFile::parse(file)?);
            }
        }
        "-D" => options.set(value)?,
        "--default" => options.set_default(value)?,
        // `--help` and `-h`.
        _ => return Err(Error::HelpAsked),
    }
    Ok(())
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::usage(format!("option {name}: `{text}` is no number it takes")))
}

/// For a program's own messages about wrong usage.
///
/// # Errors
/// Always, by design.
pub fn usage_error<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::usage(reason).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Args, Options), Error> {
        Args::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn job_options_are_taken_out_wherever_they_stand() {
        let (mut args, options) =
            parse("--local=3 in -D a=b --top 5 -Dmapreduce.job.reduces=7 out --quiet -i -- -x")
                .unwrap();
        assert_eq!(options.local, Some(Some(3)));
        assert!(options.quiet && !options.json);
        assert_eq!(options.properties["a"], "b");
        assert_eq!(options.reducers().unwrap(), Some(7));
        assert_eq!(args.value::<u32>("--top").unwrap(), Some(5));
        assert_eq!(args.value::<u32>("--top").unwrap(), None);
        assert!(args.flag("-i") && !args.flag("-i"));
        assert_eq!(args.operands().unwrap(), ["in", "out", "-x"]);
    }

    #[test]
    fn every_option_takes_its_values_as_the_table_says() {
        let long = |name: &str| name != "-h";
        for (name, takes) in JOB_OPTIONS.into_iter().filter(|(name, _)| long(name)) {
            let inline = match name {
                "-D" => "-Da=1".to_owned(),
                "--default" => "--default=a=1".to_owned(),
                name => format!("{name}=1"),
            };
            let refused = parse(&inline).err().is_some();
            assert_eq!(refused, takes == Takes::Nothing, "{inline}");
            let twice = parse(&format!("{inline} {inline}")).is_ok();
            assert_eq!(twice, takes == Takes::Several, "{inline} {inline}");
            let alone = parse(name).err().map(|error| error.to_string()).unwrap_or_default();
            let needs = matches!(takes, Takes::One | Takes::Several);
            assert_eq!(alone.contains("needs a value"), needs, "{name}: {alone}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("--reducers", "needs a value"),
            ("--reducers x", "no number"),
            ("--local=x", "no number"),
            ("-D nothing", "NAME=VALUE"),
            ("--json=false", "option --json takes no value, and not `false`"),
            ("--quiet=false", "option --quiet takes no value"),
            ("--help=no", "option --help takes no value"),
            ("--name a --name b", "option --name is given twice"),
            ("--reducers=1 --reducers 2", "option --reducers is given twice"),
            ("--local --local=2", "option --local is given twice"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let error = parse("--what in out").unwrap().0.operands().unwrap_err().to_string();
        assert!(error.contains("unknown option `--what`"), "{error}");
        assert!(matches!(parse("in out --help"), Err(Error::HelpAsked)));
        let error = parse("--=x in out").unwrap().0.operands().unwrap_err().to_string();
        assert!(error.contains("unknown option `--=x`"), "{error}");
        let error = parse("--top=x a").unwrap().0.value::<u32>("--top").unwrap_err().to_string();
        assert!(error.contains("--top: `x`"), "{error}");
        assert!(parse("in").unwrap().0.inputs_and_output().is_err());
        for text in ["nan", "-NaN", "inf", "-infinity", "1e999"] {
            let value = |line: String| parse(&line).unwrap().0;
            let error = value(format!("--t={text}")).value::<f64>("--t").unwrap_err().to_string();
            assert!(
                error.contains(&format!("option --t: `{text}` is no finite number")),
                "{error}"
            );
            assert!(value(format!("--t={text}")).value::<f32>("--t").is_err(), "{text}");
            let name = value(format!("--t={text}")).value::<String>("--t").unwrap();
            assert_eq!(name.as_deref(), Some(text), "a name may look so");
        }
    }
}
