//! `hdfs oiv` and `hdfs oev`: a NameNode's metadata on disk in Hadoop's formats, for scripts that read those. Exit code 0, or 255 for wrong usage and failures
//! alike.
//!
//! | file | what |
//! |---|---|
//! | `oiv`, `oev` | the two commands |
//! | `options` | reading their options |
//! | `image_xml`, `delimited`, `distribution` | processors of images |
//! | `edits`, `ops` | edits as elements; what they are called |

mod delimited;
mod distribution;
mod edits;
mod image_xml;
pub(crate) mod oev;
pub(crate) mod oiv;
mod ops;
mod options;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use namenode::core::inodes::Inode;
use namenode::core::namespace::Namespace;
use protocol::InodeId;

use self::options::{Given, Known, Wrong};
use crate::absent::Absent;
use crate::output::{Buffered, EXIT_OK, EXIT_USAGE, report, report_text, say, unless_reader_left};

/// Permissions of what is written: it names what only some may see.
const FILE_MODE: u32 = 0o600;

/// One of the two commands.
struct Tool {
    name: &'static str,
    usage: &'static str,
    known: &'static [Known],
    absent: &'static [Absent],
}

impl Tool {
    fn parse(&self, words: &[OsString]) -> Result<Given, Wrong> {
        options::parse((self.name, self.known, self.absent), words)
    }

    /// Runs the words after its name and returns the exit code.
    fn run(&self, words: &[OsString], view: impl FnOnce(&Given) -> Result<(), Wrong>) -> u8 {
        // Without a word, Hadoop's print the usage as if it had been asked for.
        let done = match self.parse(words) {
            Ok(given) if given.has("-h") || words.is_empty() => {
                say!("{}", self.usage.trim_end());
                Ok(())
            }
            given => given.and_then(|given| view(&given)),
        };
        let name = self.name;
        match done {
            Ok(()) => return EXIT_OK,
            Err(Wrong::Usage(text)) => {
                report!("{name}: {text}");
                report_text!("{}", self.usage);
            }
            Err(Wrong::Refused) => {}
            Err(Wrong::Failed(text)) => report!("{name}: {text}"),
        }
        EXIT_USAGE
    }
}

/// Refuses an output that would take the place of what is read: a NameNode that runs on it would go on in a file without a name.
fn check_apart(input: &str, output: &str) -> Result<(), Wrong> {
    let path = Path::new(output);
    let written = path.canonicalize().or_else(|_| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize()?;
        Ok::<_, io::Error>(parent.join(path.file_name().unwrap_or_default()))
    });
    // Where one of them is not there, reading or writing tells it.
    let (Ok(read), Ok(written)) = (Path::new(input).canonicalize(), written) else {
        return Ok(());
    };
    if output != "-" && written.starts_with(read) {
        return Err(Wrong::Usage(format!(
            "-o {output} would change {input}, which is read: name a file elsewhere"
        )));
    }
    Ok(())
}

