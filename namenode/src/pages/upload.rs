//! Uploads: a file gets its name when all of it is there. Until then it is written under a name of its own beside it, as by `put`.
//!
//! Invariant: whatever fails, nothing of an upload is under the final name, and what was there before stays. A cut-off leaves nothing at all: the DataNode
//! deletes what it has, and so does this, if the DataNode is gone. An upload that is sent again is another one: it has bytes of its own to give a name to.

use axum::body::Body;
use protocol::namenode::{COPYING_SUFFIX, RenameTo, calls};
use protocol::{DfsPath, ErrorKind, RemoteError};

use super::context::{Hand, refused_path};

/// Writes a new file of a request's body. Goes on when the one who asked is gone, so that it ends in order.
///
/// # Errors
/// A refusal of the NameNode or a DataNode.
pub(super) async fn upload(
    hand: Hand,
    path: DfsPath,
    overwrite: bool,
    body: Body,
) -> Result<(), RemoteError> {
    let written = tokio::spawn(async move { write(&hand, &path, overwrite, body).await });
    written.await.unwrap_or_else(|error| {
        Err(RemoteError::new(ErrorKind::Internal, format!("the upload ended early: {error}")))
    })
}

async fn write(
    hand: &Hand,
    path: &DfsPath,
    overwrite: bool,
    body: Body,
) -> Result<(), RemoteError> {
    // The end looks again: this spares the sender from sending in vain.
    match hand.find(path).await? {
        Some(status) if status.directory => {
            return Err(RemoteError::new(ErrorKind::IsDirectory, format!("{path} is a directory")));
        }
        Some(_) if !overwrite => {
            return Err(RemoteError::new(
                ErrorKind::AlreadyExists,
                format!("{path} already exists"),
            ));
        }
        _ => {}
    }
    let parent = path.parent().unwrap_or_else(DfsPath::root);
    let name = format!(".{:016x}{COPYING_SUFFIX}", rand::random::<u64>());
    let temporary = parent.join(&name).map_err(refused_path)?;
    let written = hand.pages.relay.write(&hand.user, &temporary, body).await;
    let published = match written {
        Ok(()) => {
            let call = RenameTo { from: temporary.clone(), to: path.clone(), overwrite };
            hand.ask(call).await
        }
        Err(error) => Err(error),
    };
    if published.is_err() {
        clean(hand, temporary).await;
    }
    published
}

/// Deletes what is left of an upload that failed.
async fn clean(hand: &Hand, temporary: DfsPath) {
    let call = calls::Delete { path: temporary.clone(), recursive: false };
    match hand.ask(call).await {
        Ok(_) => {}
        // Whoever may not delete there could not write there either.
        Err(error) if matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::NotFound) => {}
        Err(error) => {
            tracing::warn!(path = %temporary, error = %error, "cannot delete what an upload left");
        }
    }
}
