//! The options of `fsck`, and the query that HDFS's tool would build from them.

use crate::output::report;

/// What `-help` prints.
pub(super) const USAGE: &str = "\
Usage: hdfs fsck <path> [-list-corruptfileblocks | [-move | -delete | -openforwrite] [-files [-blocks [-locations | -racks | \
-replicaDetails | -upgradedomains]]]] [-includeSnapshots] [-storagepolicies] [-maintenance] [-blockId <blk_Id>] [-replicate] [--json]
\t<path>\tstart checking from this path
\t-move\tcopy what is left of corrupted files to /lost+found
\t-delete\tdelete corrupted files
\t-files\tprint out files being checked
\t-openforwrite\tprint out files opened for write
\t-includeSnapshots\tinclude snapshot data if the given path indicates a snapshottable directory
\t-list-corruptfileblocks\tprint out list of missing blocks and files they belong to
\t-files -blocks\tprint out block report
\t-files -blocks -locations\tprint out locations for every block
\t-files -blocks -racks\tprint out network topology for data-node locations
\t-files -blocks -replicaDetails\tprint out each replica details
\t-files -blocks -upgradedomains\tprint out upgrade domains for every block
\t-storagepolicies\tprint out storage policy summary for the blocks
\t-maintenance\tprint out maintenance state node details
\t-blockId\tprint out which file this blockId belongs to, locations (nodes, racks) of this block
\t-replicate\tis accepted: replicas of mis-replicated blocks are made on other racks without being asked for

By default fsck does not check files opened for write, use -openforwrite to report such files. They are usually tagged CORRUPT or \
HEALTHY depending on their block allocation status.
";

/// The options given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) files: bool,
    pub(super) blocks: bool,
    pub(super) locations: bool,
    pub(super) racks: bool,
    pub(super) replica_details: bool,
    pub(super) upgrade_domains: bool,
    pub(super) storage_policies: bool,
    pub(super) open_for_write: bool,
    pub(super) list_corrupt: bool,
    pub(super) moves: bool,
    pub(super) deletes: bool,
    pub(super) snapshots: bool,
    pub(super) maintenance: bool,
    pub(super) block_ids: Vec<String>,
    pub(super) json: bool,
    pub(super) help: bool,
}

