//! Changes to what is there, which the browser of files makes: it is moved, also to the trash, gets another permission, owner or number of replicas.
//!
//! Each is a POST of a signed-in user from one of our pages ([`Hand`]). The permissions of the file system decide. Sent again under the same number
//! ([`daemon::session::CALL_HEADER`]), it gets its first answer and changes nothing twice.

use std::future::Future;

use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use daemon::params::{BadParameter, Given, Parameters, bad_value};
use protocol::namenode::{REPLICATION_MAX, RenameTo, calls};
use protocol::permission::STICKY;
use protocol::{DfsPath, ErrorKind, RemoteError};
use serde_json::json;

use super::context::{Hand, Pages, changed_path, path_of, refused_path};
use super::files::{Asked, refused, taken};
use super::trash::Trash;

/// All permission bits that there are.
const MODE_MAX: u16 = STICKY | 0o777;

/// What a page wants to be changed.
trait Change: Parameters + Send {
    /// Changes it. Returns where it is then; for what is in the trash then, the directory in which it was.
    fn make(self, hand: &Hand) -> impl Future<Output = Result<DfsPath, RemoteError>> + Send;
}

/// All routes.
pub(super) fn routes() -> Router<Pages> {
    Router::new()
        .route("/api/v1/files/move", post(change::<Moved>))
        .route("/api/v1/files/trash", post(change::<Trashed>))
        .route("/api/v1/files/permission", post(change::<Permitted>))
        .route("/api/v1/files/owner", post(change::<Owned>))
        .route("/api/v1/files/replication", post(change::<Replicated>))
}

async fn change<C: Change>(hand: Hand, asked: Asked<C>) -> Response {
    let made = async { taken(asked)?.make(&hand).await };
    match made.await {
        Ok(path) => Json(json!({ "path": path })).into_response(),
        Err(error) => refused(&error),
    }
}

/// To another path; to one that ends with a slash, into that directory.
#[derive(Debug)]
struct Moved {
    path: String,
    to: String,
}

impl Parameters for Moved {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let (path, to) = (changed_path(given), given.required("to", "it says where to move it"));
        Ok(Moved { path: path?, to: to? })
    }
}

impl Change for Moved {
    async fn make(self, hand: &Hand) -> Result<DfsPath, RemoteError> {
        let from = path_of(&self.path)?;
        let mut to = path_of(&self.to)?;
        if self.to.ends_with('/') {
            to = to.join(from.name().unwrap_or_default()).map_err(refused_path)?;
        }
        let call = RenameTo { from, to: to.clone(), overwrite: false };
        hand.change(0, call).await?;
        Ok(to)
    }
}

/// To the trash of the user.
#[derive(Debug)]
struct Trashed {
    path: String,
}

impl Parameters for Trashed {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Trashed { path: changed_path(given)? })
    }
}

impl Change for Trashed {
    async fn make(self, hand: &Hand) -> Result<DfsPath, RemoteError> {
        let path = path_of(&self.path)?;
        let trash = Trash::of(&hand.user, hand.pages.trash_interval_ms()).ok_or_else(|| {
            let text = format!("there is no trash here: delete {path} for good");
            RemoteError::new(ErrorKind::InvalidArgument, text)
        })?;
        trash.take(hand, &path).await?;
        Ok(path.parent().unwrap_or_else(DfsPath::root))
    }
}

/// Other permission bits.
#[derive(Debug)]
struct Permitted {
    path: String,
    mode: u16,
}

impl Parameters for Permitted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let (path, mode) =
            (changed_path(given), given.required("mode", "it has the permission bits"));
        let (path, text) = (path?, mode?);
        let is_octal =
            matches!(text.len(), 3 | 4) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let mode = is_octal.then(|| u16::from_str_radix(&text, 8).ok()).flatten();
        let mode = mode.filter(|mode| *mode <= MODE_MAX).ok_or_else(|| {
            bad_value(
                "mode",
                &text,
                format!("an octal number from 000 to {MODE_MAX:o}, such as 644"),
            )
        })?;
        Ok(Permitted { path, mode })
    }
}

impl Change for Permitted {
    async fn make(self, hand: &Hand) -> Result<DfsPath, RemoteError> {
        let path = path_of(&self.path)?;
        hand.change(0, calls::SetMode { path: path.clone(), mode: self.mode }).await?;
        Ok(path)
    }
}

