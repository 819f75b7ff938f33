//! Segments with every byte cut off, flipped or zeroed.

use super::*;
use crate::id::Epoch;

/// Batches of records with the given body lengths, from txid 5 on, and where each batch starts.
fn segment(batches: &[&[usize]]) -> (Vec<u8>, Vec<usize>) {
    let mut out = Header { first: Txid(5), epoch: Epoch(3) }.encode().to_vec();
    let mut txid = Txid(5);
    let mut starts = Vec::new();
    for batch in batches {
        starts.push(out.len());
        let mut stream = Vec::new();
        batch.iter().for_each(|&len| put_record(&mut stream, &vec![7; len]));
        let position =
            SectorPosition { segment: Txid(5), index: (out.len() / SECTOR_BYTES) as u64 };
        sector::encode(&mut out, position, (txid, batch.len() as u32), Epoch(3), &stream);
        txid = Txid(txid.0 + batch.len() as u64);
    }
    (out, starts)
}

/// Two batches of a sector each, records 5 to 7, and one of three sectors, 8 and 9.
fn good() -> Vec<u8> {
    segment(&[&[10, 20], &[30], &[600, 500]]).0
}

fn scan_all(copies: &[&[u8]]) -> (Scan, Vec<u64>) {
    let mut seen = Vec::new();
    let scan = scan(copies, Txid(5), &mut |txid, epoch, body| {
        assert!(epoch == Epoch(3) && body.iter().all(|&byte| byte == 7));
        seen.push(txid.0);
    });
    let scan = scan.unwrap();
    assert_eq!(scan.record_count, seen.len() as u64);
    (scan, seen)
}

fn ranges(scan: &Scan) -> Vec<(u64, u64)> {
    scan.losses.iter().map(|loss| (loss.from.0, loss.to.0)).collect()
}

const OPEN: u64 = u64::MAX;

#[test]
fn golden_header() {
    let want = b"HANNOLOG\x02\0\0\0\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    let header = Header { first: Txid(5), epoch: Epoch(3) }.encode();
    assert_eq!(header[..28], want[..]);
    assert_eq!(header[..32], header[256..288]);
    assert_eq!(header.iter().filter(|&&byte| byte != 0).count(), 2 * (8 + 3 + 4));
}

#[test]
fn golden_stream() {
    let mut stream = Vec::new();
    put_record(&mut stream, b"ab");
    put_record(&mut stream, b"");
    assert_eq!(stream, b"\x02\0\0\0ab\0\0\0\0");
}

#[test]
fn names() {
    assert_eq!(file_name(Txid(12)), "00000000000000000012.log");
    assert_eq!(first_of("00000000000000000012.log"), Some(Txid(12)));
    let zero = "00000000000000000000.log";
    for bad in ["12.log", "0000000000000000001x.log", "00000000000000000012.log.tmp", "", zero] {
        assert_eq!(first_of(bad), None, "{bad}");
    }
}

#[test]
fn a_good_one_is_read_with_and_without_room_behind_it() {
    let (mut bytes, starts) = segment(&[&[10, 20], &[30], &[600, 500]]);
    for room in [0, 1, 5000] {
        bytes.resize(bytes.len() + room, 0);
        let (scan, seen) = scan_all(&[&bytes]);
        assert_eq!(seen, [5, 6, 7, 8, 9]);
        assert_eq!((&scan.losses[..], scan.torn, scan.last), (&[][..], None, Txid(9)));
        assert_eq!((scan.last_batch_at, scan.len), (starts[2] as u64, good().len() as u64));
        assert!(merged(&[&bytes], Txid(5), &scan) == good());
    }
}

/// A file that is cut is one whose last sectors were never written: what is left of a batch is torn, never damaged. But a file without its
/// header was cut by something other than a crash.
#[test]
fn each_truncation_is_torn_or_clean() {
    let good = good();
    for cut in 0..good.len() {
        let (scan, seen) = scan_all(&[&good[..cut]]);
        let batches = [1024, 1536, good.len()].iter().filter(|&&end| end <= cut).count();
        assert_eq!(seen.len(), [0, 2, 3][batches], "cut at {cut}");
        if cut < SECTOR_BYTES {
            assert_eq!(ranges(&scan), [(5, OPEN)], "cut at {cut}");
            continue;
        }
        assert_eq!(ranges(&scan), [], "cut at {cut}");
        let torn = scan.torn.map(|torn| (torn.from.0, torn.to.0));
        assert_eq!(torn, (cut >= 2048).then_some((8, 9)), "cut at {cut}");
    }
}

