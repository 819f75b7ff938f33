//! Hadoop's `aggregate` library: the key says how to combine its values.
//!
//! | a map prints | the reduce writes |
//! |---|---|
//! | `LongValueSum:k<TAB>n`, `LongValueMax:`, `LongValueMin:` | `k<TAB>` sum, largest, smallest |
//! | `DoubleValueSum:k<TAB>x` | `k<TAB>` sum, as Java prints it |
//! | `StringValueMax:k<TAB>s`, `StringValueMin:` | `k<TAB>` last, first in byte order |
//! | `UniqValueCount:k<TAB>s` | `k<TAB>` number of different values |
//! | `ValueHistogram:k<TAB>s[<TAB>n]` | `k<TAB>` distinct values, then smallest, median, largest, mean, deviation of their counts |

use std::collections::{BTreeMap, BTreeSet};

use mr_formats::writable::java_text;
use mr_model::{Error, Result};

/// The name of the library on a command line.
pub(super) const AGGREGATE: &str = "aggregate";

/// Most distinct values of one key; more are an error. Hadoop's default has no limit.
const UNIQUE_VALUES_MAX: usize = 10_000_000;

/// The values of one key so far.
#[derive(Debug)]
pub(super) enum Aggregate {
    LongSum(i64),
    LongMax(i64),
    LongMin(i64),
    DoubleSum(f64),
    StringMax(Option<Vec<u8>>),
    StringMin(Option<Vec<u8>>),
    Unique {
        values: BTreeSet<Vec<u8>>,
        /// Values beyond so many different ones are left out.
        most: Option<u32>,
    },
    Histogram(BTreeMap<Vec<u8>, u64>),
}

/// Splits `TYPE:name`; a `UniqValueCount` counts to `unique_max`, if there is one.
pub(super) fn begin(key: &[u8], unique_max: Option<u32>) -> Result<(Aggregate, &[u8]), Error> {
    let unknown = || Error::Aggregate { text: String::from_utf8_lossy(key).into_owned() };
    let colon = memchr::memchr(b':', key).ok_or_else(unknown)?;
    let aggregate = match &key[..colon] {
        b"LongValueSum" => Aggregate::LongSum(0),
        b"LongValueMax" => Aggregate::LongMax(i64::MIN),
        b"LongValueMin" => Aggregate::LongMin(i64::MAX),
        b"DoubleValueSum" => Aggregate::DoubleSum(0.0),
        b"StringValueMax" => Aggregate::StringMax(None),
        b"StringValueMin" => Aggregate::StringMin(None),
        b"UniqValueCount" => Aggregate::Unique { values: BTreeSet::new(), most: unique_max },
        b"ValueHistogram" => Aggregate::Histogram(BTreeMap::new()),
        _ => return Err(unknown()),
    };
    Ok((aggregate, &key[colon + 1..]))
}

impl Aggregate {
    pub(super) fn add(&mut self, value: &[u8]) -> Result<(), Error> {
        match self {
            Aggregate::LongSum(sum) => *sum = sum.wrapping_add(number(value)?),
            Aggregate::LongMax(max) => *max = (*max).max(number(value)?),
            Aggregate::LongMin(min) => *min = (*min).min(number(value)?),
            Aggregate::DoubleSum(sum) => *sum += number::<f64>(value)?,
            Aggregate::StringMax(max) => {
                if max.as_deref().is_none_or(|max| max < value) {
                    *max = Some(value.to_vec());
                }
            }
            Aggregate::StringMin(min) => {
                if min.as_deref().is_none_or(|min| min > value) {
                    *min = Some(value.to_vec());
                }
            }
            Aggregate::Unique { values, most } => {
                if most.is_some_and(|most| values.len() >= most as usize) {
                    return Ok(());
                }
                values.insert(value.to_vec());
                if values.len() > UNIQUE_VALUES_MAX {
                    return Err(Error::Aggregate { text: "too many different values".to_owned() });
                }
            }
            Aggregate::Histogram(counts) => {
                let (text, count) = match memchr::memrchr(b'\t', value) {
                    Some(tab) => (&value[..tab], number(&value[tab + 1..])?),
                    None => (value, 1),
                };
                *counts.entry(text.to_vec()).or_default() += count;
            }
        }
        Ok(())
    }

