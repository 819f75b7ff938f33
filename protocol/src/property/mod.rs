//! Properties of jobs: one table that says for each name what effect it has, and typed keys, which are the only way to read a value.
//!
//! Invariants: a name is in the table once, as a present or a former name; a value that its key cannot read is refused where the job is submitted; reading a
//! property takes its key, so nothing reads a property that no row calls honoured. `tests/tidy/` checks for names outside the table, and `docs/properties.md`
//! is the output of [`markdown`].

mod class;
mod nearest;
mod row;
mod table;
mod value;
mod variables;

#[cfg(test)]
mod tests;

use std::fmt::Write;

pub use class::{CodecClass, Comparator, Partitioner, is_class};
pub use nearest::nearest;
pub use row::{Class, Key, Properties, PropertyError, Row, Scope};
pub use table::{ROWS, keys};
pub use value::{
    Attempts, BaseName, BlockSize, Bound, CompressType, Count, Limit, Megabytes, MergeFactor,
    Millis, Most, PipeEncoding, Replicas, Share, Size, Umask, Value,
};

pub use variables::{BlankVariables, CommaVariables, Each};

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
        Class::Honoured { scope: of, culprit, wanted } => {
            let stands_for =
                row.name.strip_suffix('*').and_then(|start| name.strip_prefix(start)).unwrap_or("");
            match culprit(stands_for, value) {
                Some(culprit) => {
                    let (name, value) = (name.to_owned(), culprit.to_owned());
                    Verdict::Refusal(PropertyError { name, value, wanted }.to_string())
                }
                None if of == Scope::Streaming && scope == Scope::Jobs => Verdict::Warning(
                    format!("property {name} is for streaming jobs and has no effect here"),
                ),
                None => Verdict::Fine,
            }
        }
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

/// Prefixes of Hadoop's names: all first words of keys in its core-, hdfs-, mapred- and yarn-default.xml, of Streaming and of the `aggregate` library, those of
/// today and former ones.
const HADOOP_PREFIXES: [&str; 40] = [
    "adl.",
    "aggregate.",
    "aggregator.",
    "datanode.",
    "dfs.",
    "file.",
    "fs.",
    "ftp.",
    "ha.",
    "hadoop.",
    "hanno.",
    "heartbeat.",
    "httpfs.",
    "io.",
    "ipc.",
    "job.",
    "jobclient.",
    "key.value.",
    "kfs.",
    "map.",
    "mapred.",
    "mapreduce.",
    "net.",
    "nfs.",
    "nfs3.",
    "num.key.",
    "reduce.",
    "rpc.",
    "s3.",
    "s3native.",
    "security.",
    "seq.io.",
    "sequencefile.",
    "ssl.",
    "stream.",
    "textinputformat.",
    "tfile.",
    "topology.",
    "yarn.",
    "zlib.",
];
fn unknown(name: &str) -> Verdict {
    if !HADOOP_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Verdict::Fine;
    }
    let known = ROWS.iter().filter(|row| matches!(row.class, Class::Honoured { .. }));
    let names = known.flat_map(|row| [row.name].into_iter().chain(row.former.iter().copied()));
    let hint = match nearest(name, names) {
        Some(known) => format!("; did you mean {known}?"),
        None => "; tasks can read it".to_owned(),
    };
    Verdict::Warning(format!("property {name} is not known here{hint}"))
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