impl Request {
    /// Reads the words after `fsck`.
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let mut request = Request::default();
        let mut path = None;
        let mut options_end = false;
        let mut words = words.iter().peekable();
        while let Some(text) = words.next() {
            let option = text.trim_start_matches('-');
            match option {
                "" if text == "--" && !options_end => options_end = true,
                _ if options_end || !text.starts_with('-') => {
                    if path.replace(text.clone()).is_some() {
                        return Err(format!("can only operate on one path at a time '{text}'"));
                    }
                }
                "files" => request.files = true,
                "blocks" => request.blocks = true,
                "locations" => request.locations = true,
                "racks" => request.racks = true,
                "replicaDetails" => request.replica_details = true,
                "openforwrite" => request.open_for_write = true,
                "list-corruptfileblocks" => request.list_corrupt = true,
                "move" => request.moves = true,
                "delete" => request.deletes = true,
                "includeSnapshots" => request.snapshots = true,
                "maintenance" => request.maintenance = true,
                "upgradedomains" => request.upgrade_domains = true,
                "storagepolicies" => request.storage_policies = true,
                // Misplaced replicas are copied without this option.
                "replicate" => {}
                "showprogress" => {
                    report!(
                        "The fsck switch -showprogress is deprecated and no longer has any effect."
                    );
                }
                "blockId" => {
                    let is_id = |word: &&String| !word.starts_with('-');
                    while let Some(id) = words.next_if(is_id) {
                        request.block_ids.extend(id.split_whitespace().map(str::to_owned));
                    }
                    if request.block_ids.is_empty() {
                        return Err("-blockId needs a block".to_owned());
                    }
                }
                "json" => request.json = true,
                "help" | "h" => request.help = true,
                _ => return Err(format!("Illegal option '{text}'")),
            }
        }
        request.check(path.is_some())?;
        request.path = path.unwrap_or_else(|| "/".to_owned());
        Ok(request)
    }

    /// Refuses options that contradict each other; names those without effect.
    fn check(&self, has_path: bool) -> Result<(), String> {
        if !self.block_ids.is_empty() {
            if let Some(other) = self.beside_blocks(has_path) {
                return Err(format!("-blockId looks up blocks alone, without {other}"));
            }
            for option in self.listings() {
                report!("fsck: {option} has no effect beside -blockId");
            }
        }
        if self.json && self.block_ids.is_empty() && !self.list_corrupt {
            let listed = [
                (self.files, "-files"),
                (self.blocks, "-blocks"),
                (self.storage_policies, "-storagepolicies"),
            ];
            if let Some(option) = given(listed).next() {
                return Err(format!("--json prints totals: leave out {option}"));
            }
        }
        let changes = self.moves || self.deletes;
        if self.list_corrupt && changes {
            return Err(
                "-list-corruptfileblocks changes nothing: leave out -move and -delete".to_owned()
            );
        }
        Ok(())
    }

    /// Options that say what a listing of files shows. HDFS accepts them beside `-blockId`.
    fn listings(&self) -> impl Iterator<Item = &'static str> {
        given([
            (self.files, "-files"),
            (self.blocks, "-blocks"),
            (self.locations, "-locations"),
            (self.racks, "-racks"),
            (self.replica_details, "-replicaDetails"),
            (self.upgrade_domains, "-upgradedomains"),
        ])
    }

    /// What stands beside `-blockId` and cannot be meant.
    fn beside_blocks(&self, has_path: bool) -> Option<&'static str> {
        given([
            (has_path, "a path"),
            (self.list_corrupt, "-list-corruptfileblocks"),
            (self.moves, "-move"),
            (self.deletes, "-delete"),
            (self.open_for_write, "-openforwrite"),
            (self.snapshots, "-includeSnapshots"),
            (self.storage_policies, "-storagepolicies"),
        ])
        .next()
    }

    /// The address that HDFS's tool would fetch.
    pub(super) fn query(&self) -> String {
        let mut query = String::new();
        for (is_on, name) in [
            (self.moves, "move"),
            (self.deletes, "delete"),
            (self.files, "files"),
            (self.blocks, "blocks"),
            (self.locations, "locations"),
            (self.racks, "racks"),
            (self.replica_details, "replicadetails"),
            (self.upgrade_domains, "upgradedomains"),
            (self.storage_policies, "storagepolicies"),
            (self.open_for_write, "openforwrite"),
            (self.list_corrupt, "listcorruptfileblocks"),
            (self.snapshots, "includeSnapshots"),
            (self.maintenance, "maintenance"),
        ] {
            if is_on {
                query.push_str(&format!("&{name}=1"));
            }
        }
        query + "&path=" + &self.path.replace('/', "%2F")
    }
}

/// The names of those that are given.
fn given<const N: usize>(options: [(bool, &'static str); N]) -> impl Iterator<Item = &'static str> {
    options.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |words: &[&str]| {
            Request::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let request = parse(&["-files", "/a b", "-blocks"]).unwrap();
        assert_eq!(
            request,
            Request { path: "/a b".into(), files: true, blocks: true, ..Request::default() }
        );
        assert_eq!(parse(&["--", "-x"]).unwrap().path, "-x");
        let request = parse(&["-blockId", "blk_1 blk_2", "blk_3", "-files"]).unwrap();
        assert_eq!(request.block_ids, ["blk_1", "blk_2", "blk_3"]);
        assert_eq!(request.listings().collect::<Vec<_>>(), ["-files"]);
        assert!(parse(&["/", "-delete"]).unwrap().deletes);
        for words in [
            &["/a", "/b"][..],
            &["-foo"],
            &["-blockId"],
            &["-blockId", "blk_1", "-delete", "/x"],
            &["-delete", "-blockId", "blk_1"],
            &["/x", "-blockId", "blk_1"],
            &["/x", "-list-corruptfileblocks", "-move"],
            &["/", "-files", "--json"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