/// Writes to a file, which appears when it is whole, or to standard output if `output` is `-`.
fn write_to(
    output: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Wrong> {
    let written = match output {
        "-" => Buffered::new().and_then(|mut out| {
            unless_reader_left(write(&mut out).and_then(|()| out.flush())).map(drop)
        }),
        path => sys::fs::write_output_with(Path::new(path), FILE_MODE, write),
    };
    written.map_err(|error| Wrong::Failed(format!("cannot write {output}: {error}")))
}

/// Passes on every file and directory with its path, a directory before what is in it, in order of names.
fn walk(
    ns: &Namespace,
    see: &mut dyn FnMut(&str, InodeId, &Inode) -> io::Result<()>,
) -> io::Result<()> {
    let Some(root) = ns.inode(InodeId::ROOT) else { return Ok(()) };
    see("/", InodeId::ROOT, root)?;
    let mut path = String::new();
    let mut below: Vec<(usize, Entries<'_>)> =
        Vec::from_iter(entries(ns, root).map(|all| (0, all)));
    while let Some((length, all)) = below.last_mut() {
        path.truncate(*length);
        let Some((id, inode)) = all.next() else {
            below.pop();
            continue;
        };
        path.push('/');
        path.push_str(&inode.name);
        see(&path, id, inode)?;
        if let Some(all) = entries(ns, inode) {
            below.push((path.len(), all));
        }
    }
    Ok(())
}

type Entries<'a> = Box<dyn Iterator<Item = (InodeId, &'a Inode)> + 'a>;

/// What is in a directory.
fn entries<'a>(ns: &'a Namespace, inode: &'a Inode) -> Option<Entries<'a>> {
    Some(Box::new(ns.children(inode.directory()?)))
}

#[cfg(test)]
mod tests {
    use namenode::core::edit::Edit;
    use protocol::{BlockId, ClientId, ClusterId, GenerationStamp};

    use super::*;

    /// A name space with `/a`, the empty `/a/b`, the closed file `/a/f, g` of 10 bytes and the open file `/o`.
    pub(super) fn sample() -> Namespace {
        let mut ns = Namespace::default();
        let (owner, group) = ("ann".to_owned(), "sg".to_owned());
        let format = Edit::Format {
            cluster: ClusterId([7; 16]),
            owner: owner.clone(),
            group: group.clone(),
            at_ms: 4,
        };
        let directory = |id, parent, name: &str| Edit::MakeDirectory {
            id: InodeId(id),
            parent: InodeId(parent),
            name: name.to_owned(),
            owner: owner.clone(),
            group: group.clone(),
            mode: 0o755,
            at_ms: 60_000,
        };
        let file = |id, parent, name: &str| Edit::MakeFile {
            id: InodeId(id),
            parent: InodeId(parent),
            name: name.to_owned(),
            owner: owner.clone(),
            group: group.clone(),
            mode: 0o640,
            replication: 3,
            block_size: 1000,
            holder: ClientId([1; 16]),
            at_ms: 60_000,
        };
        let (first, block) = (InodeId(16_388), BlockId::FIRST);
        let stamp = GenerationStamp(1001);
        let root = InodeId::ROOT.0;
        let edits = [
            format,
            directory(16_386, root, "a"),
            directory(16_387, 16_386, "b"),
            file(first.0, 16_386, "f, g"),
            Edit::AddBlock { file: first, block, stamp, targets: vec![] },
            Edit::CommitBlock { file: first, block, length: 10 },
            Edit::Close { file: first, at_ms: 120_000 },
            file(16_389, root, "o"),
        ];
        edits.iter().for_each(|edit| ns.apply(edit).unwrap());
        ns
    }

    #[test]
    fn a_walk_passes_each_path_once_in_order() {
        let mut seen = Vec::new();
        walk(&sample(), &mut |path, id, _| {
            seen.push((path.to_owned(), id.0));
            Ok(())
        })
        .unwrap();
        let expected =
            [("/", 16_385), ("/a", 16_386), ("/a/b", 16_387), ("/a/f, g", 16_388), ("/o", 16_389)];
        assert_eq!(seen, expected.map(|(path, id)| (path.to_owned(), id)));
    }

    #[test]
    fn nothing_is_written_where_it_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(path("metadata")).unwrap();
        for name in ["metadata/1.log", "other"] {
            std::fs::write(path(name), b"edits").unwrap();
        }
        std::os::unix::fs::symlink(path("metadata"), path("link")).unwrap();
        for (input, output) in [
            ("metadata/1.log", "metadata/1.log"),
            ("metadata/1.log", "link/1.log"),
            ("metadata", "metadata/new.xml"),
            ("link", "metadata/1.log"),
        ] {
            let refused = check_apart(&path(input), &path(output));
            assert!(matches!(refused, Err(Wrong::Usage(_))), "{input} {output}");
        }
        for output in ["other", "new.xml", "metadata.xml"] {
            assert_eq!(check_apart(&path("metadata"), &path(output)), Ok(()), "{output}");
        }
        assert_eq!(check_apart(&path("metadata"), "-"), Ok(()));
        assert_eq!(check_apart(&path("absent"), &path("absent")), Ok(()));
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("out");
        let failed = write_to(path.to_str().unwrap(), |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::InvalidData.into())
        });
        assert!(matches!(failed, Err(Wrong::Failed(_))) && !path.try_exists().unwrap());
        write_to(path.to_str().unwrap(), |out| out.write_all(b"all")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"all");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
