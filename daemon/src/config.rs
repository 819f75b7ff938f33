//! Configuration of a daemon: a TOML file, overridden by environment variables, into one typed struct.
//!
//! A variable `HANNO_<DAEMON>_<KEY>` (upper case) overrides the key of the same name; its value is read as TOML if it parses,
//! else as a string.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::ConfigError;

/// Reads the configuration of `daemon` (e.g. `namenode`). The keys known are those of `T::default()` and `optional`,
/// fields that are absent from it.
///
/// # Errors
/// [`ConfigError`] names file, key and remedy.
pub fn load<T>(path: &Path, daemon: &str, optional: &[&str]) -> Result<T, ConfigError>
where
    T: Serialize + DeserializeOwned + Default,
{
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let variables = env::vars().collect::<Vec<_>>();
    parse(&text, path, daemon, optional, &variables)
}

/// As [`load`], without a file: the defaults, overridden by variables.
///
/// # Errors
/// As [`load`].
pub fn load_without_file<T>(daemon: &str, optional: &[&str]) -> Result<T, ConfigError>
where
    T: Serialize + DeserializeOwned + Default,
{
    let variables = env::vars().collect::<Vec<_>>();
    parse("", Path::new("(no file)"), daemon, optional, &variables)
}

pub(crate) fn parse<T>(
    text: &str,
    path: &Path,
    daemon: &str,
    optional: &[&str],
    variables: &[(String, String)],
) -> Result<T, ConfigError>
where
    T: Serialize + DeserializeOwned + Default,
{
    let syntax = |error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        reason: one_line(&error),
    };
    let mut table: Table = toml::from_str(text).map_err(syntax)?;
    let defaults =
        Table::try_from(T::default()).expect("a configuration struct is a table of plain values");
    let known = |key: &str| defaults.contains_key(key) || optional.contains(&key);
    let unknown = |path: &Path, key: &str| {
        let names = defaults.keys().map(String::as_str).chain(optional.iter().copied());
        let nearest = protocol::property::nearest(key, names).map(str::to_owned);
        ConfigError::UnknownKey { path: path.to_owned(), key: key.to_owned(), nearest }
    };
    if let Some(key) = table.keys().find(|key| !known(key)) {
        return Err(unknown(path, key));
    }
    let prefix = format!("HANNO_{}_", daemon.to_uppercase());
    for (name, value) in variables {
        let Some(key) = name.strip_prefix(&prefix).map(str::to_lowercase) else { continue };
        if !known(&key) {
            return Err(unknown(&PathBuf::from(format!("${name}")), &key));
        }
        let value = toml::from_str::<Table>(&format!("v = {value}"))
            .ok()
            .and_then(|mut table| table.remove("v"));
        table.insert(key, value.unwrap_or_else(|| Value::String(env_text(name, variables))));
    }
    table
        .try_into()
        .map_err(|error| ConfigError::Value { path: path.to_owned(), reason: one_line(&error) })
}

fn env_text(name: &str, variables: &[(String, String)]) -> String {
    variables
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

fn one_line(error: &toml::de::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        bind: String,
        heartbeat_ms: u64,
        rack: Option<String>,
    }

    impl Default for Sample {
        fn default() -> Self {
            Sample { bind: "127.0.0.1:0".to_owned(), heartbeat_ms: 3000, rack: None }
        }
    }

    fn sample(text: &str, variables: &[(&str, &str)]) -> Result<Sample, String> {
        let variables: Vec<_> =
            variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        parse(text, Path::new("x.toml"), "datanode", &["rack"], &variables)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn file_then_variables_over_defaults() {
        let variables = [
            ("HANNO_DATANODE_HEARTBEAT_MS", "200"),
            ("HANNO_DATANODE_BIND", "[::1]:5"),
            ("OTHER", "1"),
        ];
        let config = sample("rack = \"/r1\"\nbind = \"a:1\"", &variables).unwrap();
        assert_eq!(
            config,
            Sample { bind: "[::1]:5".to_owned(), heartbeat_ms: 200, rack: Some("/r1".to_owned()) }
        );
        assert_eq!(sample("", &[]).unwrap(), Sample::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, variables, message) in [
            (
                "hartbeat_ms = 1",
                &[][..],
                "x.toml: unknown key `hartbeat_ms`; did you mean `heartbeat_ms`?",
            ),
            ("zzz = 1", &[], "x.toml: unknown key `zzz`"),
            (
                "",
                &[("HANNO_DATANODE_RAK", "1")],
                "$HANNO_DATANODE_RAK: unknown key `rak`; did you mean `rack`?",
            ),
        ] {
            assert_eq!(sample(text, variables).unwrap_err(), message);
        }
        assert!(sample("heartbeat_ms = \"soon\"", &[]).unwrap_err().contains("heartbeat_ms"));
        assert!(
            sample("heartbeat_ms =", &[])
                .unwrap_err()
                .starts_with("x.toml: TOML parse error at line 1")
        );
    }
}
