//! Identifiers as newtypes: one kind cannot be passed for another.
//!
//! ```compile_fail
//! let block = protocol::BlockId(7);
//! let inode: protocol::InodeId = block; // does not compile: different kinds of id
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// A block of a file. The upper 16 bits name the namespace shard (0 today). Never reused.
    BlockId
);
number_id!(
    /// Version of a block's replicas. Raised at each pipeline or lease recovery; a replica with an older stamp is stale.
    GenerationStamp
);
number_id!(
    /// A file or directory. Never reused; the root is [`InodeId::ROOT`].
    InodeId
);
number_id!(
    /// Counts the starts of a NameNode or JobTracker on its metadata. Receivers obey only the highest they have seen.
    Epoch
);

impl InodeId {
    /// The root directory. HDFS numbers its root 16385; so do we.
    pub const ROOT: InodeId = InodeId(16385);
}

impl BlockId {
    /// The first block id that HDFS assigns; clients and tools recognise the range.
    pub const FIRST: BlockId = BlockId(1_073_741_825);
}

macro_rules! byte_id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub [u8; $len]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex::write(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "("))?;
                hex::write(&self.0, f)?;
                f.write_str(")")
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let mut bytes = [0; $len];
                read_hex(text, &mut bytes)?;
                Ok($name(bytes))
            }
        }
    };
}

byte_id!(
    /// A cluster, drawn at its first start. Daemons refuse peers of another cluster.
    ClusterId,
    16
);
byte_id!(
    /// A DataNode's identity, kept in its data directory; survives a change of address.
    DatanodeId,
    16
);
byte_id!(
    /// One running client process. Holder of leases and first half of a [`CallId`].
    ClientId,
    16
);
byte_id!(
    /// One running worker process, drawn at its start.
    WorkerId,
    16
);

/// Hash of an executable or another file of a job ([`crate::content`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BinaryHash(pub [u8; 32]);

impl fmt::Display for BinaryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(&self.0, f)
    }
}

impl fmt::Debug for BinaryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BinaryHash({self})")
    }
}

/// Names one logical call of a client, however often it is sent. The server gives a repeated call its first answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CallId {
    /// The client process.
    pub client: ClientId,
    /// Counts that client's calls from 1.
    pub number: u64,
}

impl CallId {
    /// The id by which a master knows this call of `user`. A client draws its id, so whoever learns it could say it, too: the answer to somebody's call, and
    /// what a client holds, are found only together with the user that was authenticated. The client's id becomes the first half of
    /// `SHA-256(client | user)`; it stays the same over restarts, and through it nobody learns the client's own.
    pub fn of(self, user: &str) -> CallId {
        let digest = Sha256::new().chain_update(self.client.0).chain_update(user).finalize();
        let mut client = ClientId::default();
        let half = client.0.len();
        client.0.copy_from_slice(&digest[..half]);
        CallId { client, ..self }
    }
}

/// A job: start of the JobTracker that took it (UTC `yyyyMMddHHmmss` as a number) and a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct JobId {
    /// `yyyyMMddHHmmss` of a start of the JobTracker, e.g. `20261120183000`. The counter goes on from one start to the next.
    pub cluster_start: u64,
    /// Counts from 1.
    pub number: u32,
}

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum TaskKind {
    /// Reads one split.
    Map,
    /// Reads one partition of all map outputs.
    Reduce,
}

impl TaskKind {
    /// The letter in a task id.
    pub fn letter(self) -> char {
        match self {
            TaskKind::Map => 'm',
            TaskKind::Reduce => 'r',
        }
    }

    /// `MAP` or `REDUCE`, as Hadoop writes it.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Map => "MAP",
            TaskKind::Reduce => "REDUCE",
        }
    }
}

/// One task of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TaskId {
    /// The job.
    pub job: JobId,
    /// Map or reduce.
    pub kind: TaskKind,
    /// Split or partition number, from 0.
    pub index: u32,
}

/// One try at a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AttemptId {
    /// The task.
    pub task: TaskId,
    /// From 0; after each JobTracker restart the next thousand begins, so that numbers never repeat.
    pub number: u32,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job_{:012}_{:04}", self.cluster_start, self.number)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        write!(
            f,
            "task_{:012}_{:04}_{}_{:06}",
            job.cluster_start,
            job.number,
            self.kind.letter(),
            self.index
        )
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskId { job, kind, index } = &self.task;
        let letter = kind.letter();
        write!(
            f,
            "attempt_{:012}_{:04}_{letter}_{index:06}_{}",
            job.cluster_start, job.number, self.number
        )
    }
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut parts = IdParts::new(text, "job", 3)?;
        Ok(JobId { cluster_start: parts.number()?, number: parts.number()? })
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        IdParts::new(text, "task", 5)?.task()
    }
}

impl FromStr for AttemptId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut parts = IdParts::new(text, "attempt", 6)?;
        Ok(AttemptId { task: parts.task()?, number: parts.number()? })
    }
}

/// Text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct IdError {
    text: String,
    expected: &'static str,
}

struct IdParts<'a> {
    text: &'a str,
    parts: std::str::Split<'a, char>,
}

impl<'a> IdParts<'a> {
    fn new(text: &'a str, prefix: &str, count: usize) -> Result<Self, IdError> {
        let mut parts = text.split('_');
        let all = IdParts { text, parts: parts.clone() };
        if parts.next() != Some(prefix) || text.split('_').count() != count {
            return Err(all.error());
        }
        Ok(IdParts { text, parts })
    }

    fn error(&self) -> IdError {
        IdError {
            text: self.text.chars().take(64).collect(),
            expected: "an id like job_202611201830_0001",
        }
    }

    fn number<N: FromStr>(&mut self) -> Result<N, IdError> {
        let part = self.parts.next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        part.and_then(|part| part.parse().ok()).ok_or_else(|| self.error())
    }

    fn task(&mut self) -> Result<TaskId, IdError> {
        let job = JobId { cluster_start: self.number()?, number: self.number()? };
        let kind = match self.parts.next() {
            Some("m") => TaskKind::Map,
            Some("r") => TaskKind::Reduce,
            _ => return Err(self.error()),
        };
        Ok(TaskId { job, kind, index: self.number()? })
    }
}

fn read_hex(text: &str, bytes: &mut [u8]) -> Result<(), IdError> {
    let error = || IdError {
        text: text.chars().take(80).collect(),
        expected: "a hexadecimal id of the right length",
    };
    hex::read(text, bytes).ok_or_else(error)
}

impl FromStr for BinaryHash {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; 32];
        read_hex(text, &mut bytes)?;
        Ok(BinaryHash(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_hadoop_does_and_parse_back() {
        let job = JobId { cluster_start: 200707121733, number: 3 };
        let task = TaskId { job, kind: TaskKind::Map, index: 5 };
        let attempt = AttemptId { task, number: 1000 };
        assert_eq!(job.to_string(), "job_200707121733_0003");
        assert_eq!(task.to_string(), "task_200707121733_0003_m_000005");
        assert_eq!(attempt.to_string(), "attempt_200707121733_0003_m_000005_1000");
        assert_eq!(job.to_string().parse(), Ok(job));
        assert_eq!(task.to_string().parse(), Ok(task));
        assert_eq!(attempt.to_string().parse(), Ok(attempt));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "job",
            "job_1",
            "job_1_x",
            "job_1_2_3",
            "job_1_-2",
            "task_1_2_m_3",
            "job_1_99999999999",
        ] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
        assert!("zz".parse::<ClusterId>().is_err());
        assert!("task_1_2_x_3".parse::<TaskId>().is_err());
    }
}
