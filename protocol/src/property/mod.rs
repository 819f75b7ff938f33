//! Properties of jobs: one table that says for each name what effect it has, and typed keys, which are the only way to read a value.
//!
//! Invariants: a name is in the table once, as a present or a former name; a value that its key cannot read is refused where the job is submitted; reading a
//! property takes its key, so nothing reads a property that no row calls honoured. `tests/tidy/` checks for names outside the table, and `docs/properties.md`
//! is the output of [`markdown`].

mod row;
mod table;
mod value;

use std::fmt::Write;

pub use row::{Class, Key, Properties, PropertyError, Row, Scope};
pub use table::{ROWS, keys};
pub use value::{
    CodecClass, CompressType, Count, Megabytes, Millis, PipeEncoding, Share, Size, Value,
};

/// The verdict on one property of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// The job runs; its user gets a warning.
    Warning(String),
    /// The job is not submitted.
    Refusal(String),
}

/// The row of a present or former name.
pub fn row(name: &str) -> Option<&'static Row> {
    let exact = ROWS.iter().find(|row| row.name == name || row.former.contains(&name));
    exact.or_else(|| {
        let covers =
            |row: &&Row| row.name.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        ROWS.iter().find(covers)
    })
}

/// The present name of a property.
pub fn present_name(name: &str) -> &str {
    match row(name) {
        Some(row) if !row.name.ends_with('*') => row.name,
        _ => name,
    }
}

/// The former names of a property.
pub fn former_names(name: &str) -> &'static [&'static str] {
    ROWS.iter().find(|row| row.name == name).map_or(&[], |row| row.former)
}

/// The verdict on a property of a job of this kind.
pub fn judge(name: &str, value: &str, scope: Scope) -> Verdict {
    let Some(row) = row(name) else { return unknown(name) };
    match row.class {
        Class::Honoured { takes, wanted, .. } if !takes(value) => {
            let (name, value) = (name.to_owned(), value.to_owned());
            Verdict::Refusal(PropertyError { name, value, wanted }.to_string())
        }
        Class::Honoured { scope: Scope::Streaming, .. } if scope == Scope::Jobs => {
            Verdict::Warning(format!(
                "property {name} is for streaming jobs and has no effect here"
            ))
        }
        Class::Honoured { .. } => Verdict::Fine,
        Class::Ignored => Verdict::Warning(format!("property {name} has no effect: {}", row.text)),
        Class::Refused { unless } => {
            let harmless = unless.iter().any(|same| same.eq_ignore_ascii_case(value.trim()));
            if harmless {
                return Verdict::Fine;
            }
            Verdict::Refusal(format!("property {name}={value} cannot be had: {}", row.text))
        }
    }
}

/// Prefixes of Hadoop's names.
const HADOOP_PREFIXES: [&str; 16] = [
    "mapreduce.",
    "mapred.",
    "stream.",
    "yarn.",
    "dfs.",
    "fs.",
    "io.",
    "textinputformat.",
    "hadoop.",
    "ipc.",
    "map.",
    "job.",
    "jobclient.",
    "num.key.",
    "key.value.",
    "hanno.",
];
/// A name that differs from all known ones in more than this share of its length is not a typing error.
const SLIP_MAX_PERCENT: usize = 40;

fn unknown(name: &str) -> Verdict {
    if !HADOOP_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Verdict::Fine;
    }
    let known = ROWS.iter().filter(|row| matches!(row.class, Class::Honoured { .. }));
    let names = known.flat_map(|row| [row.name].into_iter().chain(row.former.iter().copied()));
    let nearest = names.map(|known| (distance(known, name), known)).min();
    let hint = match nearest {
        Some((far, known)) if far * 100 <= name.len() * SLIP_MAX_PERCENT => {
            format!("; did you mean {known}?")
        }
        _ => "; tasks can read it".to_owned(),
    };
    Verdict::Warning(format!("property {name} is not known here{hint}"))
}