/// One flipped bit: damage, always; and only of its own batch, of which it is known what is lost.
#[test]
fn each_flipped_bit_is_damage_of_one_batch_at_most() {
    let good = good();
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (scan, seen) = scan_all(&[&flipped]);
        assert_eq!(scan.torn, None, "bit {bit}");
        assert_eq!(scan.last, Txid(9), "bit {bit}");
        let lost = ranges(&scan);
        let batch = match bit / 8 {
            ..512 => None,
            512..1024 => Some((5, 6)),
            1024..1536 => Some((7, 7)),
            1536.. => Some((8, 9)),
        };
        assert!(lost.is_empty() || Some(lost[0]) == batch, "bit {bit}: {lost:?}");
        let left = 5 - lost.first().map_or(0, |(from, to)| to - from + 1);
        assert_eq!(seen.len() as u64, left, "bit {bit}");
        if lost.is_empty() {
            assert!(merged(&[&flipped], Txid(5), &scan) == good, "bit {bit}");
        }
    }
}

/// Every set of sectors of the last batch may have reached the disk when the machine stops.
#[test]
fn any_missing_sectors_are_torn_in_the_last_batch_and_damage_before_it() {
    let good = good();
    for missing in 1..8usize {
        let mut torn = good.clone();
        for sector in (0..3).filter(|sector| missing & (1 << sector) != 0) {
            torn[1536 + sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        }
        let (scan, seen) = scan_all(&[&torn]);
        assert_eq!(seen, [5, 6, 7], "{missing:b}");
        assert_eq!(ranges(&scan), [], "{missing:b}");
        assert_eq!(scan.torn.is_some(), missing != 7, "{missing:b}");
        assert_eq!((scan.last, scan.len), (Txid(7), 1536));

        // The same, and another sector of the batch has changed: no crash does that.
        for at in
            (1536..good.len()).step_by(97).filter(|at| torn[at / 512 * 512..][..512] != [0; 512])
        {
            let mut worse = torn.clone();
            worse[at] ^= 1;
            let (scan, seen) = scan_all(&[&worse]);
            let head = !(40..472).contains(&(at % 512));
            assert_eq!(ranges(&scan), if head { vec![] } else { vec![(8, 9)] }, "{missing:b} {at}");
            assert_eq!(seen, [5, 6, 7]);
        }
    }
    for (sector, lost) in [(1, (5, 6)), (2, (7, 7))] {
        let mut damaged = good.clone();
        damaged[sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        let (scan, seen) = scan_all(&[&damaged]);
        assert_eq!((ranges(&scan), scan.torn), (vec![lost], None));
        assert_eq!(seen.len() as u64, 5 - (lost.1 - lost.0 + 1));
    }
}

#[test]
fn sectors_that_nobody_knows_anything_of_leave_the_end_open() {
    let good = good();
    let mut last = good.clone();
    last[1536..].fill(1);
    assert_eq!(ranges(&scan_all(&[&last]).0), [(8, OPEN)]);
    let mut middle = good.clone();
    middle[512..1024].fill(1);
    assert_eq!(ranges(&scan_all(&[&middle]).0), [(5, 6)]);
    let mut behind = good.clone();
    behind.resize(good.len() + 5000, 0);
    behind[good.len() + 700] = 1;
    assert_eq!(ranges(&scan_all(&[&behind]).0), [], "a flip where nothing was written");
    behind[good.len() + 512..][..512].fill(1);
    assert_eq!(ranges(&scan_all(&[&behind]).0), [(10, OPEN)]);
}

/// Whatever one copy lacks, by a change or because it was never written, the other has.
#[test]
fn copies_make_up_for_each_other_sector_by_sector() {
    let good = good();
    let sectors = good.len() / SECTOR_BYTES;
    for first in 0..sectors {
        for second in (0..sectors).filter(|second| *second != first) {
            for fill in [0, 1] {
                let mut copies = [good.clone(), good.clone()];
                copies[0][first * SECTOR_BYTES..][..SECTOR_BYTES].fill(1);
                copies[1][second * SECTOR_BYTES..][..SECTOR_BYTES].fill(fill);
                let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
                let (scan, seen) = scan_all(&copies);
                assert_eq!(seen, [5, 6, 7, 8, 9], "{first} {second}");
                assert!(merged(&copies, Txid(5), &scan) == good);
            }
        }
        let (short, mut hurt) = (&good[..first * SECTOR_BYTES], good.clone());
        hurt[..first * SECTOR_BYTES].fill(1);
        let (scan, seen) = scan_all(&[short, &hurt]);
        assert_eq!(seen, [5, 6, 7, 8, 9], "{first}");
        assert!(merged(&[short, &hurt], Txid(5), &scan) == good);
    }
}

/// Bytes after the end of one copy are not a record where another copy that has all of them ends; a copy that lacks some proves nothing.
#[test]
fn a_copy_that_has_the_last_batch_tells_where_the_log_ends() {
    let good = good();
    let mut dirty = good.clone();
    dirty.resize(good.len() + 600, 7);
    let mut with_room = good.clone();
    with_room.resize(good.len() + 5000, 0);
    for whole in [&good, &with_room] {
        let copies: [&[u8]; 2] = [&dirty, whole];
        let (scan, _) = scan_all(&copies);
        assert_eq!((ranges(&scan), scan.torn, scan.last), (vec![], None, Txid(9)));
        assert!(merged(&copies, Txid(5), &scan) == good);
    }
    let mut no_header = good.clone();
    no_header[..SECTOR_BYTES].fill(1);
    let mut bad_last = good.clone();
    bad_last[good.len() - SECTOR_BYTES..].fill(1);
    for part in [&good[..1536], &good[..SECTOR_BYTES], &no_header, &bad_last, &[]] {
        assert_eq!(ranges(&scan_all(&[&dirty, part]).0), [(10, OPEN)], "{}", part.len());
    }
}

#[test]
fn another_layout_is_named_and_a_wrong_name_is_not_taken() {
    let mut newer = good();
    newer[8] = 9;
    let crc = crc32fast::hash(&newer[..28]);
    newer[28..32].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(scan(&[&newer], Txid(5), &mut |_, _, _| ()), Err(Foreign(9)));
    let renamed = scan(&[&good()], Txid(6), &mut |_, _, _| panic!("not its records")).unwrap();
    assert_eq!(ranges(&renamed), [(6, OPEN)]);
}

proptest::proptest! {
    #[test]
    fn scans_are_total(rubbish: Vec<u8>, at in 0..3000usize) {
        let _ = scan(&[&rubbish], Txid(5), &mut |_, _, _| ());
        let mut bytes = good();
        let at = at.min(bytes.len());
        bytes.splice(at.., rubbish);
        let result = scan(&[&bytes], Txid(5), &mut |_, _, _| ()).unwrap();
        let _ = merged(&[&bytes], Txid(5), &result);
    }
}

/// A sector whose records would be numbered beyond the last number was never written here.
#[test]
fn records_behind_the_last_number_are_lost_and_nothing_overflows() {
    let (good, starts) = segment(&[&[10]]);
    for (first, count) in [(u64::MAX, 1), (u64::MAX - 1, 2), (u64::MAX - 5, u32::MAX)] {
        let mut file = good.clone();
        let mut stream = Vec::new();
        (0..2).for_each(|_| put_record(&mut stream, &[7]));
        let position =
            SectorPosition { segment: Txid(5), index: (file.len() / SECTOR_BYTES) as u64 };
        sector::encode(&mut file, position, (Txid(first), count), Epoch(3), &stream);
        let (scan, seen) = scan_all(&[&file]);
        assert_eq!((seen, ranges(&scan)), (vec![5], vec![(6, OPEN)]), "{first}");
        assert_eq!(scan.losses[0].at as usize, starts[0] + SECTOR_BYTES);
    }
}
