//! `hanno admin token`: delegation tokens for foreign clients, in the form that each of them takes.
//!
//! A token is a permission: it goes to standard output or into a file that only its owner can read, never into a log.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use protocol::address::authority_of;
use protocol::delegation::{Call, Reply, Request, TokenInfo, VERSION};
use transport::rpc::{CallOptions, RpcClient, now_ms, runtime};
use webhdfs::token::hadoop_file;

use crate::connect::{self, Overrides};
use crate::output::{EXIT_FAILED, EXIT_OK, report, say};
use crate::reference::Outline;

/// The path of the NameNode's service.
const TARGET: &str = "/rpc/tokens";
/// How long a fetched token is valid unless renewed, as HDFS's are.
const FETCHED_LIFETIME: Duration = Duration::from_secs(86_400);
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Shown by `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  hanno admin token
  hanno admin token --user etl --lifetime 7d --format hadoop-file --output etl.token
  curl -K <(hanno admin token --format curl) \"http://127.0.0.1:9870/webhdfs/v1/?op=LISTSTATUS\"
  hanno admin token list
  hanno admin token cancel 1234567";

/// Arguments of `hanno admin token`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: Option<TokenCommand>,
    /// Whom its holder acts as; default: you
    #[arg(long)]
    user: Option<String>,
    /// Who may renew it over WebHDFS; default: its user
    #[arg(long)]
    renewer: Option<String>,
    /// How long it is good unless it is renewed, e.g. 90s, 30m, 12h, 7d; at most seven days
    #[arg(long, default_value = "1d", value_parser = lifetime)]
    lifetime: Duration,
    /// What is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write it into this file, which only you can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Commands of `hanno admin token`.
#[derive(Subcommand)]
enum TokenCommand {
    /// Show the tokens that are good: number, user, renewer, end
    List,
    /// Make a token good for another day, within seven days of its beginning
    Renew {
        /// The token
        token: String,
    },
    /// End a token
    Cancel {
        /// The token, or its number in the list
        token: String,
    },
}

/// The forms of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// The token: for `delegation=`, HdfsCLI, fsspec, OpenDAL
    Text,
    /// A file for `curl -K`
    Curl,
    /// Lines for `eval` in a shell: HANNO_WEBHDFS and HANNO_TOKEN
    Env,
    /// A file for HADOOP_TOKEN_FILE_LOCATION: Hadoop's programs, Spark
    HadoopFile,
}

/// Runs a command and returns the exit code.
pub(crate) fn run(args: &TokenArgs, overrides: &Overrides) -> Result<u8> {
    let config = overrides.config()?;
    let rpc = connect::namenode(&config)?;
    match &args.command {
        None => issue(&rpc, args, &config.user())?,
        Some(TokenCommand::List) => list(&rpc)?,
        Some(TokenCommand::Renew { token }) => match ask(&rpc, Call::Renew(token.clone()))? {
            Reply::Until(until_ms) => say!("good until {}", time(until_ms)),
            _ => bail!(UNEXPECTED),
        },
        Some(TokenCommand::Cancel { token }) => {
            let call = match token.parse() {
                Ok(number) => Call::CancelNumber(number),
                Err(_) => Call::Cancel(token.clone()),
            };
            ask(&rpc, call)?;
        }
    }
    Ok(EXIT_OK)
}

/// `hdfs fetchdt`: a token in a file for Hadoop's programs.
pub(crate) fn fetch(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let wanted = crate::generic::generic(arguments, overrides)
        .and_then(|(words, overrides)| Ok((fetch_args(&words)?, overrides)));
    let (args, overrides) = match wanted {
        Ok(wanted) => wanted,
        Err(text) => {
            report!("fetchdt: {text}\n{FETCH_USAGE}");
            return EXIT_FAILED;
        }
    };
    run(&args, &overrides).unwrap_or_else(|error| {
        report!("fetchdt: {}", connect::describe(error.as_ref()));
        EXIT_FAILED
    })
}

/// The options of `fetchdt` for completions and the manual page.
pub(crate) fn fetch_outline() -> Outline {
    Outline::with_options(FETCH_USAGE)
}

const FETCH_USAGE: &str = "Usage: hdfs fetchdt [--renewer <name>] <token file>";

fn fetch_args(words: &[String]) -> Result<TokenArgs, String> {
    let (mut renewer, mut output) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.trim_start_matches('-') {
            "renewer" => renewer = Some(words.next().ok_or("--renewer needs a name")?.clone()),
            "print" => {
                return Err(
                    "--print is not supported: `hanno admin token list` shows tokens".to_owned()
                );
            }
            "renew" => {
                return Err(
                    "--renew is not supported: `hanno admin token renew TOKEN` does it".to_owned()
                );
            }
            "cancel" => {
                return Err("--cancel is not supported: `hanno admin token cancel NUMBER` does it"
                    .to_owned());
            }
            "webservice" => {
                return Err("--webservice is not supported: -fs names the NameNode".to_owned());
            }
            _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
            _ if output.is_some() => return Err(format!("{word}: it takes one file")),
            _ => output = Some(PathBuf::from(word)),
        }
    }
    let output = Some(output.ok_or("must specify exactly one token file")?);
    let (command, user, lifetime) = (None, None, FETCHED_LIFETIME);
    Ok(TokenArgs { command, user, renewer, lifetime, format: Format::HadoopFile, output })
}

const UNEXPECTED: &str = "the NameNode is of another version";

fn ask(rpc: &RpcClient, body: Call) -> Result<Reply> {
    let request = Request { version: VERSION, body };
    Ok(runtime().block_on(rpc.call(TARGET, &request, CallOptions::once(ANSWER_MAX)))?)
}

fn issue(rpc: &RpcClient, args: &TokenArgs, own: &str) -> Result<()> {
    if args.format == Format::HadoopFile && args.output.is_none() && io::stdout().is_terminal() {
        bail!("a file for Hadoop is no text: give --output FILE");
    }
    let owner = args.user.clone().unwrap_or_else(|| own.to_owned());
    let renewer = args.renewer.clone().unwrap_or_else(|| owner.clone());
    let authority = authority_of(rpc.base()).to_owned();
    let lifetime_ms = u64::try_from(args.lifetime.as_millis()).unwrap_or(u64::MAX);
    let service = authority.clone();
    let Reply::Token(token) = ask(rpc, Call::Issue { owner, renewer, service, lifetime_ms })?
    else {
        bail!(UNEXPECTED);
    };
    let bytes = match args.format {
        Format::Text => format!("{token}\n").into_bytes(),
        Format::Curl => format!("url-query = \"delegation={token}\"\n").into_bytes(),
        Format::Env => {
            let address = rpc.base();
            format!("export HANNO_WEBHDFS={address}\nexport HANNO_TOKEN={token}\n").into_bytes()
        }
        Format::HadoopFile => hadoop_file::encode(&token, &services(&authority))?,
    };
    match &args.output {
        Some(path) => write(path, &bytes),
        None => {
            let written = crate::output::out().write_all(&bytes);
            crate::output::unless_reader_left(written).context("cannot write the token")?;
            Ok(())
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    sys::fs::write_output(path, 0o600, bytes)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The addresses under which Java's client may look up the token: as written, and each address of the name.
fn services(authority: &str) -> Vec<String> {
    let mut services = vec![authority.to_owned()];
    for address in authority.to_socket_addrs().into_iter().flatten() {
        let text = format!("{}:{}", address.ip(), address.port());
        if !services.contains(&text) {
            services.push(text);
        }
    }
    services
}

fn list(rpc: &RpcClient) -> Result<()> {
    let Reply::Tokens(tokens) = ask(rpc, Call::List)? else { bail!(UNEXPECTED) };
    say!("{:>10}  {:<20} {:<20} {:<20} LONGEST", "NUMBER", "USER", "RENEWER", "UNTIL");
    for TokenInfo { number, owner, renewer, expires_ms, last_ms, .. } in tokens {
        let (until, last) = (time(expires_ms), time(last_ms.max(expires_ms)));
        say!("{number:>10}  {owner:<20} {renewer:<20} {until:<20} {last}");
    }
    Ok(())
}

/// UTC, to the second.
fn time(at_ms: u64) -> String {
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(at_ms) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => format!("{} s from now", at_ms / 1000 - now_ms().cast_signed() / 1000),
    }
}

/// A number with `s`, `m`, `h` or `d`.
fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time like 90s, 30m, 12h or 7d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text.strip_suffix(unit).and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    let seconds = count.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_through_a_link_or_a_fifo_and_leaves_it_there() {
        let place = tempfile::tempdir().unwrap();
        let path = |name| place.path().join(name);
        std::os::unix::fs::symlink(path("kept"), path("link")).unwrap();
        write(&path("link"), b"token").unwrap();
        assert!(path("link").is_symlink());
        assert_eq!(std::fs::read(path("kept")).unwrap(), b"token");
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let fifo = path("fifo");
            move || std::fs::read(fifo).unwrap()
        });
        write(&path("fifo"), b"token").unwrap();
        assert_eq!(reader.join().unwrap(), b"token");
    }

    #[test]
    fn lifetimes_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "d", "0s", "-1d", "1.5h", "7 d", "7w", "99999999999999999999d", "ü"]
        {
            assert!(lifetime(text).unwrap_err().contains("is no time"), "{text}");
        }
        assert!(lifetime("18446744073709551615d").is_err());
    }

    #[test]
    fn a_name_stands_for_all_its_addresses() {
        assert_eq!(services("127.0.0.1:9870"), ["127.0.0.1:9870"]);
        let found = services("localhost:9870");
        assert_eq!(found[0], "localhost:9870");
        assert!(found.contains(&"127.0.0.1:9870".to_owned()), "{found:?}");
        assert_eq!(services("no such host:1"), ["no such host:1"]);
    }
}
