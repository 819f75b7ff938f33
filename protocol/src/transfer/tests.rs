//! Bytes of headers, acks and operations, and proofs.

use super::*;
use crate::auth::{Fingerprint, Key};
use crate::frame;
use crate::token::{Receipt, TokenKeys};
use proptest::prelude::*;

const HEADER: PacketHeader =
    PacketHeader { data_bytes: 1000, sequence: 7, offset: 1 << 33, last: true, sync: false };

#[test]
fn names_of_datanodes_are_known_from_others() {
    for (user, number) in [(0, 0), (1000, 1), (u32::MAX, u128::MAX)] {
        let name = local_socket_name(user, number);
        assert_eq!(local_socket_user(&name), Some(user), "{name}");
        assert!(name.len() <= 107, "the kernel takes no longer names");
    }
    let name = local_socket_name(1000, 7);
    let (head, tail) = (&name[1..], &name[..name.len() - 1]);
    for other in ["", "hanno-worker-1", "/run/docker.sock", "hanno-datanode-", head, tail] {
        assert_eq!(local_socket_user(other), None, "{other}");
    }
    for (from, to) in [("7", "70"), ("7", "g"), ("1000", "01000"), ("1000", "+1000")] {
        assert_eq!(local_socket_user(&name.replace(from, to)), None, "{to}");
    }
    for (from, to) in [("1000", ""), ("1000", "-1"), ("1000", "4294967296"), ("h", "H")] {
        assert_eq!(local_socket_user(&name.replace(from, to)), None, "{to}");
    }
}

#[test]
fn golden_bytes() {
    let bytes = HEADER.encode();
    assert_eq!(bytes[..20], [0xe8, 3, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[20..], crc32fast::hash(&bytes[..20]).to_le_bytes());
    assert_eq!((HEADER.crc_bytes(), HEADER.end()), (8, (1 << 33) + 1000));

    let ack = Ack::new(258, Status::Success).followed_by(&[Status::Unreachable]);
    let bytes = ack.encode();
    assert_eq!(bytes[..8], [2, 1, 0, 0, 2, 0, 3, 0]);
    assert_eq!(Ack::decode(bytes), Ok(ack));
    assert_eq!(ack.failure(), Some((1, Status::Unreachable)));

    let last = Ack::new(258, Status::Success).with_wait(0).with_receipt(Receipt([9; 8]));
    let ack = Ack::new(258, Status::Success).with_wait(7).ahead_of(&last);
    let ack = Ack::new(258, Status::Success).with_wait(0x0102_0304).ahead_of(&ack);
    let bytes = ack.encode();
    assert_eq!(bytes[..8], [2, 1, 0, 0, 3, 0, 0, 0]);
    assert_eq!(bytes[24..36], [4, 3, 2, 1, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&bytes[88..104], &bytes[104..112]), (&[0; 16][..], &[9; 8][..]));
    assert_eq!(bytes[216..], crc32fast::hash(&bytes[..216]).to_le_bytes());
    assert_eq!(Ack::decode(bytes), Ok(ack));
    assert_eq!(ack.waits_ms(), [0x0102_0304, 7, 0]);
}

#[test]
fn operations_have_a_stable_encoding() {
    let keys = TokenKeys::new(&Key::new([3; 32]));
    let (block, stamp) = (BlockId(5), GenerationStamp(1001));
    let token = keys.issue(block, stamp, AccessMode::Read, 1000).name;
    let read = Operation::Read(Read { block, stamp, token, offset: 512, length: 100 });
    let bytes = frame::encode(&read);
    // variant, block, stamp as varints; then mode, period, expiry, holder; then offset and length
    assert_eq!(bytes[8..], [1, 5, 0xe9, 7, 0, 0, 0xa8, 0xd7, 0x24, 0, 0x80, 4, 100]);
    let token = keys.issue_to(keys.holder("ada"), block, stamp, (AccessMode::Read, 1000)).name;
    let of_ada =
        frame::encode(&Operation::Read(Read { block, stamp, token, offset: 1, length: 2 }));
    assert_eq!(of_ada[17..], [182, 208, 212, 224, 181, 144, 168, 208, 123, 1, 2]);
    let back = frame::read::<Operation>(&mut &bytes[..], FRAME_BYTES_MAX, "operation").unwrap();
    assert_eq!(back, read);
    let nothing = frame::encode(&Reply::Nothing { since: Some(stamp) });
    assert_eq!(nothing[8..], [6, 1, 0xe9, 7]);
}

#[test]
fn a_proof_is_good_once_on_its_connection() {
    let keys = TokenKeys::new(&Key::new([3; 32]));
    let token = keys.issue(BlockId(5), GenerationStamp(1001), AccessMode::Read, 1000);
    let session = Session::new([1; NONCE_BYTES], [2; NONCE_BYTES], None);
    let hello = session.hello(&token, DatanodeId([7; 16]));
    assert!(session.is_hello(&token, DatanodeId([7; 16]), &hello));
    assert!(!session.is_hello(&token, DatanodeId([8; 16]), &hello));
    for other in [None, Some(Fingerprint::of(b"another"))] {
        let seen = Session::new([1; NONCE_BYTES], [2; NONCE_BYTES], other);
        let own = Fingerprint::of(b"the DataNode's own");
        let encrypted = Session::new([1; NONCE_BYTES], [2; NONCE_BYTES], Some(own));
        let hello = encrypted.hello(&token, DatanodeId([7; 16]));
        assert!(encrypted.is_hello(&token, DatanodeId([7; 16]), &hello));
        assert!(!seen.is_hello(&token, DatanodeId([7; 16]), &hello), "somebody is between both");
    }
    let (mut ours, mut theirs) = (session.clone(), session.clone());
    let first = ours.prove(&token, b"operation");
    assert!(theirs.is_proven(&token, b"operation", &first));
    assert!(!theirs.is_proven(&token, b"operation", &first), "it is the second by now");
    let mut elsewhere = Session::new([1; NONCE_BYTES], [3; NONCE_BYTES], None);
    assert!(!elsewhere.is_proven(&token, b"operation", &first));
    assert!(!session.clone().is_proven(&token, b"Operation", &first));
}

#[test]
fn a_permit_is_good_for_one_block_of_one_operation() {
    let keys = TokenKeys::new(&Key::new([3; 32]));
    let (block, stamp) = (BlockId(5), GenerationStamp(1001));
    let token = keys.issue(block, stamp, AccessMode::Write, 1000);
    let mut session = Session::new([1; NONCE_BYTES], [2; NONCE_BYTES], None);
    let permit = session.permit(&token, block, stamp);
    let more = MoreBlock { block, stamp, token: token.name, permit };
    assert!(session.is_permitted(&token, &more));
    for other in [
        MoreBlock { block: BlockId(6), ..more.clone() },
        MoreBlock { stamp: GenerationStamp(1002), ..more.clone() },
        MoreBlock { permit: [0; PROOF_BYTES], ..more.clone() },
    ] {
        assert!(!session.is_permitted(&token, &other), "{other:?}");
    }
    assert!(!Session::new([1; NONCE_BYTES], [3; NONCE_BYTES], None).is_permitted(&token, &more));
    let other = keys.issue(block, GenerationStamp(1002), AccessMode::Write, 1000);
    assert!(!session.is_permitted(&other, &more), "of another token");
    session.prove(&token, b"operation");
    assert!(!session.is_permitted(&token, &more), "the operation is over");
    let write = Write {
        block,
        stamp,
        token: token.name,
        client: ClientId([9; 16]),
        resume: None,
        prefix_only: false,
        pipeline: Vec::new(),
        durable: 2,
        cached: true,
    };
    let many = Operation::WriteMany(WriteMany { first: write, more: vec![more; 3] });
    let bytes = frame::encode(&many);
    assert_eq!(bytes[8], 8, "the last variant");
    let back = frame::read::<Operation>(&mut &bytes[..], FRAME_BYTES_MAX, "operation").unwrap();
    assert_eq!(back, many);
    assert!((bytes.len() - 8) * WRITE_MANY_MAX / 3 < FRAME_BYTES_MAX, "the longest fits");
}

#[test]
fn every_flipped_bit_is_found() {
    let header = HEADER.encode();
    for bit in 0..header.len() * 8 {
        let mut bad = header;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(PacketHeader::decode(bad).is_err(), "bit {bit}");
    }
    let ack = Ack::new(3, Status::Full).encode();
    for bit in 0..ack.len() * 8 {
        let mut bad = ack;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Ack::decode(bad).is_err(), "bit {bit}");
    }
}

