//! `hanno dfs`: Hadoop's file system shell.
//!
//! [`commands`] is the entire shell: tables with the name, options, help and function of each command. [`args`] parses arguments, because Hadoop's options have
//! one dash and many letters. Every operand is processed even if one fails; each failure is one line on standard error, and the exit code is then 1.

mod args;
mod command;
mod commands;
mod contents;
mod context;
mod fs;
mod help;
mod listing;
mod namespace;
mod properties;
mod target;

pub(crate) use self::fs::{Failure, Problem, Resolver};
pub(crate) use self::help::outline;
pub(crate) use self::properties::size;

use std::ffi::OsString;

use client::ClientConfig;
use client::dfs::DfsClient;
use client::site::SiteError;
use protocol::DfsPath;
use protocol::address::{FileSystem, Site, Typed};

use self::args::{Format, Parsed};
use self::command::Command;
use self::commands::{named, nearest, replacement};
use self::context::Context;
use self::fs::{Named, Store};
use self::properties::Properties;
use crate::connect::{self, Overrides};
use crate::generic;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, report_text};

/// Runs the command line after `dfs` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let mut parsed = Parsed::default();
    let rest = match args::generic(arguments, &mut parsed) {
        Ok(rest) => rest,
        Err(error) => {
            report!("{error}");
            return EXIT_USAGE;
        }
    };
    let Some((typed, rest)) = rest.split_first() else {
        report_text!("{}", help::general());
        return EXIT_USAGE;
    };
    let typed = typed.to_string_lossy();
    let name = typed.strip_prefix('-').unwrap_or(&typed);
    if let "help" | "usage" | "-help" | "h" = name {
        return match help::print(rest, name != "usage") {
            Ok(true) | Err(Failure::ReaderLeft) => EXIT_OK,
            Ok(false) => EXIT_USAGE,
            Err(failure) => {
                report!("{name}: {failure}");
                EXIT_FAILED
            }
        };
    }
    let Some(command) = named(name) else {
        report!("{typed}: Unknown command");
        if let Some(near) = nearest(name) {
            report!("Did you mean -{near}?");
        }
        report_text!("{}", help::general());
        return EXIT_USAGE;
    };
    if let Some(instead) = replacement(command.name) {
        report!("{}: DEPRECATED: Please use '{instead}' instead.", command.name);
    }
    if let [only] = rest
        && only == "--help"
    {
        return run(&["-help".into(), command.name.into()], overrides);
    }
    let format = Format {
        options: command.options,
        min: command.min,
        max: command.max,
        unknown_is_operand: matches!(command.name, "chmod" | "find"),
    };
    if let Err(error) = args::parse(rest, &format, &mut parsed) {
        return usage_error(command, &error.to_string());
    }
    if parsed.has("json") {
        crate::output::only_json();
    }
    let context = match context(command, parsed, overrides) {
        Ok(context) => context,
        Err(failure) => return end(command, Err(failure), false),
    };
    let outcome = (command.run)(&context);
    end(command, outcome, context.has_failed())
}

fn end(command: &Command, outcome: Result<(), Failure>, has_failed: bool) -> u8 {
    match outcome {
        Ok(()) if !has_failed => EXIT_OK,
        Ok(()) => EXIT_FAILED,
        Err(Failure::ReaderLeft) => EXIT_OK,
        Err(failure @ Failure::Usage(_)) => usage_error(command, &failure.to_string()),
        Err(failure @ Failure::Value(_)) => {
            report!("{}: {failure}", command.name);
            EXIT_USAGE
        }
        Err(failure) => {
            report!("{}: {failure}", command.name);
            EXIT_FAILED
        }
    }
}

fn usage_error(command: &Command, text: &str) -> u8 {
    report!("-{}: {text}", command.name);
    report!("{}", help::usage(command));
    EXIT_USAGE
}