/// Another owner, another group, or both.
#[derive(Debug)]
struct Owned {
    path: String,
    owner: String,
    group: String,
}

impl Parameters for Owned {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let path = changed_path(given);
        let (owner, group) = (given.text_or_empty("owner")?, given.text_or_empty("group")?);
        if owner.is_empty() && group.is_empty() {
            let (name, why) = ("owner".to_owned(), "neither owner nor group is named".to_owned());
            return Err(BadParameter::Missing { name, why });
        }
        Ok(Owned { path: path?, owner, group })
    }
}

impl Change for Owned {
    async fn make(self, hand: &Hand) -> Result<DfsPath, RemoteError> {
        let path = path_of(&self.path)?;
        let status = hand.status(&path).await?;
        // To set what is there needs no right, as in the shell: the form sends both.
        let wanted = |name: String, is: &str| if name == is { String::new() } else { name };
        let owner = wanted(self.owner, &status.owner);
        let group = wanted(self.group, &status.group);
        if !(owner.is_empty() && group.is_empty()) {
            hand.change(0, calls::SetOwner { path: path.clone(), owner, group }).await?;
        }
        Ok(path)
    }
}

/// Another number of replicas.
#[derive(Debug)]
struct Replicated {
    path: String,
    replication: u16,
}

impl Parameters for Replicated {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let path = changed_path(given);
        let number = given.number("replication", 1..=u64::from(REPLICATION_MAX))?;
        let number = number.and_then(|number| u16::try_from(number).ok());
        let replication = number.ok_or_else(|| BadParameter::Missing {
            name: "replication".to_owned(),
            why: "it says how many replicas there shall be".to_owned(),
        })?;
        Ok(Replicated { path: path?, replication })
    }
}

impl Change for Replicated {
    async fn make(self, hand: &Hand) -> Result<DfsPath, RemoteError> {
        let path = path_of(&self.path)?;
        let call = calls::SetReplication { path: path.clone(), replication: self.replication };
        match hand.change(0, call).await? {
            true => Ok(path),
            false => {
                let text = format!("{path} is no file: only files have replicas");
                Err(RemoteError::new(ErrorKind::InvalidArgument, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::params::understand;

    fn refusal<T: Parameters + std::fmt::Debug>(query: &str) -> BadParameter {
        understand::<T>(query).unwrap_err()
    }

    #[test]
    fn what_is_changed_is_named() {
        let is_missing = |error: BadParameter, wanted: &str| match error {
            BadParameter::Missing { name, .. } => assert_eq!(name, wanted),
            other => panic!("{other:?}"),
        };
        is_missing(refusal::<Moved>("to=/b"), "path");
        is_missing(refusal::<Moved>("path=/a&to="), "to");
        is_missing(refusal::<Trashed>("path="), "path");
        is_missing(refusal::<Permitted>("mode=644"), "path");
        is_missing(refusal::<Permitted>("path=/a"), "mode");
        is_missing(refusal::<Owned>("path=/a&owner=&group="), "owner");
        is_missing(refusal::<Replicated>("path=/a"), "replication");
    }

    #[test]
    fn values_are_what_the_file_system_takes() {
        let mode = |text: &str| understand::<Permitted>(&format!("path=/a&mode={text}"));
        for (text, bits) in [("644", 0o644), ("0755", 0o755), ("1777", 0o1777), ("000", 0)] {
            assert_eq!(mode(text).unwrap().0.mode, bits, "{text}");
        }
        for text in ["64", "888", "2777", "07777", "u%2Bx", "-644", "0o644"] {
            assert!(matches!(mode(text), Err(BadParameter::Value { .. })), "{text}");
        }
        let replicas =
            |text: &str| understand::<Replicated>(&format!("path=/a&replication={text}"));
        assert_eq!(replicas("512").unwrap().0.replication, 512);
        for text in ["0", "513", "-1", "two"] {
            assert!(matches!(replicas(text), Err(BadParameter::Value { .. })), "{text}");
        }
        let (owned, _) = understand::<Owned>("path=/a&owner=&group=staff").unwrap();
        assert_eq!((owned.owner.as_str(), owned.group.as_str()), ("", "staff"));
    }
}
