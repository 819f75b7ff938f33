//! The search for blocks with too few replicas after a start.
//!
//! While DataNodes report what they hold, nearly every block has too few replicas for a moment. Queueing ten million of them would cost a
//! gigabyte and order copies that nobody needs. So replicas are only counted until the picture is complete; then all blocks are examined
//! once, a few pages at a time.
//!
//! ```text
//! start -> Counting -> safe mode is over, and every DataNode has reported or GRACE_MS are over -> Walking -> Done
//! ```

use super::manager::{Blocks, Survey};
use crate::core::namespace::Namespace;
use crate::core::nodes::Datanodes;

/// How long after the end of safe mode to wait for DataNodes that have not reported everything: the extension of HDFS.
const GRACE_MS: u64 = 30_000;
/// Pages of the block table examined in one step: 2,048 blocks, about a millisecond.
const PAGES_PER_STEP: usize = 32;

impl Blocks {
    /// Begins to count: the namespace was loaded and no replica is known.
    pub fn begin_survey(&mut self, ns: &Namespace) {
        if ns.block_count() > 0 {
            self.survey = Survey::Counting { since_ms: None };
        }
    }

    /// True while a lack of replicas means nothing.
    pub(super) fn is_counting(&self) -> bool {
        matches!(self.survey, Survey::Counting { .. })
    }

    /// One step outside start-up safe mode. True if something is left to do at once.
    pub fn survey_step(&mut self, ns: &Namespace, nodes: &mut Datanodes, now_ms: u64) -> bool {
        match &mut self.survey {
            Survey::Done => return false,
            Survey::Counting { since_ms } => {
                let since = *since_ms.get_or_insert(now_ms);
                if !nodes.all_reported() && now_ms.saturating_sub(since) < GRACE_MS {
                    return false;
                }
                let mut pages = ns.blocks.page_starts();
                pages.reverse();
                self.survey = Survey::Walking(pages);
            }
            Survey::Walking(_) => {}
        }
        for _ in 0..PAGES_PER_STEP {
            let page = match &mut self.survey {
                Survey::Walking(pages) => pages.pop(),
                _ => None,
            };
            let Some(page) = page else {
                self.survey = Survey::Done;
                return false;
            };
            for block in ns.blocks.page_of(page) {
                self.evaluate(ns, nodes, block);
            }
        }
        true
    }
}
