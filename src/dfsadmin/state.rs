//! Commands about the NameNode itself: safe mode, its image and log, files being written.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use protocol::namenode::{ImagePiece, OpenFile, OpenFilePage, SafeModeAction, calls};

use super::session::{Command, MANY, Session};
use crate::dfs::Failure;
use crate::output::say;

/// An image names every file: only the user who fetched it may read it.
const IMAGE_MODE: u32 = 0o600;
/// Pause between checks of `safemode wait`.
const WAIT_PAUSE: Duration = Duration::from_millis(200);

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "safemode", arguments: "enter | leave | get | wait | forceExit", about: "Safe mode maintenance command. In safe mode the NameNode does not accept changes to the name space and does\nnot replicate or delete blocks. Safe mode is entered at start-up and left when enough blocks are reported; it\ncan also be entered and left manually. wait returns when it is off.", words: (1, 1), run: safe_mode },
    Command { name: "saveNamespace", arguments: "[-beforeShutdown]", about: "Save the name space as an image now. Requires safe mode.", words: (0, 1), run: save_namespace },
    Command { name: "rollEdits", arguments: "", about: "Begin a new segment of the edit log.", words: (0, 0), run: roll_edits },
    Command { name: "finalizeUpgrade", arguments: "", about: "Finalize upgrade of HDFS. Formats are upgraded as they are read here, so nothing is left to finalize.", words: (0, 0), run: finalize_upgrade },
    Command { name: "upgrade", arguments: "query | finalize", about: "Tell or finalize an upgrade of HDFS. Formats are upgraded as they are read here, so there is nothing to finalize.", words: (1, 1), run: upgrade },
    Command { name: "rollingUpgrade", arguments: "[<query|prepare|finalize>]", about: "Tell of a rolling upgrade. There are none here: daemons of one version run together (docs/operations.md), and\nprepare is refused.", words: (0, 1), run: rolling_upgrade },
    Command { name: "restoreFailedStorage", arguments: "true|false|check", about: "Tell whether directories that were left out of log_dirs are taken back while the NameNode runs. They are not,\nbut at its next start: true is refused.", words: (1, 1), run: restore_failed_storage },
    Command { name: "refreshUserToGroupsMappings", arguments: "", about: "Have the NameNode ask again which groups users belong to.", words: (0, 0), run: refresh_groups },
    Command { name: "metasave", arguments: "filename", about: "Save the NameNode's primary data structures to <filename> in its log directory (logs in its data directory).\n<filename> is overwritten if it exists.", words: (1, 1), run: metasave },
    Command { name: "fetchImage", arguments: "<local directory>", about: "Downloads the most recent image of the name space from the NameNode and saves it in the specified local directory.", words: (1, 1), run: fetch_image },
    Command { name: "listOpenFiles", arguments: "[-blockingDecommission] [-path <path>]", about: "List all open files with who writes them, or those below a path. With -blockingDecommission, only those that DataNodes on\ntheir way out of service wait for.", words: (0, MANY), run: list_open_files },
];

/// Runs `safemode` with its action.
pub(crate) fn safe_mode(session: &Session, words: &[String]) -> Result<(), Failure> {
    let set = |action| session.client.safe_mode(action).map_err(|error| super::refused(&error));
    let is_on = match words[0].to_ascii_lowercase().as_str() {
        "get" => set(SafeModeAction::Get)?,
        "enter" => set(SafeModeAction::Enter)?,
        "leave" => set(SafeModeAction::Leave)?,
        "forceexit" => set(SafeModeAction::ForceLeave)?,
        "wait" => {
            while set(SafeModeAction::Get)? {
                thread::sleep(WAIT_PAUSE);
            }
            false
        }
        _ => return Err(Failure::Usage(String::new())),
    };
    say!("Safe mode is {}", if is_on { "ON" } else { "OFF" });
    Ok(())
}

fn save_namespace(session: &Session, words: &[String]) -> Result<(), Failure> {
    if words.iter().any(|word| word != "-beforeShutdown") {
        return Err(Failure::Usage(String::new()));
    }
    session.ask(calls::SaveNamespace)?;
    say!("Save namespace successful");
    Ok(())
}