#[test]
fn what_no_member_sends_is_no_ack() {
    let ack = Ack::new(258, Status::Success).with_wait(7).encode();
    for at in [6, 20, 21, 28, 87] {
        let mut other = ack;
        other[at] = 1;
        seal(&mut other);
        assert_eq!(Ack::decode(other), Err(TransferError::Damaged { what: "ack" }), "{at}");
    }
}

#[test]
fn rules_are_checked_before_lengths_are_believed() {
    let check = |header: PacketHeader| PacketHeader::decode(header.encode());
    assert_eq!(
        check(PacketHeader { data_bytes: u32::MAX, ..HEADER }),
        Err(TransferError::TooLong { data_bytes: u32::MAX })
    );
    assert_eq!(
        check(PacketHeader { offset: 100, ..HEADER }),
        Err(TransferError::Misplaced { offset: 100 })
    );
    let offset = u64::MAX - 511;
    assert_eq!(check(PacketHeader { offset, ..HEADER }), Err(TransferError::Misplaced { offset }));
}

proptest! {
    #[test]
    fn headers_and_acks_come_back(
        data_bytes in 0..=DATA_BYTES_MAX as u32,
        sequence: u32,
        chunk in 0..1u64 << 40,
        last: bool,
        sync: bool,
        behind in proptest::collection::vec(0..7u8, 0..PIPELINE_MEMBERS_MAX),
    ) {
        let header =
            PacketHeader { data_bytes, sequence, offset: chunk * CHUNK_BYTES as u64, last, sync };
        prop_assert_eq!(PacketHeader::decode(header.encode()), Ok(header));
        let behind: Vec<Status> =
            behind.into_iter().filter_map(Status::from_byte).collect();
        let ack = Ack::new(sequence, Status::Success).followed_by(&behind);
        prop_assert_eq!(&ack.statuses()[1..], &behind[..]);
        prop_assert_eq!(Ack::decode(ack.encode()), Ok(ack));
    }

    #[test]
    fn decoding_is_total(header: [u8; PACKET_HEADER_BYTES], ack: [u8; ACK_BYTES], bytes: Vec<u8>) {
        let _ = PacketHeader::decode(header);
        let _ = Ack::decode(ack);
        let _ = crate::wire::decode::<Operation>(&bytes, "operation");
        let _ = crate::wire::decode::<Answer>(&bytes, "answer");
    }
}