/// Finds the NameNode: named by `-fs` or `fs.defaultFS`, else by a path, else configured.
fn context(
    command: &'static Command,
    parsed: Parsed,
    overrides: &Overrides,
) -> Result<Context, Failure> {
    let wrong = |error: anyhow::Error| Failure::Text(connect::describe(error.as_ref()));
    // What the configuration names as the file system is only the default, as our own configuration's is.
    let configured = overrides.site.iter().filter(|(name, _)| !generic::names_file_system(name));
    let mut of_files: Vec<_> = configured.cloned().collect();
    of_files.extend(generic::properties_of(&parsed.files).map_err(|error| match error {
        SiteError::Read { path, source } => Failure::local(path, &source),
        error => Failure::Text(error.to_string()),
    })?);
    let warn = |name: &str| connect::warn_unused(&format!("property {name}"));
    let properties = Properties::new(&of_files, &parsed.properties, warn)?;
    parsed.unused.iter().for_each(|option| connect::warn_unused(option));
    let of_property = || properties.file_system.clone().map(|text| ("fs.defaultFS", text));
    let named = parsed.file_system.clone().map(|text| ("-fs", text)).or_else(of_property);
    let is_named = named.is_some() || overrides.namenode.is_some();
    let file_system = named.or(overrides.file_system.clone());
    let overrides = Overrides { file_system, ..overrides.clone() };
    let (mut config, file_system) = overrides.resolved().map_err(wrong)?;
    config.short_circuit = properties.short_circuit.or(config.short_circuit);
    // The file system is text, whatever follows it.
    let operands: Vec<_> =
        parsed.operands.iter().map(|operand| operand.to_string_lossy()).collect();
    let operands = || operands.iter().map(|operand| &**operand);
    let (config, site) = match file_system {
        FileSystem::Machine => (config.clone(), config.site().with_machine_default()),
        _ if is_named => (config.clone(), config.site()),
        _ => named_by_path(config, operands())?,
    };
    let names_machine = operands().any(|operand| Typed::new(operand).is_of_machine());
    let store = Store::new(config, parsed.has("ignoreCrc"));
    if file_system != FileSystem::Machine && !names_machine {
        // Otherwise the first path of the cluster makes first contact, if there is one.
        store.client()?;
    }
    let resolver = Resolver::new(&store.user(), site);
    Ok(Context::new(command.name, store, resolver, parsed, properties))
}

/// Uses the NameNode that the first path with an address names. If that is not the configured one, plain paths are refused: they belong to the other.
fn named_by_path<'a>(
    mut config: ClientConfig,
    mut operands: impl Iterator<Item = &'a str>,
) -> Result<(ClientConfig, Site), Failure> {
    let Some(named) = operands.find_map(|operand| Typed::new(operand).namenode()) else {
        let site = config.site();
        return Ok((config, site));
    };
    let configured = config.namenode.clone();
    if configured.as_deref() != Some(&named) {
        let set = config.set_namenode("the path's address", &named);
        set.map_err(|error| Failure::Text(error.to_string()))?;
    }
    let site = config.site().with_default_elsewhere(configured.as_deref());
    Ok((config, site))
}

