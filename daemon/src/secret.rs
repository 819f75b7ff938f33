//! The cluster secret: 32 random bytes in a file that only its owner can read, as text:
//!
//! ```text
//! 64 hexadecimal digits
//! crc32 8 hexadecimal digits: of the 64
//! ```
//!
//! A file of root's may be readable for one group, too ([`sys::fs::open_private`]).
//!
//! The second line keeps a changed digit from making another key. A file without it is accepted; a process that may create secrets adds it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::auth::Key;
use rand::TryRng;
use sys::fs::{Private, PrivateError};

use crate::error::ServeError;

/// Reads the secret, or creates it if the file does not exist and `create` is set (the first start of a NameNode).
///
/// # Errors
/// [`ServeError::Secret`] if it is missing, readable by others, not a secret, or cannot be written.
pub fn load(path: &Path, create: bool) -> Result<Key, ServeError> {
    let fail = |reason: String| ServeError::Secret { path: path.to_owned(), reason };
    match sys::fs::read_private(path, Key::FILE_BYTES_MAX) {
        Ok(Private { text, owner }) => {
            let key = Key::from_file_text(&text).map_err(|reason| fail(reason.to_owned()))?;
            if create
                && owner == sys::host::user_id()
                && !Key::has_checksum(&text)
                && let Err(error) = sys::fs::write_atomic(path, key.file_text().as_bytes(), 0o600)
            {
                tracing::warn!(path = %path.display(), %error, "cannot add a checksum to the secret");
            }
            Ok(key)
        }
        Err(PrivateError::System(error)) if error.kind() == io::ErrorKind::NotFound && create => {
            let mut bytes = [0; protocol::auth::KEY_BYTES];
            rand::rngs::SysRng
                .try_fill_bytes(&mut bytes)
                .map_err(|error| fail(error.to_string()))?;
            let key = Key::new(bytes);
            sys::fs::write_atomic(path, key.file_text().as_bytes(), 0o600)
                .map_err(|error| fail(error.to_string()))?;
            Ok(key)
        }
        Err(error) => Err(fail(error.to_string())),
    }
}

/// Reads the secret or creates it, as [`load`], and keeps `copies` of it. A lost secret is restored from them, so a cluster never gets a new one because a disk
/// was lost.
///
/// # Errors
/// As [`load`]; a copy that cannot be read or written is a warning.
pub fn load_or_make(path: &Path, copies: &[PathBuf]) -> Result<Key, ServeError> {
    let fail = |reason: String| ServeError::Secret { path: path.to_owned(), reason };
    if !path.try_exists().map_err(|error| fail(error.to_string()))? {
        for copy in copies {
            match fs::metadata(copy) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                _ => {}
            }
            // An existing copy that is damaged is no reason to make another secret.
            let key = load(copy, false)?;
            sys::fs::write_atomic(path, key.file_text().as_bytes(), 0o600)
                .map_err(|error| fail(error.to_string()))?;
            tracing::warn!(path = %path.display(), copy = %copy.display(), "the secret was lost and is taken from its copy");
            break;
        }
    }
    let key = load(path, true)?;
    for copy in copies {
        if load(copy, false).is_ok_and(|copied| copied == key) {
            continue;
        }
        let parent = copy.parent().unwrap_or(Path::new("."));
        let written = sys::fs::create_private_dir(parent)
            .and_then(|()| sys::fs::write_atomic(copy, key.file_text().as_bytes(), 0o600));
        if let Err(error) = written {
            tracing::warn!(copy = %copy.display(), %error, "cannot keep a copy of the secret");
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_lost_one_comes_back_from_its_copy_and_is_never_replaced_by_another() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let copies = [at("one/secret"), at("two/secret")];
        let key = load_or_make(&at("secret"), &copies).unwrap();
        assert!(copies.iter().all(|copy| load(copy, false).unwrap() == key));
        fs::remove_file(at("secret")).unwrap();
        fs::remove_dir_all(at("one")).unwrap();
        assert!(load_or_make(&at("secret"), &copies).unwrap() == key);
        assert!(load(&copies[0], false).unwrap() == key);

        fs::remove_file(at("secret")).unwrap();
        fs::write(&copies[0], "damaged").unwrap();
        let refused = load_or_make(&at("secret"), &copies).unwrap_err().to_string();
        assert!(refused.contains("one/secret"), "{refused}");
        assert!(!at("secret").try_exists().unwrap(), "nothing is made");
        // The secret in use wins; a copy of another is replaced.
        fs::write(at("secret"), key.file_text()).unwrap();
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(load_or_make(&at("secret"), &copies).unwrap() == key);
        assert!(load(&copies[0], false).unwrap() == key);
    }

    #[test]
    fn copies_are_private_too() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let copies = [at("one/secret")];
        let key = load_or_make(&at("secret"), &copies).unwrap();
        let mode = || fs::metadata(&copies[0]).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&copies[0], fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(at("secret"), at("aside")).unwrap();
        let refused = load_or_make(&at("secret"), &copies).unwrap_err().to_string();
        assert!(refused.contains("one/secret") && refused.contains("chmod 600"), "{refused}");
        fs::rename(at("aside"), at("secret")).unwrap();
        assert!(load_or_make(&at("secret"), &copies).unwrap() == key);
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn is_made_once_and_kept_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        assert!(load(&path, false).is_err());
        let key = load(&path, true).unwrap();
        assert!(load(&path, true).unwrap() == key && load(&path, false).unwrap() == key);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(load(&path, false).is_ok(), sys::host::user_id() == 0, "root may let a group");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(load(&path, false).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(load(&path, true).is_err());

        let damaged = key.file_text().replacen(['0', '1', '2', '3'], "4", 1);
        fs::write(&path, &damaged).unwrap();
        assert!(load(&path, true).unwrap_err().to_string().contains("it is damaged"));
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        // A file from before checksums gets one from a process that may create secrets.
        let old = format!("{}\n", key.to_hex());
        fs::write(&path, &old).unwrap();
        assert!(load(&path, false).unwrap() == key);
        assert_eq!(fs::read_to_string(&path).unwrap(), old);
        assert!(load(&path, true).unwrap() == key);
        assert_eq!(fs::read_to_string(&path).unwrap(), key.file_text());
    }
}
