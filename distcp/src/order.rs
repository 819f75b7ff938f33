//! What a job gets told: the same in the driver and in each task, as text in its command line. It has no secrets, for whoever may see the job sees it.

use serde::{Deserialize, Serialize};

use crate::attributes::Attributes;
use crate::error::{Error, Result};
use crate::places::{Creation, Location, Status};
use crate::spared::Spared;

/// Of files of the job's own: only their owner can read them.
pub(crate) const FILE_MODE: u16 = 0o600;

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Different for each run.
    pub(crate) id: String,
    /// Directory of the lists: of the cluster, or of this machine if the job runs here.
    pub(crate) lists: String,
    /// How many bundles, one for each map.
    pub(crate) bundles: u32,
    /// Where files go; with `publish` they are renamed from there.
    pub(crate) work: Location,
    /// The target of an atomic copy: a path in the place of `work`, for nothing is renamed from one place to another.
    pub(crate) publish: Option<String>,
    /// Where files are while they are written; `None` to write them in place.
    pub(crate) temporary: Option<Location>,
    pub(crate) preserve: Attributes,
    /// What is not preserved.
    pub(crate) creation: Creation,
    pub(crate) update: bool,
    pub(crate) overwrite: bool,
    pub(crate) append: bool,
    pub(crate) delete: bool,
    /// What `-delete` leaves alone: the text of the filters, and the sources with their paths below the target, for filters are about paths of the source.
    #[serde(default)]
    pub(crate) filtered: (String, Vec<(Location, String)>),
    /// What the last step leaves alone.
    #[serde(default)]
    pub(crate) spared: Spared,
    pub(crate) ignore_failures: bool,
    pub(crate) skip_crc: bool,
    pub(crate) verbose: bool,
    pub(crate) bandwidth: Option<f64>,
    pub(crate) buffer_bytes: usize,
    pub(crate) user: String,
}

impl Order {
    /// True if files are written in place, and those that are there are left alone.
    pub(crate) fn keeps_what_was_there(&self) -> bool {
        self.temporary.is_none() && !self.update && !self.overwrite
    }

    /// The file of a bundle.
    pub(crate) fn bundle(&self, number: u64) -> String {
        format!("{}/bundle-{number:05}", self.lists)
    }

    /// The file of the whole list, in the order of its paths.
    pub(crate) fn whole(&self) -> String {
        format!("{}/list", self.lists)
    }

    /// The file of tokens for other clusters.
    pub(crate) fn tokens(&self) -> String {
        format!("{}/tokens", self.lists)
    }

    /// The file that is there once the last step is done.
    pub(crate) fn done(&self) -> String {
        format!("{}.done", self.lists)
    }

    pub(crate) fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Error::List)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(Error::List)
    }
}

/// One file or directory to copy: a line of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) source: Location,
    /// Its path below the target; empty for the target itself.
    pub(crate) relative: String,
    pub(crate) status: Status,
    /// Why a directory could not be listed, with `-i`: what is in it is unknown. It is told in the log, and its target stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unread: Option<String>,
    /// With `-direct`: something was at its target before the copy began. What appears there later is what an attempt left half written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) was_there: bool,
}

impl Entry {
    pub(crate) fn new(source: Location, relative: String, status: Status) -> Self {
        Entry { source, relative, status, unread: None, was_there: false }
    }
}

#[cfg(test)]
impl Order {
    /// What a copy from `from` to `to` below a directory of this machine is told.
    pub(crate) fn of_test(root: &std::path::Path) -> Order {
        Order {
            id: "1".to_owned(),
            lists: String::new(),
            bundles: 1,
            work: Location::of_test(&root.join("to")),
            publish: None,
            temporary: Some(Location::of_test(&root.join("to/.distcp.tmp.1"))),
            preserve: Attributes::default(),
            creation: Creation::default(),
            update: false,
            overwrite: false,
            append: false,
            delete: false,
            filtered: Default::default(),
            spared: Spared::default(),
            ignore_failures: false,
            skip_crc: false,
            verbose: false,
            bandwidth: None,
            buffer_bytes: 3,
            user: "ann".to_owned(),
        }
    }
}

#[cfg(test)]
impl Location {
    /// A path of this machine.
    pub(crate) fn of_test(path: &std::path::Path) -> Location {
        Location { place: crate::places::Place::Machine, path: path.to_str().unwrap().to_owned() }
    }
}