    /// Passes the values for another round of the same aggregation to `each`.
    pub(super) fn parts(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Aggregate::Unique { values, .. } => values.iter().try_for_each(|value| each(value)),
            Aggregate::Histogram(counts) => counts.iter().try_for_each(|(text, count)| {
                each(&[text, format!("\t{count}").as_bytes()].concat())
            }),
            _ => each(self.report().as_slice()),
        }
    }

    /// The result as text.
    pub(super) fn report(&self) -> Vec<u8> {
        match self {
            Aggregate::LongSum(n) | Aggregate::LongMax(n) | Aggregate::LongMin(n) => {
                n.to_string().into_bytes()
            }
            Aggregate::DoubleSum(sum) => java_text(*sum).into_bytes(),
            Aggregate::StringMax(text) | Aggregate::StringMin(text) => {
                text.clone().unwrap_or_default()
            }
            Aggregate::Unique { values, .. } => values.len().to_string().into_bytes(),
            Aggregate::Histogram(counts) => histogram(counts).into_bytes(),
        }
    }
}

fn histogram(counts: &BTreeMap<Vec<u8>, u64>) -> String {
    let mut numbers: Vec<u64> = counts.values().copied().collect();
    numbers.sort_unstable();
    let count = numbers.len();
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let mean = numbers.iter().sum::<u64>() as f64 / count.max(1) as f64;
    let square = |n: &u64| (*n as f64 - mean) * (*n as f64 - mean);
    let deviation = (numbers.iter().map(square).sum::<f64>() / count.max(1) as f64).sqrt();
    format!(
        "{count}\t{}\t{}\t{}\t{}\t{}",
        at(0),
        at(count / 2),
        at(count.saturating_sub(1)),
        java_text(mean),
        java_text(deviation)
    )
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Result<T, Error> {
    let text = String::from_utf8_lossy(value);
    text.trim().parse().map_err(|_| Error::Aggregate { text: text.clone().into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type() {
        for (kind, values, expected) in [
            ("LongValueSum", &["1", " 2", "-5"][..], "-2"),
            ("LongValueMax", &["1", "20", "3"], "20"),
            ("LongValueMin", &["1", "20", "-3"], "-3"),
            ("DoubleValueSum", &["1.5", "2"], "3.5"),
            ("DoubleValueSum", &["1.5e7"], "1.5E7"),
            ("DoubleValueSum", &["0.0001"], "1.0E-4"),
            ("DoubleValueSum", &["1e308", "1e308"], "Infinity"),
            ("StringValueMax", &["b", "c", "a"], "c"),
            ("StringValueMin", &["b", "c", "a"], "a"),
            ("UniqValueCount", &["b", "c", "b"], "2"),
            ("ValueHistogram", &["b", "c\t3", "b"], "2\t2\t3\t3\t2.5\t0.5"),
            ("ValueHistogram", &["b\t15000000"], "1\t15000000\t15000000\t15000000\t1.5E7\t0.0"),
        ] {
            let key = format!("{kind}:na:me");
            let (mut once, name) = begin(key.as_bytes(), None).unwrap();
            assert_eq!(name, b"na:me");
            let (mut twice, _) = begin(key.as_bytes(), None).unwrap();
            for value in values {
                once.add(value.as_bytes()).unwrap();
                let (mut part, _) = begin(key.as_bytes(), None).unwrap();
                part.add(value.as_bytes()).unwrap();
                part.parts(|part| Ok(twice.add(part)?)).unwrap();
            }
            assert_eq!(String::from_utf8(once.report()).unwrap(), expected, "{kind}");
            assert_eq!(twice.report(), once.report(), "{kind} combined");
        }
    }

    #[test]
    fn different_values_are_counted_to_the_limit_of_the_job() {
        let (mut count, _) = begin(b"UniqValueCount:x", Some(2)).unwrap();
        ["a", "a", "b", "c", "d"].iter().for_each(|value| count.add(value.as_bytes()).unwrap());
        assert_eq!(count.report(), b"2");
    }

    #[test]
    fn unknown_types_and_bad_numbers_are_named() {
        assert!(begin(b"word", None).unwrap_err().to_string().contains("word"));
        assert!(begin(b"Sum:x", None).is_err());
        let (mut sum, _) = begin(b"LongValueSum:x", None).unwrap();
        assert!(sum.add(b"one").unwrap_err().to_string().contains("one"));
    }
}