/// The paths of the cluster, as typed, that an operand of another command names: all matches of a pattern, or itself.
pub(crate) fn expand(
    client: &DfsClient,
    resolver: &Resolver,
    operand: &str,
) -> Result<Vec<(String, DfsPath)>, Failure> {
    let (store, resolver) = (Store::of(client), resolver.clone());
    let context = Context::new("", store, resolver, Parsed::default(), Properties::default());
    let named = context.expand_any(&operand.into())?;
    let path = |named: Named| Ok((named.typed.clone(), context.resolver.cluster_only(&named)?));
    named.into_iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::commands::all;
    use super::*;

    #[test]
    fn commands_are_sorted_and_usages_name_them() {
        let names: Vec<&str> = all().iter().map(|command| command.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let put = named("put").unwrap();
        assert!(help::usage(put).starts_with("Usage: hadoop fs [generic options] -put [-f]"));
        let general = help::general();
        assert!(all().iter().all(|c| c.deprecated != general.contains(&format!("\t[-{}", c.name))));
    }

    /// Hadoop 3.4's own list.
    #[test]
    fn every_command_of_hadoops_is_here() {
        let names = "appendToFile cat checksum chgrp chmod chown concat copyFromLocal copyToLocal count cp createSnapshot deleteSnapshot df du \
                     dus expunge find get getfacl getfattr getmerge head ls lsr mkdir moveFromLocal moveToLocal mv put renameSnapshot rm rmdir \
                     rmr setfacl setfattr setrep stat tail test text touch touchz truncate";
        let found: Vec<&str> = all().iter().map(|command| command.name).collect();
        let mut names: Vec<&str> = names.split_whitespace().collect();
        names.sort_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(found, names);
    }

    /// An option of a table that no code beside it reads would be accepted without effect.
    #[test]
    fn every_option_of_the_table_is_asked_for() {
        for (folder, tables) in commands::ROOMS {
            assert_options_are_asked_for(folder, tables);
        }
    }

    fn assert_options_are_asked_for(folder: &str, tables: &[&[Command]]) {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dfs");
        // What this file asks for, it asks for all commands.
        let own = std::fs::read_to_string(home.join("mod.rs")).unwrap();
        let own = own.split("#[cfg(test)]").next().unwrap().to_owned();
        let sources = sources(&home.join(folder)) + &own;
        let is_asked = |name: &str| {
            // `-test` matches on their letters.
            let letters = [format!("'{name}' =>"), format!("'{name}') =>")];
            let asks = [format!("has(\"{name}\")"), format!("value(\"{name}\")")];
            let asks = [asks, letters].concat();
            // The table itself says `value("t")`, too.
            let in_table = [format!("[value(\"{name}\")"), format!(", value(\"{name}\")")];
            sources.lines().any(|line| {
                asks.iter().any(|ask| line.contains(ask))
                    && !in_table.iter().any(|entry| line.contains(entry))
            })
        };
        for command in tables.iter().flat_map(|table| table.iter()) {
            for option in command.options {
                if option.is_met {
                    let told = command.about.contains(&format!("-{}", option.name));
                    assert!(told, "-{} -{}", command.name, option.name);
                    continue;
                }
                assert!(is_asked(option.name), "-{} -{}", command.name, option.name);
            }
        }
        assert!(!is_asked("nosuchoption"));
    }

    fn sources(directory: &Path) -> String {
        let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let texts = paths.map(|path| match path.is_dir() {
            true => sources(&path),
            false => std::fs::read_to_string(path).unwrap(),
        });
        texts.collect()
    }

    #[test]
    fn usage_errors_are_255() {
        let overrides = Overrides::default();
        for words in
            [&[][..], &["foo"], &["-ls", "-z"], &["mkdir"], &["-touchz"], &["-D", "x", "-ls"]]
        {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &overrides), EXIT_USAGE, "{words:?}");
        }
    }

    #[test]
    fn plain_paths_never_follow_the_address_of_another() {
        let config = || ClientConfig {
            namenode: Some("http://mine:1".to_owned()),
            ..ClientConfig::default()
        };
        for (operands, called, plain) in [
            (&["/a", "hanno://mine:1/x"][..], "mine:1", true),
            (&["/a", "b"], "mine:1", true),
            (&["/a", "webhdfs://other:1/x"], "other:1", false),
            (&["hanno://other:1/x", "webhdfs://mine:1/y"], "other:1", false),
        ] {
            let (config, site) = named_by_path(config(), operands.iter().copied()).unwrap();
            assert_eq!(config.namenode.unwrap(), format!("http://{called}"));
            for path in ["/a", "a", "hdfs:///a"] {
                assert_eq!(site.locate(path).is_ok(), plain, "{operands:?} {path}");
            }
            assert!(site.locate(&format!("webhdfs://{called}/a")).is_ok());
        }
        let (_, site) =
            named_by_path(ClientConfig::default(), ["hanno://o:1/x"].into_iter()).unwrap();
        assert!(site.locate("/a").is_err());
    }
}
