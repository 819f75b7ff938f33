//! SequenceFiles as input.

use std::cell::RefCell;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

use super::file::{Header, SequenceReader};
use crate::error::{Error, Result};
use crate::input::{Format, Source, SplitRange};
use crate::sources::{READ_BYTES, SourceReader};
use crate::writable::Writable;

/// Hadoop's SequenceFiles: keys and values as serialised Writables, whose classes [`sequence`](crate::sequence) describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceFiles;

impl Format for SequenceFiles {
    type Record<'a> = (&'a [u8], &'a [u8]);

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        read_sequence(split, source, |_| Ok(()), each)
    }
}

/// Hadoop's SequenceFiles with keys of class `K::CLASS` and values of class `V::CLASS`; files with other classes are refused.
pub struct SequencePairs<K, V> {
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Writable, V: Writable> SequencePairs<K, V> {
    /// Makes the format.
    pub fn new() -> Self {
        SequencePairs { types: PhantomData }
    }
}

impl<K: Writable, V: Writable> Default for SequencePairs<K, V> {
    fn default() -> Self {
        SequencePairs::new()
    }
}

impl<K, V> Clone for SequencePairs<K, V> {
    fn clone(&self) -> Self {
        SequencePairs { types: PhantomData }
    }
}

impl<K: Writable + 'static, V: Writable + 'static> Format for SequencePairs<K, V> {
    type Record<'a> = (K::View<'a>, V::View<'a>);

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let check = |header: &Header| {
            let found = format!("{} and {}", header.key_class, header.value_class);
            let wanted = format!("{} and {}", K::CLASS, V::CLASS);
            if found == wanted { Ok(()) } else { Err(Error::InputClass { found, wanted }.into()) }
        };
        read_sequence(split, source, check, &mut |at, (key, value)| {
            each(at, (K::read(key)?, V::read(value)?))
        })
    }
}

fn read_sequence(
    split: SplitRange,
    source: &mut dyn Source,
    check: impl FnOnce(&Header) -> Result<()>,
    each: &mut impl for<'a> FnMut(u64, (&'a [u8], &'a [u8])) -> Result<()>,
) -> Result<()> {
    let source = RefCell::new(source);
    let open =
        |offset| BufReader::with_capacity(READ_BYTES, SharedReader { source: &source, offset });
    let mut reader = SequenceReader::split(split.start, split.end, open)?;
    check(reader.header())?;
    loop {
        let at = reader.position();
        match reader.next_pair()? {
            Some(pair) => each(at, pair)?,
            None => return Ok(()),
        }
    }
}

/// Several readers of one source, used one after the other.
struct SharedReader<'a, 'b> {
    source: &'a RefCell<&'b mut dyn Source>,
    offset: u64,
}

impl Read for SharedReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut source = self.source.borrow_mut();
        let mut reader = SourceReader { source: &mut **source, offset: self.offset };
        let count = reader.read(buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}
