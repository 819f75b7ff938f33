//! One file of the log: a header and then records with consecutive txids.
//!
//! ```text
//! offset  size  field
//!      0     8  magic "HANNOLOG"
//!      8     4  layout version = 1
//!     12     8  first txid: the txid of the first record, also the file's name
//!     20     8  epoch of the start that created the file
//!     28     4  crc32 of the 28 bytes before
//!     32     *  records (see `record`)
//!      *     *  zeros: room for more records
//! ```
//!
//! Little endian. The file is made by temporary, sync, rename, so a header is never torn by a crash.
//! Written by `log`, read by `recover` and `admin`.
//!
//! Invariant: [`scan`] never reports as good what was not written, and it tells the two kinds of bad
//! ends apart. **Torn**: only the batch that was being written when the machine stopped is
//! incomplete, nobody was ever promised it. **Damaged**: bytes that had reached the disk have changed.

use crate::bytes::{u32_at, u64_at};
use crate::id::{Epoch, Txid};
use crate::record::{self, Bad, Record};

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Txid,
    pub(crate) epoch: Epoch,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
        out[12..20].copy_from_slice(&self.first.0.to_le_bytes());
        out[20..28].copy_from_slice(&self.epoch.0.to_le_bytes());
        let crc = crc32fast::hash(&out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Header, End> {
        let torn = End::Torn;
        let crc = u32_at(bytes, 28).ok_or(torn)?;
        if &bytes[..8] != MAGIC || crc32fast::hash(&bytes[..28]) != crc {
            return Err(torn);
        }
        let layout = u32_at(bytes, 8).ok_or(torn)?;
        if layout != LAYOUT {
            return Err(End::Newer(layout));
        }
        Ok(Header {
            first: Txid(u64_at(bytes, 12).ok_or(torn)?),
            epoch: Epoch(u64_at(bytes, 20).ok_or(torn)?),
        })
    }
}

/// How the good part of a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of the file, or in front of nothing but room.
    Clean,
    /// In an incomplete last batch; may be cut if no later segment follows.
    Torn,
    /// In front of bytes that were once good.
    Damaged,
    /// In front of something that a newer program wrote (its layout version).
    Newer(u32),
}

/// The good part of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Largest epoch seen in the header and the records; zero if there was nothing to see.
    pub(crate) epoch: Epoch,
    /// Number of good records; they carry the txids from the file's name on.
    pub(crate) record_count: u64,
    /// Bytes of the header and the good records.
    pub(crate) good_len: u64,
    /// Where the last batch starts: everything before it had been synced before it was written.
    pub(crate) last_batch_at: u64,
    pub(crate) end: End,
}

/// The file name of the segment whose first record is `first`.
pub(crate) fn file_name(first: Txid) -> String {
    format!("{:020}.log", first.0)
}

/// The first txid of a segment with this file name; `None` if it is no segment.
pub(crate) fn first_of(name: &str) -> Option<Txid> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Txid)
}

