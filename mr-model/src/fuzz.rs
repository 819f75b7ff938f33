//! Decoders that accept any bytes, for `fuzz/`: keys and values of map outputs.

use crate::datum::{Datum, Desc, Serde};

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[("map_outputs", map_outputs)];

fn datum<D: Datum>(bytes: &[u8]) {
    let _ = (D::read(bytes).is_ok(), D::describe(bytes));
    let _ = D::text(bytes, &mut Vec::new());
    let mut rest = bytes;
    if D::read_part(&mut rest).is_ok() {
        assert!(bytes.ends_with(rest), "a part is taken from the front");
    }
}

/// Keys and values of map outputs.
pub fn map_outputs(bytes: &[u8]) {
    datum::<u64>(bytes);
    datum::<f64>(bytes);
    datum::<String>(bytes);
    datum::<Vec<u8>>(bytes);
    datum::<(String, i32)>(bytes);
    datum::<(Option<String>, Desc<Vec<u8>>, bool)>(bytes);
    datum::<(Serde<Option<(String, i64)>>, Serde<Vec<Option<f32>>>)>(bytes);
    datum::<(Desc<(String, u16)>, Option<(i64, String)>)>(bytes);
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
