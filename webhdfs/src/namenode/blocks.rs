//! Where the blocks of a file are, told piece by piece as the client reads: a file of many blocks takes no more memory or time at once than one of few.
//!
//! Nothing is done for a client that is gone or does not read. The length of the file is the one that it had at the beginning.

use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::namesystem::{CallOrigin, Namesystem};
use futures_util::{StreamExt, stream};
use protocol::namenode::{LocatedBlock, calls};
use protocol::{DfsPath, RemoteError};

use super::{Asked, Face};
use crate::error::WebError;
use crate::json;
use crate::json::locations::{Nodes, Shape, block_pool};
use crate::op::Op;

/// Bytes of the file that are asked for first, when the size of its blocks is not known: a thousand blocks of the smallest size.
const FIRST_BYTES: u64 = 1 << 30;
/// Full blocks that are asked for at once from then on.
const PAGE_BLOCKS: u64 = 500;
/// Blocks that are told at once: about a millisecond, and a hundred kilobytes.
const PIECE_BLOCKS: usize = 64;

/// What is still to be told.
struct Blocks<N> {
    namesystem: N,
    path: DfsPath,
    user: String,
    host: String,
    address: Option<IpAddr>,
    shape: Shape,
    /// Blocks that are known and not told.
    known: std::vec::IntoIter<LocatedBlock>,
    /// Where the next page begins, where the range ends, and how long a page is, in bytes of the file.
    next: u64,
    end: u64,
    page_bytes: u64,
    is_first: bool,
}

impl<N: Namesystem> Face<N> {
    pub(super) async fn locations(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let offset = asked.query.size("offset", 0)?.unwrap_or(0);
        let length = asked.query.size("length", 0)?.unwrap_or(u64::MAX);
        let located = self.located(asked, offset, length.min(FIRST_BYTES)).await?;
        let status = located.status;
        let told_to = |block: &LocatedBlock| block.offset.saturating_add(block.length);
        let next = located.blocks.last().map_or(status.length, told_to);
        let shape = match asked.op {
            Op::GetFileBlockLocations => Shape::Public,
            _ => {
                let pool = block_pool(self.cluster(asked).await?.cluster);
                Shape::Located { pool, nodes: Nodes::new(self.nodes(asked).await?) }
            }
        };
        let last = match &shape {
            Shape::Public => None,
            Shape::Located { .. } if next >= status.length => located.blocks.last().cloned(),
            Shape::Located { .. } => {
                let last = self.located(asked, status.length.saturating_sub(1), 1).await?;
                last.blocks.into_iter().next_back()
            }
        };
        let head = Bytes::from(shape.head(&status, last.as_ref()));
        let blocks = Blocks {
            namesystem: self.inner.namesystem.clone(),
            path: asked.path.clone(),
            user: asked.user.clone(),
            host: self.host_of(asked).await?,
            address: asked.address(),
            shape,
            known: located.blocks.into_iter(),
            next,
            end: offset.saturating_add(length).min(status.length),
            page_bytes: status.block_size.max(1).saturating_mul(PAGE_BLOCKS),
            is_first: true,
        };
        let head = stream::once(async move { Ok(head) });
        let tail = stream::once(async { Ok(Bytes::from_static(Shape::TAIL)) });
        let rest = stream::try_unfold(blocks, Blocks::step);
        let body = Body::from_stream(head.chain(rest).chain(tail));
        Ok((StatusCode::OK, [(header::CONTENT_TYPE, json::CONTENT_TYPE)], body).into_response())
    }
}

impl<N: Namesystem> Blocks<N> {
    /// The next piece as JSON. An error ends the connection: the client sees an unfinished body.
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, RemoteError> {
        if self.known.len() == 0 && self.next < self.end {
            self.ask().await?;
        }
        let mut bytes = Vec::new();
        for block in self.known.by_ref().take(PIECE_BLOCKS) {
            if !std::mem::take(&mut self.is_first) {
                bytes.push(b',');
            }
            serde_json::to_writer(&mut bytes, &self.shape.block(&block))
                .expect("bodies have text keys and plain values");
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        // Others have their turn.
        tokio::task::yield_now().await;
        Ok(Some((Bytes::from(bytes), self)))
    }

    /// Asks for the next page.
    async fn ask(&mut self) -> Result<(), RemoteError> {
        let (path, offset) = (self.path.clone(), self.next);
        let length = self.page_bytes.min(self.end - offset);
        let call = calls::Locations { path, offset, length };
        let from = CallOrigin { host: &self.host, address: self.address, call: None };
        let located = self.namesystem.ask(&self.user, from, call).await?;
        let end = located.blocks.last().map(|block| block.offset.saturating_add(block.length));
        // A file that was cut meanwhile has no more.
        self.next = end.filter(|end| *end > offset).unwrap_or(self.end);
        self.known = located.blocks.into_iter();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use protocol::namenode::{Answer, Call, FileStatus, LocatedBlocks, Reply};
    use serde_json::Value;

    use super::*;
    use crate::json::locations::tests::{block, node};

    const BLOCKS: u64 = 2000;
    const BLOCK_BYTES: u64 = 100;

    /// A file of many blocks, and which ranges of it were asked for.
    #[derive(Clone)]
    struct File {
        status: FileStatus,
        asked: Arc<Mutex<Vec<(u64, u64)>>>,
    }

    impl Namesystem for File {
        async fn call(&self, _: &str, _: CallOrigin<'_>, call: Call) -> Answer {
            let Call::Locations { offset, length, .. } = call else { panic!("{call:?}") };
            self.asked.lock().push((offset, length));
            let numbers = offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES);
            let blocks = numbers.map(|number| LocatedBlock {
                offset: number * BLOCK_BYTES,
                length: BLOCK_BYTES,
                ..block(vec![node(1, 9864)])
            });
            let (status, blocks) = (self.status.clone(), blocks.collect());
            Ok(Reply::Located(LocatedBlocks { status, blocks }))
        }
    }

    /// Whoever reads a little has the NameNode do a little.
    #[tokio::test]
    async fn blocks_are_asked_for_and_told_in_pieces_as_they_are_read() {
        let asked = Arc::default();
        let file = File { status: json::status::tests::file(), asked: Arc::clone(&asked) };
        let mut blocks = Blocks {
            namesystem: file,
            path: DfsPath::root(),
            user: "ann".to_owned(),
            host: String::new(),
            address: None,
            shape: Shape::Public,
            known: Vec::new().into_iter(),
            next: 0,
            end: BLOCKS * BLOCK_BYTES,
            page_bytes: PAGE_BLOCKS * BLOCK_BYTES,
            is_first: true,
        };
        let mut told = b"[".to_vec();
        while let Some((piece, rest)) = blocks.step().await.unwrap() {
            assert!(piece.len() < 64 << 10, "{}", piece.len());
            if told.len() == 1 {
                assert_eq!(*asked.lock(), [(0, PAGE_BLOCKS * BLOCK_BYTES)]);
            }
            told.extend_from_slice(&piece);
            blocks = rest;
        }
        told.push(b']');
        let told: Vec<Value> = serde_json::from_slice(&told).unwrap();
        let offsets: Vec<u64> =
            told.iter().map(|block| block["offset"].as_u64().unwrap()).collect();
        assert_eq!(offsets, (0..BLOCKS).map(|number| number * BLOCK_BYTES).collect::<Vec<_>>());
        assert_eq!(asked.lock().len() as u64, BLOCKS / PAGE_BLOCKS);
    }
}
