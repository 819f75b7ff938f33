//! The blocks of a file: a picture of which DataNode has which, and a table.

use std::collections::BTreeMap;

use daemon::page::format;
use maud::{Markup, html};
use protocol::namenode::{LocatedBlock, LocatedBlocks};

/// Blocks listed for one file; more are counted. A file of ten thousand blocks holds more than a terabyte.
const BLOCKS_SHOWN_MAX: usize = 1_000;
/// Columns of the picture; of longer files a column is several blocks, and shows the worst of them.
const COLUMNS_MAX: usize = 200;
/// DataNodes drawn, those with most blocks first; the rest is counted.
const ROWS_MAX: usize = 40;
/// Width of the drawing in its own units; about the pixels of a wide page.
const WIDTH: f64 = 1200.0;
/// Room for the names of DataNodes.
const MARGIN: f64 = 190.0;
const ROW_HEIGHT: f64 = 20.0;
/// Widest column: a file of two blocks is not drawn as two walls.
const COLUMN_WIDTH_MAX: f64 = 48.0;
const AXIS_HEIGHT: f64 = 20.0;

/// How a block stands, worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Health {
    Good,
    /// It has fewer replicas than its file wants.
    Low,
    /// It has no replica.
    Missing,
    /// All its replicas are bad.
    Corrupt,
}

impl Health {
    fn of(block: &LocatedBlock, wanted: usize) -> Self {
        match block.replicas.len() {
            _ if block.corrupt => Health::Corrupt,
            0 => Health::Missing,
            count if count < wanted => Health::Low,
            _ => Health::Good,
        }
    }

    fn is_bad(self) -> bool {
        self >= Health::Missing
    }

    /// Its class in the picture.
    fn class(self) -> &'static str {
        match self {
            Health::Good => "block good",
            Health::Low => "block low",
            Health::Missing | Health::Corrupt => "block bad",
        }
    }
}

/// Which DataNode has which block: a row each, a column per block.
pub(super) fn picture(located: &LocatedBlocks) -> Markup {
    let blocks = &located.blocks;
    if blocks.is_empty() {
        return html! {};
    }
    let wanted = usize::from(located.status.replication);
    let group = blocks.len().div_ceil(COLUMNS_MAX);
    let columns: Vec<&[LocatedBlock]> = blocks.chunks(group).collect();
    let rows = rows(blocks);
    let listed = &rows[..rows.len().min(ROWS_MAX)];
    let width = ((WIDTH - MARGIN) / columns.len() as f64).min(COLUMN_WIDTH_MAX);
    let height = AXIS_HEIGHT + ROW_HEIGHT * listed.len().max(1) as f64;
    let gap = if width > 6.0 { 2.0 } else { 0.0 };
    html! {
        div.legend {
            span { i.good {} "all replicas" } span { i.low {} "too few replicas" } span { i.bad {} "no good replica" }
            @if group > 1 { span { "a column is " (group) " blocks and shows the worst of them" } }
        }
        div.timeline tabindex="0" role="group" aria-label="Blocks and DataNodes" { svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label="Which DataNode has which block" {
            @for (place, column) in columns.iter().enumerate() {
                @let x = MARGIN + width * place as f64;
                @if column.iter().any(|block| Health::of(block, wanted).is_bad()) {
                    rect.block.bad x=(x) y="2" width=(width - gap) height=(height - 2.0) {
                        title { (column[0].id) " has no good replica" }
                    }
                }
                @if place % 10 == 0 { text x=(x) y="14" { (place * group) } }
            }
            @for (line, (name, _)) in listed.iter().enumerate() {
                @let y = AXIS_HEIGHT + ROW_HEIGHT * line as f64;
                text x="6" y=(y + 14.0) { (name) }
                @for (place, column) in columns.iter().enumerate() {
                    @let here = || column.iter().filter(|block| holds(block, name));
                    @if let Some(first) = here().next() {
                        @let worst = here().map(|block| Health::of(block, wanted)).max().unwrap_or(Health::Good);
                        rect class=(worst.class()) x=(MARGIN + width * place as f64) y=(y + 2.0) width=(width - gap) height=(ROW_HEIGHT - 4.0) rx="2" {
                            title { (first.id) ", " (format::bytes(first.length)) " on " (name) }
                        }
                    }
                }
            }
        } }
        @if rows.len() > ROWS_MAX { p.soft { (rows.len() - ROWS_MAX) " more DataNodes are not drawn." } }
    }
}

