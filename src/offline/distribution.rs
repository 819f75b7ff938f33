//! How many files have which size: sizes in steps, those over a limit together in the last one, and totals.

use std::collections::BTreeMap;
use std::io::{self, Write};

use namenode::core::namespace::Namespace;

use super::walk;
use crate::output::report_size;

/// Hadoop's: files over 128 GiB are counted together.
const SIZE_MAX: u64 = 1 << 37;
/// Hadoop's: 2 MiB.
const STEP: u64 = 2 << 20;

/// The classes of sizes.
#[derive(Clone, Copy)]
pub(super) struct Classes {
    size_max: u64,
    step: u64,
    /// Sizes as people write them.
    is_readable: bool,
}

impl Classes {
    /// 0 stands for the default.
    pub(super) fn new(size_max: u64, step: u64, is_readable: bool) -> Self {
        let or = |given: u64, default| if given == 0 { default } else { given };
        Classes { size_max: or(size_max, SIZE_MAX), step: or(step, STEP), is_readable }
    }

    fn last(&self) -> u64 {
        self.size_max.div_ceil(self.step)
    }

    /// The class of a file: class 0 has the empty ones, class `n` those up to `n` steps.
    fn of(&self, length: u64) -> u64 {
        if length > self.size_max { self.last() } else { length.div_ceil(self.step) }
    }

    fn name(&self, class: u64, longest: u64) -> String {
        let end = class.saturating_mul(self.step);
        if !self.is_readable {
            return end.to_string();
        }
        let (bracket, start) = match class {
            0 => ('[', 0),
            _ => ('(', end - self.step),
        };
        let end = if class == self.last() { longest } else { end };
        format!("{bracket}{}, {}]", report_size(start), report_size(end))
    }
}

/// Counts that may be over 64 bits: lengths times replicas of all files.
#[derive(Default)]
struct Totals {
    files: u64,
    directories: u64,
    blocks: u64,
    space: u128,
    longest: u64,
}

pub(super) fn write(ns: &Namespace, classes: Classes, out: &mut dyn Write) -> io::Result<()> {
    let (mut counts, mut totals) = (BTreeMap::<u64, u64>::new(), Totals::default());
    walk(ns, &mut |_, _, inode| {
        let Some(file) = inode.file() else {
            totals.directories += 1;
            return Ok(());
        };
        let length = file.visible_length();
        *counts.entry(classes.of(length)).or_default() += 1;
        totals.files += 1;
        totals.blocks += file.blocks.len() as u64;
        totals.space += u128::from(length) * u128::from(file.replication);
        totals.longest = totals.longest.max(length);
        Ok(())
    })?;
    let title = if classes.is_readable { "Size Range" } else { "Size" };
    writeln!(out, "{title}\tNumFiles")?;
    for (class, count) in counts {
        writeln!(out, "{}\t{count}", classes.name(class, totals.longest))?;
    }
    let Totals { files, directories, blocks, space, longest } = totals;
    writeln!(
        out,
        "totalFiles = {files}\ntotalDirectories = {directories}\ntotalBlocks = {blocks}\ntotalSpace = {space}\nmaxFileSize = {longest}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn text(classes: Classes) -> String {
        let mut out = Vec::new();
        write(&sample(), classes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn files_are_counted_by_size() {
        let totals = "totalFiles = 2\ntotalDirectories = 3\ntotalBlocks = 1\ntotalSpace = 30\nmaxFileSize = 10\n";
        let plain = text(Classes::new(100, 4, false));
        assert_eq!(plain, format!("Size\tNumFiles\n0\t1\n12\t1\n{totals}"));
        let readable = text(Classes::new(0, 0, true));
        let expected = format!("Size Range\tNumFiles\n[0 B, 0 B]\t1\n(0 B, 2 MB]\t1\n{totals}");
        assert_eq!(readable, expected);
    }

    #[test]
    fn a_size_at_a_border_is_in_the_lower_class_and_a_large_one_in_the_last() {
        let classes = Classes::new(100, 10, true);
        for (length, class) in
            [(0, 0), (1, 1), (10, 1), (11, 2), (100, 10), (101, 10), (u64::MAX, 10)]
        {
            assert_eq!(classes.of(length), class, "{length}");
        }
        assert_eq!(classes.name(10, 5000), "(90 B, 4.88 KB]");
        assert_eq!(Classes::new(0, 0, false).last(), 65_536);
    }
}