fn roll_edits(session: &Session, _: &[String]) -> Result<(), Failure> {
    let txid = session.ask(calls::RollEdits)?;
    say!("Successfully rolled edit logs.\nNew segment starts at txid {txid}");
    Ok(())
}

fn finalize_upgrade(session: &Session, _: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    say!("Finalize upgrade successful");
    Ok(())
}

fn upgrade(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    match words[0].to_ascii_lowercase().as_str() {
        "query" => say!("Upgrade finalized"),
        "finalize" => say!("Finalize upgrade successful"),
        _ => return Err(Failure::Usage(String::new())),
    }
    Ok(())
}

fn rolling_upgrade(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    let action = words.first().map_or("query", String::as_str).to_ascii_uppercase();
    match action.as_str() {
        "QUERY" | "FINALIZE" => {
            say!("{action} rolling upgrade ...");
            say!(
                "There is no rolling upgrade in progress or rolling upgrade has already been finalized."
            );
            Ok(())
        }
        "PREPARE" => Err(Failure::Text(
            "rolling upgrades are not supported: stop the cluster, back up the metadata, replace the program, start again"
                .to_owned(),
        )),
        _ => Err(Failure::Usage(String::new())),
    }
}

fn restore_failed_storage(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    match words[0].to_ascii_lowercase().as_str() {
        "false" | "check" => {
            say!("restoreFailedStorage is set to false");
            Ok(())
        }
        "true" => Err(Failure::Text(
            "a directory of log_dirs that was left out is taken back at the next start of the NameNode, not while it runs"
                .to_owned(),
        )),
        _ => Err(Failure::Usage("valid args are true|false|check".to_owned())),
    }
}

fn refresh_groups(session: &Session, _: &[String]) -> Result<(), Failure> {
    session.ask(calls::RefreshGroups)?;
    say!("Refresh user to groups mapping successful");
    Ok(())
}

fn metasave(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.ask(calls::Metasave { name: words[0].clone() })?;
    say!(
        "Created metasave file {} in the log directory of namenode hdfs://{}",
        words[0],
        session.authority()
    );
    Ok(())
}

fn fetch_image(session: &Session, words: &[String]) -> Result<(), Failure> {
    let directory = Path::new(&words[0]);
    let failed = |error: io::Error| Failure::Text(format!("{}: {error}", directory.display()));
    let piece = |name: Option<String>, offset| session.ask(calls::ReadImage { name, offset });
    let ImagePiece { name, length, bytes: first } = piece(None, 0)?;
    if Path::new(&name).file_name() != Some(name.as_ref()) {
        return Err(Failure::Text(format!("the NameNode names its image `{name}'")));
    }
    let mut refusal = None;
    let written = sys::fs::write_output_with(&directory.join(&name), IMAGE_MODE, |file| {
        let (mut offset, mut bytes) = (0, first);
        while !bytes.is_empty() {
            file.write_all(&bytes)?;
            offset += bytes.len() as u64;
            bytes = match piece(Some(name.clone()), offset) {
                Ok(piece) => piece.bytes,
                Err(failure) => {
                    refusal = Some(failure);
                    return Err(io::ErrorKind::Other.into());
                }
            };
        }
        match offset == length {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    });
    match (refusal, written) {
        (Some(failure), _) => Err(failure),
        (None, written) => written.map_err(failed),
    }
}

fn list_open_files(session: &Session, words: &[String]) -> Result<(), Failure> {
    let mut path = session.resolver.cluster_path("/")?;
    let mut blocking = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-blockingDecommission" => blocking = true,
            "-path" => {
                let text = words.next().ok_or_else(|| Failure::Usage(String::new()))?;
                path = session.resolver.cluster_path(text)?;
            }
            _ => return Err(Failure::Usage(String::new())),
        }
    }
    say!("{:<20}\t{:<20}\tOpen File Path", "Client Host", "Client Name");
    let mut after = None;
    loop {
        let OpenFilePage { files, next } = session.ask(calls::OpenFiles { after })?;
        let wanted =
            |file: &&OpenFile| file.path.starts_with(&path) && (file.holds_drain || !blocking);
        for file in files.iter().filter(wanted) {
            say!("{:<20}\t{:<20}\t{}", file.host, file.client.to_string(), file.path);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
