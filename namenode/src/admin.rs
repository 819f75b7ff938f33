//! Operators' orders that do not involve the core: images, log segments, files to inspect, reports, lists of DataNodes.
//!
//! The table of calls says who can give them; none of them changes the name space.

use std::fmt::Write;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::datanode::Command;
use protocol::namenode::{Answer, Call, IMAGE_PIECE_BYTES, ImagePiece, TypedCall, calls};
use protocol::{DatanodeId, ErrorKind, RemoteError};

use crate::core::rights::Caller;
use crate::lists;
use crate::server::{Event, ended, stopping};
use crate::service::Service;

/// Only the operator can access these files.
const FILE_MODE: u32 = 0o600;
/// Suffix of the names of images.
const IMAGE_SUFFIX: &str = ".image";
/// Longest name of a file that [`Call::Metasave`] writes, bytes.
const NAME_BYTES_MAX: usize = 200;

impl Service {
    /// Answers an operator's order. It comes alone.
    pub(crate) async fn administer(&self, order: &Call, caller: Caller<'_>) -> Answer {
        self.shared.state().check_by(order, caller)?;
        match order {
            Call::GroupsOf(user) => {
                let groups = self.shared.groups.of(user).await.groups().to_vec();
                calls::GroupsOf::answer(Ok(groups))
            }
            Call::SaveNamespace => calls::SaveNamespace::answer(self.save_namespace().await),
            Call::RollEdits => calls::RollEdits::answer(self.roll_edits().await),
            Call::Metasave(name) => calls::Metasave::answer(self.metasave(name).await),
            Call::TriggerBlockReport { datanode } => {
                calls::TriggerBlockReport::answer(self.order(*datanode, Command::ReportAll))
            }
            Call::ShutDownDatanode { datanode } => {
                calls::ShutDownDatanode::answer(self.order(*datanode, Command::ShutDown))
            }
            Call::RefreshNodes => self.refresh_nodes().await,
            Call::RefreshGroups => {
                self.shared.groups.forget();
                calls::RefreshGroups::answer(Ok(()))
            }
            Call::ReadImage { name, offset } => {
                calls::ReadImage::answer(self.read_image(name.clone(), *offset).await)
            }
            _ => Err(RemoteError::new(ErrorKind::InvalidArgument, "not an order")),
        }
    }

    /// Reads the lists of DataNodes again.
    async fn refresh_nodes(&self) -> Answer {
        let config = Arc::clone(&self.config);
        let read = tokio::task::spawn_blocking(move || lists::read(&config)).await;
        let read = read.map_err(|_| stopping())?;
        let lists = read.map_err(|error| {
            RemoteError::new(ErrorKind::InvalidArgument, protocol::error::chain(&error))
        })?;
        self.topology.forget();
        let asked = self.shared.host.ask(|sender| Event::Hosts(lists, sender)).await;
        asked.map_err(ended)?.answer
    }

