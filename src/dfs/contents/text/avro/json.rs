//! A value in Avro's binary form as JSON in the form of Java's `JsonEncoder`: a value of a union names its branch, and bytes appear as Latin-1 characters.
//!
//! Invariants: reading is total; it nests at most [`DEPTH_MAX`] deep, produces at most [`TEXT_BYTES_MAX`] of text, and takes at most [`EMPTY_MAX`] values
//! without bytes, whatever a file declares.

use std::collections::BTreeMap;

use mr_api::writable::show;

use super::schema::{Id, Schema, Type};

/// How deep values may nest, within recursive types too.
pub(super) const DEPTH_MAX: usize = 256;
/// Longest text of one record: 256 MiB, as long as the longest block.
pub(super) const TEXT_BYTES_MAX: usize = 256 << 20;
/// Most items of a list, and records of a block, that take no byte: a file can claim any number of those.
pub(super) const EMPTY_MAX: u64 = 1 << 20;

/// What is wrong with a value.
pub(super) type Problem = String;

/// Reads the values of a record.
struct Record<'a> {
    schema: &'a Schema,
    rest: &'a [u8],
    text_left: usize,
    empty_left: u64,
}

/// Takes one record from the front of `bytes` and appends its text.
pub(super) fn append<'a>(
    schema: &'a Schema,
    bytes: &mut &'a [u8],
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let (text_left, empty_left) = (TEXT_BYTES_MAX, EMPTY_MAX);
    let mut record = Record { schema, rest: bytes, text_left, empty_left };
    record.value(schema.root, 0, out)?;
    *bytes = record.rest;
    Ok(())
}

