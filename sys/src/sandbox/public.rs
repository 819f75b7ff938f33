//! What of the machine's settings everybody may read.

use std::path::{Path, PathBuf};

/// The places below `directory` that anybody may read: as few as possible.
pub fn public_places(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if is_public(directory, &mut found) {
        return vec![directory.to_owned()];
    }
    found
}

/// True if everything below `path` is public; otherwise adds its public parts to `found`. A place that cannot be read counts as private. A link is as public as
/// its target, which is judged at its own path: the link by itself reveals nothing.
fn is_public(path: &Path, found: &mut Vec<PathBuf>) -> bool {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_READ: u32 = 0o4;
    const OTHERS_ENTER: u32 = 0o1;
    let Ok(metadata) = path.symlink_metadata() else { return false };
    if metadata.is_symlink() {
        return true;
    }
    if !metadata.is_dir() {
        return metadata.mode() & OTHERS_READ != 0;
    }
    let wanted = OTHERS_READ | OTHERS_ENTER;
    let Some(entries) = path.read_dir().ok().filter(|_| metadata.mode() & wanted == wanted) else {
        return false;
    };
    let (mut all, mut public, mut below) = (true, Vec::new(), Vec::new());
    for entry in entries {
        let Ok(entry) = entry else {
            all = false;
            continue;
        };
        match is_public(&entry.path(), &mut below) {
            true => public.push(entry.path()),
            false => all = false,
        }
    }
    if !all {
        found.append(&mut public);
        found.append(&mut below);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_public_is_found_in_few_places() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let make = |name: &str, mode: u32| {
            let path = root.join(name);
            match name.strip_suffix('/') {
                Some(_) => fs::create_dir(&path).unwrap(),
                None => fs::write(&path, "").unwrap(),
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        make("open/", 0o755);
        make("open/a", 0o644);
        make("open/b", 0o444);
        assert_eq!(public_places(root), [root]);
        make("mixed/", 0o755);
        make("mixed/key", 0o600);
        make("mixed/cert", 0o644);
        make("closed/", 0o700);
        make("closed/file", 0o644);
        std::os::unix::fs::symlink("mixed/key", root.join("link")).unwrap();
        let mut found = public_places(root);
        found.sort();
        assert_eq!(found, ["link", "mixed/cert", "open"].map(|name| root.join(name)));
    }
}