fn holds(block: &LocatedBlock, address: &str) -> bool {
    block.replicas.iter().any(|replica| replica.transfer_address == address)
}

/// DataNodes with how many of the blocks they hold, most first.
fn rows(blocks: &[LocatedBlock]) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in blocks.iter().flat_map(|block| &block.replicas) {
        *counts.entry(&replica.transfer_address).or_default() += 1;
    }
    let mut rows: Vec<(&str, usize)> = counts.into_iter().collect();
    if rows.len() > ROWS_MAX {
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }
    rows
}

/// Every block with its replicas.
pub(super) fn table(located: &LocatedBlocks) -> Markup {
    let wanted = usize::from(located.status.replication);
    let hidden = located.blocks.len().saturating_sub(BLOCKS_SHOWN_MAX);
    html! {
        @if located.blocks.is_empty() { p.empty { "The file is empty." } } @else {
            div.scroll { table.cards {
                caption.unseen { "Blocks of the file" }
                thead { tr {
                    th scope="col" { "Block" } th.number scope="col" { "Offset" } th.number scope="col" { "Size" } th scope="col" { "State" }
                    th scope="col" { "Replicas" }
                } }
                @for block in located.blocks.iter().take(BLOCKS_SHOWN_MAX) {
                    tr {
                        td { code { (block.id) "_" (block.stamp) } }
                        td.number { (format::count(block.offset)) } td.number { (format::bytes(block.length)) }
                        td {
                            @match Health::of(block, wanted) {
                                Health::Corrupt => span.state.bad { "corrupt" },
                                Health::Missing => span.state.bad { "missing" },
                                Health::Low => span.state.warn { (block.replicas.len()) " of " (wanted) },
                                Health::Good => span.state.good { "good" },
                            }
                        }
                        td.wide {
                            @for replica in &block.replicas {
                                span.chip title={ (replica.host) " " (replica.rack) } { (replica.transfer_address) } " "
                            }
                        }
                    }
                }
            } }
            @if hidden > 0 { p.soft { (format::count(hidden as u64)) " more blocks are not listed." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::auth::Key;
    use protocol::namenode::{DatanodeInfo, FileStatus};
    use protocol::token::{AccessMode, TokenKeys};
    use protocol::{BlockId, GenerationStamp};

    fn file(count: u64, holders: &[&str]) -> LocatedBlocks {
        let replica = |address: &&str| DatanodeInfo {
            transfer_address: (*address).to_owned(),
            ..DatanodeInfo::default()
        };
        let keys = TokenKeys::new(&Key::new([1; 32]));
        let block = |number| LocatedBlock {
            id: BlockId(number),
            stamp: GenerationStamp(1),
            offset: number << 20,
            length: 1 << 20,
            replicas: holders.iter().map(replica).collect(),
            damaged: Vec::new(),
            durable_min: 0,
            corrupt: false,
            open: false,
            has_unseen_members: false,
            token: keys.issue(BlockId(number), GenerationStamp(1), AccessMode::Read, 0),
        };
        let status = FileStatus { replication: 2, ..FileStatus::default() };
        LocatedBlocks { status, blocks: (0..count).map(block).collect() }
    }

    #[test]
    fn health_shows_and_a_long_file_stays_small() {
        let good = picture(&file(3, &["a:1", "b:1"])).into_string();
        assert_eq!(good.matches("block good").count(), 6, "{good}");
        let low = picture(&file(3, &["a:1"])).into_string();
        assert_eq!(low.matches("block low").count(), 3, "{low}");
        let missing = picture(&file(1, &[])).into_string();
        assert!(missing.contains("has no good replica"), "{missing}");
        let long = picture(&file(50_000, &["a:1", "b:1"])).into_string();
        for (holders, state) in
            [(&["a:1", "b:1"][..], "good"), (&["a:1"], "1 of 2"), (&[], "missing")]
        {
            let table = table(&file(1, holders)).into_string();
            assert!(table.contains(&format!(">{state}<")), "{table}");
        }
        assert!(long.len() < 100_000 && long.contains("a column is 250 blocks"), "{}", long.len());
    }
}
