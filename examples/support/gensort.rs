//! The records of the sort benchmark, as `gensort` and Hadoop's TeraGen make them: record `n` is the same everywhere, whoever makes it.
//!
//! ```text
//!  0  10 bytes  key: the top bytes of a 128-bit random number
//! 10   2        00 11
//! 12  32        the record's number, hexadecimal
//! 44   4        88 99 AA BB
//! 48  48        the low 48 bits of the random number: each of their twelve hexadecimal digits four times
//! 96   4        CC DD EE FF
//! ```

use crate::record::{KEY_BYTES, RECORD_BYTES};

/// The random numbers: x becomes `A * x + C` modulo 2 to the 128th.
const A: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const C: u128 = 0x4a69_6d47_7261_7952_4950_2020_2020_2001;
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The records from a given number on.
pub struct Records {
    number: u64,
    random: u128,
}

impl Records {
    /// Begins with record `number`, without making those before it.
    pub fn starting_at(number: u64) -> Self {
        Records { number, random: skip(u128::from(number) + 1) }
    }
}

impl Iterator for Records {
    type Item = [u8; RECORD_BYTES];

    fn next(&mut self) -> Option<Self::Item> {
        let record = record(self.number, self.random);
        self.number += 1;
        self.random = self.random.wrapping_mul(A).wrapping_add(C);
        Some(record)
    }
}

fn record(number: u64, random: u128) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..KEY_BYTES].copy_from_slice(&random.to_be_bytes()[..KEY_BYTES]);
    record[10..12].copy_from_slice(&[0x00, 0x11]);
    record[12..28].fill(b'0');
    for (place, byte) in record[28..44].iter_mut().enumerate() {
        *byte = HEX[(number >> (60 - 4 * place)) as usize & 15];
    }
    record[44..48].copy_from_slice(&[0x88, 0x99, 0xaa, 0xbb]);
    for (place, group) in record[48..96].chunks_exact_mut(4).enumerate() {
        group.fill(HEX[(random >> (44 - 4 * place)) as usize & 15]);
    }
    record[96..].copy_from_slice(&[0xcc, 0xdd, 0xee, 0xff]);
    record
}

/// The random number after `steps` steps from 0: composes the step with itself according to the bits of `steps`.
fn skip(mut steps: u128) -> u128 {
    let (mut random, mut a, mut c) = (0u128, A, C);
    while steps > 0 {
        if steps & 1 == 1 {
            random = random.wrapping_mul(a).wrapping_add(c);
        }
        c = c.wrapping_mul(a.wrapping_add(1));
        a = a.wrapping_mul(a);
        steps >>= 1;
    }
    random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_gensort_s() {
        let records: Vec<_> = Records::starting_at(0).take(40).collect();
        assert_eq!(&records[0][..10], b"JimGrayRIP");
        assert_eq!(&records[0][12..44], b"00000000000000000000000000000000");
        assert_eq!(&records[31][12..44], b"0000000000000000000000000000001F");
        let mut random = C;
        for (number, record) in records.iter().enumerate() {
            assert_eq!(record[..10], random.to_be_bytes()[..10], "{number}");
            assert_eq!(Some(*record), Records::starting_at(number as u64).next());
            random = random.wrapping_mul(A).wrapping_add(C);
        }
    }
}