    async fn save_namespace(&self) -> Result<(), RemoteError> {
        if !self.shared.state().is_safe_mode_on() {
            let text = "Safe mode should be turned ON in order to create namespace image.";
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        self.shared.host.checkpoint().await.map_err(ended)?;
        let journal = self.journal.clone();
        let exported = tokio::task::spawn_blocking(move || journal.export_image()).await;
        match exported.map_err(|_| stopping())? {
            Ok(path) => {
                tracing::info!(path = %path.display(), "image of the name space written");
                Ok(())
            }
            Err(error) => Err(RemoteError::new(
                ErrorKind::Unavailable,
                format!("cannot write an image: {}", protocol::error::chain(&error)),
            )),
        }
    }

    async fn roll_edits(&self) -> Result<u64, RemoteError> {
        if self.shared.state().is_safe_mode_on() {
            let text = "Log not rolled. Name node is in safe mode.";
            return Err(RemoteError::new(ErrorKind::SafeMode, text));
        }
        let journal = self.journal.clone();
        let rolled = tokio::task::spawn_blocking(move || journal.roll()).await;
        match rolled.map_err(|_| stopping())? {
            Ok(first) => Ok(first.0),
            Err(_) => Err(stopping()),
        }
    }

    async fn metasave(&self, name: &str) -> Result<(), RemoteError> {
        let Some(path) = file_in(&self.logs_dir, name) else {
            let text = format!("`{name}' is not the name of a file in the log directory");
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        };
        let text = self.metasave_text();
        let dir = self.logs_dir.clone();
        let written = tokio::task::spawn_blocking(move || {
            sys::fs::create_private_dir(&dir)
                .and_then(|()| sys::fs::write_atomic(&path, text.as_bytes(), FILE_MODE))
        });
        match written.await.map_err(|_| stopping())? {
            Ok(()) => Ok(()),
            Err(error) => {
                Err(RemoteError::new(ErrorKind::Unavailable, format!("cannot write: {error}")))
            }
        }
    }

    fn metasave_text(&self) -> String {
        let state = self.shared.state();
        let table = self.shared.nodes.lock();
        let (namespace, blocks) = (&state.ns, &state.blocks);
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| {
            writeln!(text, "{args}").expect("writing into memory cannot fail");
        };
        line(format_args!(
            "{} files and directories, {} blocks = {} total filesystem objects",
            namespace.inode_count(),
            namespace.block_count(),
            namespace.inode_count() + namespace.block_count()
        ));
        line(format_args!("Metasave: Blocks waiting for reconstruction: {}", blocks.low_count()));
        line(format_args!("Mis-replicated blocks that have been postponed: 0"));
        line(format_args!("Metasave: Blocks being reconstructed: {}", blocks.pending_count()));
        line(format_args!(
            "Metasave: Blocks {} waiting deletion from datanodes.",
            blocks.doomed_count()
        ));
        line(format_args!("Corrupt Blocks: {}", blocks.corrupt_count()));
        line(format_args!("Metasave: Number of datanodes: {}", table.nodes.registered_count()));
        for (_, node) in table.nodes.iter() {
            line(format_args!(
                "{} {} {:?} capacity {} used {} remaining {}",
                node.info.transfer_address,
                node.info.rack,
                node.state,
                node.capacity,
                node.used,
                node.remaining
            ));
        }
        text
    }

    async fn read_image(
        &self,
        name: Option<String>,
        offset: u64,
    ) -> Result<ImagePiece, RemoteError> {
        let images = self.config.data_dir.join("journal").join("image");
        let refuse = |text: String| RemoteError::new(ErrorKind::NotFound, text);
        let read = tokio::task::spawn_blocking(move || {
            let name = match name.map_or_else(|| newest_image(&images), |name| Ok(Some(name)))? {
                Some(name) => name,
                None => return Ok(None),
            };
            let Some(path) = file_in(&images, &name) else { return Ok(None) };
            let mut file = std::fs::File::open(path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(IMAGE_PIECE_BYTES as u64).read_to_end(&mut bytes)?;
            io::Result::Ok(Some(ImagePiece { name, length, bytes }))
        });
        match read.await.map_err(|_| stopping())? {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) => Err(refuse(
                "There is no image yet: -saveNamespace, in safe mode, writes one.".to_owned(),
            )),
            Err(error) => Err(refuse(format!("The image cannot be read: {error}"))),
        }
    }

    /// Gives a DataNode an order that has no other effect.
    fn order(&self, datanode: DatanodeId, command: Command) -> Result<(), RemoteError> {
        let index = self.shared.nodes.lock().nodes.index(datanode);
        match index {
            Some(index) => {
                self.shared.nodes.push_commands(vec![(index, command)]);
                Ok(())
            }
            None => {
                let text = format!("DataNode {datanode} is not registered");
                Err(RemoteError::new(ErrorKind::NotFound, text))
            }
        }
    }
}

/// The newest image: each name contains the image's last transaction with a fixed number of digits.
fn newest_image(images: &Path) -> io::Result<Option<String>> {
    let mut newest = None;
    for entry in std::fs::read_dir(images)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(IMAGE_SUFFIX) {
            newest = newest.max(Some(name));
        }
    }
    Ok(newest)
}

/// The path of a plain name in a directory; `None` for names that lead elsewhere.
fn file_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['/', '\0']);
    is_plain.then(|| directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lead_out_of_the_directory() {
        assert_eq!(file_in(Path::new("/d"), "meta 1.txt"), Some(PathBuf::from("/d/meta 1.txt")));
        for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", &"x".repeat(201)] {
            assert_eq!(file_in(Path::new("/d"), name), None, "{name}");
        }
    }
}