/// Reads a whole segment and shows each good record to `see`. `first` comes from the file's name.
pub(crate) fn scan(bytes: &[u8], first: Txid, mut see: impl FnMut(&Record<'_>)) -> Scan {
    let mut out =
        Scan { epoch: Epoch(0), record_count: 0, good_len: 0, last_batch_at: 0, end: End::Clean };
    match Header::decode(bytes) {
        Ok(header) if header.first == first => out.epoch = header.epoch,
        // A right header under a wrong name: the file was moved or renamed by hand.
        Ok(_) => return Scan { end: End::Damaged, ..out },
        Err(End::Newer(layout)) => return Scan { end: End::Newer(layout), ..out },
        Err(_) => return Scan { end: classify(bytes, 0, first), ..out },
    }
    let mut at = HEADER_LEN;
    let mut expected = first;
    out.last_batch_at = HEADER_LEN as u64;
    while at < bytes.len() {
        match record::decode(&bytes[at..]) {
            Ok(record) if record.txid == expected => {
                see(&record);
                out.epoch = out.epoch.max(record.epoch);
                out.record_count += 1;
                if record.starts_batch {
                    out.last_batch_at = at as u64;
                }
                at += record.encoded_len();
                expected = expected.next();
            }
            Err(Bad::Version(version)) => {
                out.end = End::Newer(u32::from(version));
                break;
            }
            Err(Bad::Damaged) if bytes[at..].iter().all(|&byte| byte == 0) => break,
            Ok(_) | Err(Bad::Damaged) => {
                out.end = classify(bytes, at, expected);
                break;
            }
        }
    }
    out.good_len = at as u64;
    out
}

/// Tells a torn end from damage, given that no record `expected` is at `at`.
///
/// Nothing valid after it: torn. A valid record that starts a later batch: the bad one had been
/// synced, so it is damage. Only later records of the same batch: the disk may have written the
/// sectors of the last batch out of order, and then a missing sector reads as zeros; without such a
/// sector it is damage.
fn classify(bytes: &[u8], at: usize, expected: Txid) -> End {
    let last = Txid(expected.0.saturating_add(bytes.len() as u64));
    let mut first_valid = None;
    let mut from = at + 1;
    while from < bytes.len() {
        let rest = &bytes[from..];
        if record::plausible(rest, expected.next(), last)
            && let Ok(record) = record::decode(rest)
        {
            if record.starts_batch {
                return End::Damaged;
            }
            first_valid.get_or_insert(from);
            from += record.encoded_len();
        } else {
            from += 1;
        }
    }
    match first_valid {
        None => End::Torn,
        Some(valid) if has_missing_sector(bytes, at, valid) => End::Torn,
        Some(_) => End::Damaged,
    }
}

/// Whether the part of some sector that lies in `from..to` is nothing but zeros.
fn has_missing_sector(bytes: &[u8], from: usize, to: usize) -> bool {
    let mut start = from;
    while start < to {
        let end = to.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if bytes[start..end].iter().all(|&byte| byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = 32;

/// Smallest unit that a disk writes as a whole, in bytes.
pub(crate) const SECTOR_BYTES: usize = 512;

const MAGIC: &[u8; 8] = b"HANNOLOG";
const LAYOUT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of records with the given body lengths, from txid 5 on, and where each batch starts.
    fn segment(batches: &[&[usize]]) -> (Vec<u8>, Vec<usize>) {
        let mut out = Header { first: Txid(5), epoch: Epoch(3) }.encode().to_vec();
        let mut txid = Txid(5);
        let mut starts = Vec::new();
        for batch in batches {
            starts.push(out.len());
            for (index, &len) in batch.iter().enumerate() {
                record::encode(&mut out, txid, Epoch(3), index == 0, &vec![7; len]);
                txid = txid.next();
            }
        }
        (out, starts)
    }

    fn check(bytes: &[u8], record_count: u64, end: End) {
        let mut seen = 0;
        let got = scan(bytes, Txid(5), |record| {
            assert_eq!(record.txid, Txid(5 + seen));
            seen += 1;
        });
        assert_eq!((got.record_count, got.end), (record_count, end));
        assert_eq!(seen, record_count);
    }

    #[test]
    fn golden_header() {
        let want = b"HANNOLOG\x01\0\0\0\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\xb7\x80\xda\xa4";
        assert_eq!(&Header { first: Txid(5), epoch: Epoch(3) }.encode(), want);
    }

    #[test]
    fn names() {
        assert_eq!(file_name(Txid(12)), "00000000000000000012.log");
        assert_eq!(first_of("00000000000000000012.log"), Some(Txid(12)));
        for bad in ["12.log", "0000000000000000001x.log", "00000000000000000012.log.tmp", ""] {
            assert_eq!(first_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn ends() {
        let (good, starts) = segment(&[&[10, 20], &[30, 40, 50], &[60]]);
        check(&good, 6, End::Clean);
        assert_eq!(scan(&good, Txid(5), |_| ()).last_batch_at, starts[2] as u64);
        check(&good[..good.len() - 1], 5, End::Torn);
        check(&good[..HEADER_LEN - 1], 0, End::Torn);
        check(&[], 0, End::Torn);

        let mut flipped = good.clone();
        flipped[starts[1] + 30] ^= 1;
        check(&flipped, 2, End::Damaged);
        check(&flipped[..starts[2]], 2, End::Damaged);

        let mut header = good.clone();
        header[3] ^= 1;
        check(&header, 0, End::Damaged);

        let mut roomy = good.clone();
        roomy.resize(good.len() + 5000, 0);
        check(&roomy, 6, End::Clean);
        assert_eq!(scan(&roomy, Txid(5), |_| ()).good_len, good.len() as u64);
        roomy.truncate(good.len() + 1);
        check(&roomy, 6, End::Clean);
        roomy[good.len()] = 1;
        check(&roomy, 6, End::Torn);
        let mut cut = good[..good.len() - 1].to_vec();
        cut.resize(good.len() + 5000, 0);
        cut[good.len() + 100] = 1;
        check(&cut, 5, End::Torn);

        let mut last = good.clone();
        *last.last_mut().unwrap() ^= 1;
        check(&last, 5, End::Torn);

        let mut newer = good[..HEADER_LEN].to_vec();
        newer[8] = 9;
        let crc = crc32fast::hash(&newer[..28]);
        newer[28..].copy_from_slice(&crc.to_le_bytes());
        check(&newer, 0, End::Newer(9));
    }

    #[test]
    fn sectors_written_out_of_order_are_a_torn_end_only_in_the_last_batch() {
        let (good, starts) = segment(&[&[10], &[400, 400, 400, 400, 400]]);
        let mut torn = good.clone();
        torn[512..1024].fill(0);
        check(&torn, 2, End::Torn);

        let (longer, _) = segment(&[&[10], &[400, 400, 400, 400, 400], &[1]]);
        let mut damaged = longer.clone();
        damaged[512..1024].fill(0);
        check(&damaged, 2, End::Damaged);
        assert!(starts[1] < 512);
    }

    #[test]
    fn a_file_under_a_wrong_name_is_refused() {
        let (good, _) = segment(&[&[10]]);
        assert_eq!(scan(&good, Txid(6), |_| ()).end, End::Damaged);
    }
}
