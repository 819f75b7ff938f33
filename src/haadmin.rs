//! `hdfs haadmin`: which NameNode is active. There is one, and it is; several would be several rows of [`services`]. Exit code 0, or 255 for wrong usage and
//! failures alike.

use std::ffi::OsString;

use anyhow::{Result, bail};
use client::ClientConfig;
use protocol::address::{authority_of, is_same, url_of};
use protocol::auth::Role;
use transport::rpc::{RpcClient, runtime};

use crate::absent;
use crate::connect::{Overrides, describe, namenode_address};
use crate::generic::generic;
use crate::output::{EXIT_OK, EXIT_USAGE, report, report_text, say};
use crate::reference::{Outline, described};

const USAGE: &str = "\
Usage: hdfs haadmin COMMAND

  -getServiceState <serviceId>    print the state of a NameNode: active
  -getAllServiceState             print the states of all NameNodes
  -checkHealth <serviceId>        exit with 0 if a NameNode answers and its disks have room for metadata, else tell what is wrong
  -help [command]                 print this

There is one NameNode. Its serviceId is nn1, or the host:port of its HTTP address.
";

/// HDFS's name of the first NameNode.
const FIRST: &str = "nn1";

/// A NameNode that is configured.
struct Service {
    id: &'static str,
    /// Its HTTP address.
    authority: String,
}

/// What a NameNode says of itself.
struct Answer {
    state: &'static str,
    /// True if a disk of its metadata is nearly full: it refuses changes then.
    is_low_on_resources: bool,
}

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline { is_dash_optional: false, ..Outline::with_commands(USAGE) }
}

/// Runs the command line after `haadmin` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => return wrong(&text),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["-help" | "--help" | "-h"] => {
            say!("{}", USAGE.trim_end());
            EXIT_OK
        }
        ["-help", name] => help(name),
        ["-getServiceState", id] => ended(with(&overrides, id, |service| {
            say!("{}", service.ask()?.state);
            Ok(EXIT_OK)
        })),
        ["-checkHealth", id] => ended(with(&overrides, id, |service| {
            service.check()?;
            Ok(EXIT_OK)
        })),
        ["-getAllServiceState"] => ended(all_states(&overrides)),
        [command, ..]
            if absent::refuse("haadmin", command.trim_start_matches('-'), absent::HAADMIN) =>
        {
            EXIT_USAGE
        }
        [command @ ("-getServiceState" | "-checkHealth"), ..] => {
            wrong(&format!("{}: incorrect number of arguments", command.trim_start_matches('-')))
        }
        [command, ..] => wrong(&format!("{}: Unknown command", command.trim_start_matches('-'))),
        [] => {
            report_text!("{USAGE}");
            EXIT_USAGE
        }
    }
}

fn wrong(text: &str) -> u8 {
    report!("{text}");
    report_text!("{USAGE}");
    EXIT_USAGE
}

fn help(name: &str) -> u8 {
    let wanted = name.trim_start_matches('-');
    let is_wanted =
        |left: &str| left.split(' ').next().unwrap_or_default().trim_start_matches('-') == wanted;
    match described(USAGE).into_iter().find(|(left, _)| is_wanted(left)) {
        Some((left, about)) => {
            say!("{left}: {about}");
            EXIT_OK
        }
        None => wrong(&format!("{wanted}: Unknown command")),
    }
}

fn ended(done: Result<u8>) -> u8 {
    done.unwrap_or_else(|error| {
        report!("haadmin: {}", describe(error.as_ref()));
        EXIT_USAGE
    })
}

/// The NameNodes of a cluster.
fn services(config: &ClientConfig) -> Result<Vec<Service>> {
    let authority = authority_of(namenode_address(config)?).to_owned();
    Ok(vec![Service { id: FIRST, authority }])
}

/// Finds a NameNode by its id.
fn with(overrides: &Overrides, id: &str, then: impl FnOnce(&Service) -> Result<u8>) -> Result<u8> {
    let all = services(&overrides.config()?)?;
    match all.iter().find(|service| service.id == id || is_same(&service.authority, id)) {
        Some(service) => then(service),
        None => {
            let known = all.iter().map(|service| format!("{} ({})", service.id, service.authority));
            let known = known.collect::<Vec<_>>().join(", ");
            Ok(wrong(&format!("Illegal argument: there is no NameNode {id}; there is {known}")))
        }
    }
}

/// A NameNode that does not answer is told, and does not keep the others from being asked.
fn all_states(overrides: &Overrides) -> Result<u8> {
    let mut code = EXIT_OK;
    for service in services(&overrides.config()?)? {
        let state = match service.ask() {
            Ok(answer) => answer.state.to_owned(),
            Err(error) => {
                code = EXIT_USAGE;
                format!("Failed to connect: {}", describe(error.as_ref()))
            }
        };
        say!("{}", row(&service.authority, &state));
    }
    Ok(code)
}

/// Hadoop's columns.
fn row(authority: &str, state: &str) -> String {
    format!("{authority:<50} {state:<10}")
}

impl Service {
    fn ask(&self) -> Result<Answer> {
        let rpc = RpcClient::new(&url_of(&self.authority), Role::Client, None)?;
        let health = runtime().block_on(rpc.health())?.expect(&self.authority, "namenode")?;
        let low = health.more.get("resources_low").and_then(|low| low.as_bool());
        let Some(is_low_on_resources) = low else {
            bail!("{} is of another version", self.authority);
        };
        Ok(Answer { state: "active", is_low_on_resources })
    }

    /// Safe mode is no illness, as in HDFS: `hdfs dfsadmin -safemode get` tells of it.
    fn check(&self) -> Result<()> {
        if self.ask()?.is_low_on_resources {
            bail!(
                "{} has too little room for its metadata and refuses changes: free space on the disks of its data directory and log_dirs",
                self.id
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use transport::RpcError;

    use super::*;

    #[test]
    fn commands_are_known_refused_or_mistakes() {
        for (words, code) in [
            (&["-help"][..], EXIT_OK),
            (&["-help", "checkHealth"], EXIT_OK),
            (&["-help", "x"], EXIT_USAGE),
            (&[], EXIT_USAGE),
            (&["-getServiceState"], EXIT_USAGE),
            (&["getServiceState", "nn1"], EXIT_USAGE),
            (&["-failover", "nn1", "nn2"], EXIT_USAGE),
            (&["-ns", "x", "-getAllServiceState"], EXIT_USAGE),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &Overrides::default()), code, "{words:?}");
        }
    }

    /// Hadoop 3.4's own list.
    #[test]
    fn every_command_of_hadoops_is_here_or_told_to_be_absent() {
        let names = "transitionToActive transitionToStandby transitionToObserver failover getServiceState getAllServiceState checkHealth ns help";
        let here = described(USAGE);
        for name in names.split_whitespace() {
            let is_here =
                here.iter().any(|(left, _)| left.split(' ').next() == Some(&*format!("-{name}")));
            let is_absent = absent::HAADMIN.iter().any(|absent| absent.name == name);
            assert!(is_here != is_absent, "{name}");
        }
    }

    #[test]
    fn nobody_listening_is_told_in_the_row() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let service = Service { id: FIRST, authority: free.to_string() };
        let refused = service.ask().err().unwrap();
        assert!(
            matches!(refused.downcast_ref(), Some(RpcError::Unreachable { .. })),
            "{refused:?}"
        );
        let line = row("nn:9870", "active");
        assert_eq!(line, format!("nn:9870{}active    ", " ".repeat(44)));
    }
}
