//! A format of an author's own, written and read with the names of this crate alone: neither a job nor a runner is needed.

use std::collections::BTreeMap;
use std::fs::File;

use mr_formats::sources::LocalSource;
use mr_formats::{
    Cut, Format, NewFile, OutputFormat, RecordWriter, Result, Source, SplitRange, ToText,
};

/// Records of a length byte and text, in groups of three. Behind them is where each group begins, and how many there are, a byte each.
#[derive(Clone, Debug)]
struct Grouped;

#[derive(Default)]
struct GroupedWriter {
    ready: Vec<u8>,
    begins: Vec<u8>,
    records: usize,
}

impl OutputFormat for Grouped {
    fn begin(&self, _: &NewFile<'_>) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(GroupedWriter::default()))
    }
}

impl RecordWriter for GroupedWriter {
    fn write(&mut self, key: &dyn ToText, _: &dyn ToText) -> Result<bool> {
        if self.records.is_multiple_of(3) {
            self.begins.push(u8::try_from(self.ready.len())?);
        }
        let mut text = Vec::new();
        key.write_text(&mut text);
        self.ready.push(u8::try_from(text.len())?);
        self.ready.extend(text);
        self.records += 1;
        Ok(true)
    }

    fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.ready
    }

    fn end(&mut self) -> Result<()> {
        self.ready.extend(&self.begins);
        self.ready.push(u8::try_from(self.begins.len())?);
        Ok(())
    }
}

/// Where groups begin, and where the last of them ends.
fn index(source: &mut dyn Source) -> Result<Vec<u64>> {
    let end = source.length().ok_or("compressed")?.checked_sub(1).ok_or("cut off")?;
    let count = *source.slice(end)?.first().ok_or("cut off")?;
    let begin = end.checked_sub(count.into()).ok_or("cut off")?;
    let begins = source.slice(begin)?.get(..count.into()).ok_or("cut off")?;
    Ok(begins.iter().map(|at| u64::from(*at)).chain([begin]).collect())
}

impl Format for Grouped {
    type Record<'a> = &'a [u8];

    fn cut(&self) -> Cut {
        Cut::Groups
    }

    fn groups(&self, source: &mut dyn Source) -> Result<Vec<u64>> {
        let mut begins = index(source)?;
        begins.pop();
        Ok(begins)
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        for group in index(source)?.windows(2) {
            if !(split.start..split.end).contains(&group[0]) {
                continue;
            }
            let mut at = group[0];
            while at < group[1] {
                let (length, rest) = source.slice(at)?.split_first().ok_or("cut off")?;
                each(at, rest.get(..(*length).into()).ok_or("cut off")?)?;
                at += u64::from(*length) + 1;
            }
        }
        Ok(())
    }
}

#[test]
fn every_record_is_in_one_split_wherever_files_are_cut() {
    let properties = BTreeMap::new();
    let file = NewFile { name: "part", codec: None, in_blocks: false, properties: &properties };
    let mut writer = Grouped.begin(&file).unwrap();
    let written: Vec<String> = (0..10).map(|number| "x".repeat(number)).collect();
    for text in &written {
        assert!(writer.write(&text.as_str(), &()).unwrap());
    }
    writer.end().unwrap();
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), writer.ready()).unwrap();
    let mut source = LocalSource::new(File::open(place.path()).unwrap());
    assert_eq!(Grouped.groups(&mut source).unwrap(), [0, 6, 21, 45]);
    let end = source.length().unwrap();
    for cut in 0..=end {
        let mut read = Vec::new();
        for split in [SplitRange { start: 0, end: cut }, SplitRange { start: cut, end }] {
            let mut each = |_, record: &[u8]| -> Result<()> {
                read.push(String::from_utf8_lossy(record).into_owned());
                Ok(())
            };
            Grouped.read(split, &mut source, &mut each).unwrap();
        }
        assert_eq!(read, written, "cut at {cut}");
    }
}