/// The Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The table as it stands in `docs/properties.md`.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    type IsIn = fn(&Class) -> bool;
    let sections: [(&str, IsIn); 4] = [
        ("Honoured", |class| matches!(class, Class::Honoured { scope: Scope::Jobs, .. })),
        ("Honoured by streaming jobs", |class| {
            matches!(class, Class::Honoured { scope: Scope::Streaming, .. })
        }),
        ("Without effect, with a warning", |class| matches!(class, Class::Ignored)),
        ("Refused", |class| matches!(class, Class::Refused { .. })),
    ];
    for (title, is_in) in sections {
        let _ = write!(text, "\n## {title}\n\n{}", columns(title));
        for row in ROWS.iter().filter(|row| is_in(&row.class)) {
            let former: Vec<String> = row.former.iter().map(|name| format!("`{name}`")).collect();
            let former = former.join(", ");
            let third = match row.class {
                Class::Honoured { wanted, .. } => format!(" {wanted} |"),
                Class::Ignored => String::new(),
                Class::Refused { unless } => {
                    let same: Vec<String> =
                        unless.iter().map(|value| format!("`{value}`")).collect();
                    format!(" {} |", same.join(", "))
                }
            };
            let _ = writeln!(text, "| `{}` | {former} |{third} {} |", row.name, row.text);
        }
    }
    text
}

fn columns(title: &str) -> &'static str {
    match title {
        "Without effect, with a warning" => "| property | former names | why |\n|---|---|---|\n",
        "Refused" => {
            "| property | former names | passes with | why, and what to do |\n|---|---|---|---|\n"
        }
        _ => "| property | former names | value | |\n|---|---|---|---|\n",
    }
}

const HEAD: &str = "\
# Properties of jobs

What `-D NAME=VALUE` and `-conf FILE` do with each name of Hadoop 3.4. Former names mean the same as those of today. Values are
checked before a job is submitted. Names that are not in this list reach the tasks (`context.property`, the environment of scripts) as they are; if they
look like Hadoop's, a warning says so. This page is written from the table that the code reads: `hanno job properties > docs/properties.md`.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn judged(name: &str, value: &str) -> Verdict {
        judge(name, value, Scope::Jobs)
    }

    #[test]
    fn the_page_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/properties.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == markdown(), "`hanno job properties > docs/properties.md` writes it anew");
    }

    #[test]
    fn every_name_stands_once() {
        let mut seen = BTreeSet::new();
        for row in ROWS {
            for name in [row.name].iter().chain(row.former) {
                assert!(seen.insert(*name), "{name} stands twice");
            }
            assert!(!row.text.is_empty() && !row.text.contains('|'), "{}", row.name);
        }
    }

    #[test]
    fn values_are_checked_and_named() {
        let error = keys::SORT_MB.get(&[(keys::SORT_MB.name().into(), "abc".into())].into());
        assert!(error.unwrap_err().to_string().contains("`abc` is not"));
        for (name, value) in [
            ("io.sort.mb", "abc"),
            ("mapreduce.map.maxattempts", "0"),
            ("mapreduce.map.speculative", "maybe"),
            ("mapreduce.task.timeout", "-1"),
            ("mapreduce.job.reduce.slowstart.completedmaps", "2"),
            ("mapreduce.output.fileoutputformat.compress.codec", "x.Y"),
            ("stream.map.input", "json"),
        ] {
            assert!(matches!(judged(name, value), Verdict::Refusal(_)), "{name}={value}");
        }
        assert_eq!(judged("mapred.task.timeout", "0"), Verdict::Fine);
        assert_eq!(judged("mapred.min.split.size", "64m"), Verdict::Fine);
    }

    #[test]
    fn what_would_change_the_outcome_is_refused_and_the_rest_told() {
        assert_eq!(judged("mapreduce.map.failures.maxpercent", " 0 "), Verdict::Fine);
        let refused = judged("mapred.max.map.failures.percent", "5");
        assert!(matches!(refused, Verdict::Refusal(text) if text.contains("=5")));
        for (name, part) in [
            ("mapreduce.job.reducers", "did you mean mapreduce.job.reduces?"),
            ("mapreduce.xyzzy.frobnicate.the.quux.of.all", "tasks can read it"),
            ("textinputformat.record.delimeter", "did you mean textinputformat.record.delimiter?"),
            ("mapreduce.map.java.opts", "no effect"),
            ("yarn.nodemanager.aux-services", "no effect"),
            ("stream.map.input", "for streaming jobs"),
        ] {
            let verdict = judged(name, "text");
            assert!(
                matches!(&verdict, Verdict::Warning(text) if text.contains(part)),
                "{verdict:?}"
            );
        }
        assert_eq!(judged("my.own", "1"), Verdict::Fine);
        assert_eq!(present_name("mapred.reduce.tasks"), "mapreduce.job.reduces");
        assert_eq!(present_name("yarn.x"), "yarn.x");
        assert_eq!(former_names("mapreduce.job.name"), ["mapred.job.name"]);
    }
}
