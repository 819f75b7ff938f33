//! Commands about the NameNode itself: safe mode, its image and log, files being written.

use std::thread;
use std::time::Duration;

use protocol::namenode::{Call, Reply, SafeModeAction};

use super::{Command, MANY, Session, unexpected};
use crate::dfs::Failure;
use crate::output::say;

/// Pause between looks of `safemode wait`.
const WAIT_PAUSE: Duration = Duration::from_millis(200);

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "safemode", arguments: "<enter | leave | get | wait | forceExit>", about: "Safe mode maintenance command. In safe mode the NameNode does not accept changes to the name space and does\nnot replicate or delete blocks. Safe mode is entered at start-up and left when enough blocks are reported; it\ncan also be entered and left manually. wait returns when it is off.", words: (1, 1), run: safe_mode },
    Command { name: "saveNamespace", arguments: "[-beforeShutdown]", about: "Save the name space as an image now. Requires safe mode.", words: (0, 1), run: save_namespace },
    Command { name: "rollEdits", arguments: "", about: "Begin a new segment of the edit log.", words: (0, 0), run: roll_edits },
    Command { name: "finalizeUpgrade", arguments: "", about: "Finalize upgrade of HDFS. Formats are upgraded as they are read here, so nothing is left to finalize.", words: (0, 0), run: finalize_upgrade },
    Command { name: "metasave", arguments: "filename", about: "Save the NameNode's primary data structures to <filename> in its log directory (logs in its data directory).\n<filename> is overwritten if it exists.", words: (1, 1), run: metasave },
    Command { name: "listOpenFiles", arguments: "[-blockingDecommission] [-path <path>]", about: "List all open files with who writes them, or those below a path.", words: (0, MANY), run: list_open_files },
];

/// What `safemode` is told.
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
    session.call(Call::SaveNamespace)?;
    say!("Save namespace successful");
    Ok(())
}

fn roll_edits(session: &Session, _: &[String]) -> Result<(), Failure> {
    let Reply::Number(txid) = session.call(Call::RollEdits)? else { return Err(unexpected()) };
    say!("Successfully rolled edit logs.\nNew segment starts at txid {txid}");
    Ok(())
}

fn finalize_upgrade(session: &Session, _: &[String]) -> Result<(), Failure> {
    session.call(Call::ClusterStatus)?;
    say!("Finalize upgrade successful");
    Ok(())
}

fn metasave(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.call(Call::Metasave(words[0].clone()))?;
    say!(
        "Created metasave file {} in the log directory of namenode hdfs://{}",
        words[0],
        session.authority()
    );
    Ok(())
}

fn list_open_files(session: &Session, words: &[String]) -> Result<(), Failure> {
    let mut path = session.resolver.resolve("/")?.path;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            // Nothing that is written keeps a node from being decommissioned here: its last block is moved when it is complete.
            "-blockingDecommission" => {}
            "-path" => {
                let text = words.next().ok_or_else(|| Failure::Usage(String::new()))?;
                path = session.resolver.resolve(text)?.path;
            }
            _ => return Err(Failure::Usage(String::new())),
        }
    }
    say!("{:<20}\t{:<34}\tOpen File Path", "Client Host", "Client Name");
    let mut after = None;
    loop {
        let Reply::OpenFiles { files, next } = session.call(Call::OpenFiles { after })? else {
            return Err(unexpected());
        };
        for file in files.iter().filter(|file| file.path.starts_with(&path)) {
            say!("{:<20}\t{:<34}\t{}", file.host, file.client.to_string(), file.path);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