/// A number as Avro writes one: zigzag, seven bits a byte, low first.
pub(super) fn long(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

impl<'a> Record<'a> {
    fn value(&mut self, id: Id, depth: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(format!("values nest more than {DEPTH_MAX} deep"));
        }
        let schema = self.schema;
        match schema.get(id) {
            Type::Null => self.put(b"null", out),
            Type::Boolean => match self.take(1)? {
                [0] => self.put(b"false", out),
                [1] => self.put(b"true", out),
                _ => Err("a boolean is neither true nor false".to_owned()),
            },
            Type::Int => {
                let number = i32::try_from(self.long()?).map_err(|_| "an int is too large")?;
                self.put(number.to_string().as_bytes(), out)
            }
            Type::Long => {
                let number = self.long()?;
                self.put(number.to_string().as_bytes(), out)
            }
            Type::Float => self.number(4, "org.apache.hadoop.io.FloatWritable", out),
            Type::Double => self.number(8, "org.apache.hadoop.io.DoubleWritable", out),
            Type::Bytes => {
                let bytes = self.run()?;
                self.latin(bytes, out)
            }
            Type::Fixed { bytes, .. } => {
                let bytes = self.take(*bytes)?;
                self.latin(bytes, out)
            }
            Type::Text => {
                let text = self.text()?;
                self.quote(text, out)
            }
            Type::Enum { symbols, .. } => {
                let symbol = usize::try_from(self.long()?).ok().and_then(|at| symbols.get(at));
                self.quote(symbol.ok_or("a symbol that the schema lacks")?, out)
            }
            Type::Union(branches) => {
                let branch = usize::try_from(self.long()?).ok().and_then(|at| branches.get(at));
                self.branch(*branch.ok_or("a branch that the schema lacks")?, depth, out)
            }
            Type::Array(items) => self.array(*items, depth, out),
            Type::Map(values) => self.map(*values, depth, out),
            Type::Record { fields, .. } => {
                self.put(b"{", out)?;
                for (at, (name, of)) in fields.iter().enumerate() {
                    self.key(name, at == 0, out)?;
                    self.value(*of, depth + 1, out)?;
                }
                self.put(b"}", out)
            }
        }
    }

    /// `null`, or an object with one field that has the name of the branch's type.
    fn branch(&mut self, id: Id, depth: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        let of = self.schema.get(id);
        if matches!(of, Type::Null) {
            return self.put(b"null", out);
        }
        self.put(b"{", out)?;
        self.key(of.name(), true, out)?;
        self.value(id, depth + 1, out)?;
        self.put(b"}", out)
    }

    fn array(&mut self, items: Id, depth: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        self.put(b"[", out)?;
        let mut is_first = true;
        while let Some(count) = self.item_count()? {
            for _ in 0..count {
                if !std::mem::take(&mut is_first) {
                    self.put(b",", out)?;
                }
                let before = self.rest.len();
                self.value(items, depth + 1, out)?;
                self.note_empty(before)?;
            }
        }
        self.put(b"]", out)
    }

    /// Entries in the order of their keys, which makes the output reproducible; of equal keys the last counts.
    fn map(&mut self, values: Id, depth: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        let mut entries = BTreeMap::new();
        while let Some(count) = self.item_count()? {
            for _ in 0..count {
                // A key takes at least one byte.
                let (key, mut value) = (self.text()?.to_owned(), Vec::new());
                self.value(values, depth + 1, &mut value)?;
                entries.insert(key, value);
            }
        }
        self.put(b"{", out)?;
        for (at, (key, value)) in entries.into_iter().enumerate() {
            self.key(&key, at == 0, out)?;
            // Its text was counted when it was made.
            out.extend_from_slice(&value);
        }
        self.put(b"}", out)
    }

    /// Items of the next part of a list or map; `None` at its end. A negative count is followed by the part's length in bytes, for readers that skip it.
    fn item_count(&mut self) -> Result<Option<u64>, Problem> {
        let count = self.long()?;
        if count < 0 {
            self.long()?;
        }
        Ok(Some(count.unsigned_abs()).filter(|count| *count > 0))
    }

    /// Counts the value just read if it took no byte; `before` bytes were left before it.
    fn note_empty(&mut self, before: usize) -> Result<(), Problem> {
        if self.rest.len() == before {
            let left = self.empty_left.checked_sub(1);
            self.empty_left = left.ok_or_else(too_many_empty)?;
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64, Problem> {
        long(&mut self.rest).ok_or_else(cut_off)
    }

    /// Bytes that follow their length.
    fn run(&mut self) -> Result<&'a [u8], Problem> {
        let count = usize::try_from(self.long()?).map_err(|_| "a negative length")?;
        self.take(count)
    }

    fn text(&mut self) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.run()?).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Problem> {
        let left = self.text_left.checked_sub(bytes);
        self.text_left =
            left.ok_or_else(|| format!("a record is longer than {TEXT_BYTES_MAX} bytes of text"))?;
        Ok(())
    }

    fn put(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        self.charge(text.len())?;
        out.extend_from_slice(text);
        Ok(())
    }

    fn quote(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), Problem> {
        let start = out.len();
        serde_json::to_writer(&mut *out, text).map_err(|error| error.to_string())?;
        self.charge(out.len() - start)
    }

    /// Each byte is a character.
    fn latin(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        self.quote(&bytes.iter().copied().map(char::from).collect::<String>(), out)
    }

    fn key(&mut self, name: &str, is_first: bool, out: &mut Vec<u8>) -> Result<(), Problem> {
        if !is_first {
            self.put(b",", out)?;
        }
        self.quote(name, out)?;
        self.put(b":", out)
    }

    /// A floating-point number as Java prints it; values without a JSON number are in quotes.
    fn number(&mut self, count: usize, class: &str, out: &mut Vec<u8>) -> Result<(), Problem> {
        let (mut bytes, start) = (self.take(count)?.to_vec(), out.len());
        bytes.reverse();
        show(class, &bytes, out).map_err(|_| cut_off())?;
        if !out[start..].last().is_some_and(u8::is_ascii_digit) {
            out.insert(start, b'"');
            out.push(b'"');
        }
        self.charge(out.len() - start)
    }
}

fn cut_off() -> Problem {
    "a value is cut off".to_owned()
}

/// The refusal of a list, or block, of values without bytes.
pub(super) fn too_many_empty() -> Problem {
    format!("more than {EMPTY_MAX} values that take no byte")
}
