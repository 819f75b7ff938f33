//! Large buffers kept between tasks of one process.
//!
//! The first touch of a page can cost far more than any use of it. A process that runs task after task should therefore keep its sort
//! buffers in between. Where the system has pages of several sizes, it can be asked for large ones ([`Advise`]): tables and sort buffers are read in no order,
//! and with small pages most such reads also look up where their page is.
//!
//! Invariant: the pool keeps at most its limit of bytes (counted by capacity); the excess is freed.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// Told where a large buffer lies and how many bytes it may get, before they are touched. Must not touch them.
pub type Advise = fn(start: *const u8, bytes: usize);

/// From here on a buffer is large: some pages of 2 MiB.
const LARGE_BYTES_MIN: usize = 8 << 20;

/// Reserves memory for buffers, and has the system know of large ones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reserve {
    advise: Option<Advise>,
}

impl Reserve {
    /// Makes room for exactly so many more elements.
    pub(crate) fn exact<T>(self, buffer: &mut Vec<T>, additional: usize) {
        let before = buffer.capacity();
        buffer.reserve_exact(additional);
        let bytes = buffer.capacity() * size_of::<T>();
        if let Some(advise) = self.advise
            && buffer.capacity() > before
            && bytes >= LARGE_BYTES_MIN
        {
            advise(buffer.as_ptr().cast(), bytes);
        }
    }
}

/// A shared store of empty, already allocated vectors. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct BufferPool {
    shared: Arc<Mutex<Shared>>,
    reserve: Reserve,
}

#[derive(Debug, Default)]
struct Shared {
    bytes_max: usize,
    bytes: usize,
    buffers: Vec<PooledBuffer>,
}

#[derive(Debug)]
struct PooledBuffer {
    bytes: usize,
    buffer: Box<dyn Any + Send>,
}

impl BufferPool {
    /// Makes a pool that keeps up to `bytes_max` bytes; `BufferPool::default()` keeps none.
    pub fn new(bytes_max: usize) -> Self {
        let shared = Shared { bytes_max, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), reserve: Reserve::default() }
    }

    /// Has `advise` told of each large buffer that its users make.
    pub fn advising(self, advise: Advise) -> Self {
        Self { reserve: Reserve { advise: Some(advise) }, ..self }
    }

    /// How its users make room.
    pub(crate) fn reserve(&self) -> Reserve {
        self.reserve
    }

    /// The largest kept vector of this type, or a new one.
    pub(crate) fn take<T: Send + 'static>(&self) -> Vec<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting =
            shared.buffers.iter().enumerate().filter(|(_, pooled)| pooled.buffer.is::<Vec<T>>());
        let Some((position, _)) = fitting.max_by_key(|(_, pooled)| pooled.bytes) else {
            return Vec::new();
        };
        let pooled = shared.buffers.swap_remove(position);
        shared.bytes -= pooled.bytes;
        pooled.buffer.downcast().map(|buffer| *buffer).unwrap_or_default()
    }

    /// Takes back a vector and empties it.
    pub(crate) fn give<T: Send + 'static>(&self, mut buffer: Vec<T>) {
        buffer.clear();
        self.give_filled(buffer);
    }

    /// Takes back a vector with its elements.
    pub(crate) fn give_filled<T: Send + 'static>(&self, buffer: Vec<T>) {
        let bytes = buffer.capacity() * size_of::<T>();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > 0 && shared.bytes + bytes <= shared.bytes_max {
            shared.bytes += bytes;
            shared.buffers.push(PooledBuffer { bytes, buffer: Box::new(buffer) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_told_of_once() {
        static TOLD: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
        let pool = BufferPool::new(0)
            .advising(|start, bytes| TOLD.lock().unwrap().push((start.addr(), bytes)));
        let mut buffer = Vec::<u64>::new();
        let count = LARGE_BYTES_MIN / 8;
        pool.reserve().exact(&mut buffer, count - 1);
        assert_eq!(*TOLD.lock().unwrap(), []);
        pool.reserve().exact(&mut buffer, count);
        pool.reserve().exact(&mut buffer, count);
        assert_eq!(*TOLD.lock().unwrap(), [(buffer.as_ptr().addr(), LARGE_BYTES_MIN)]);
    }

    #[test]
    fn keeps_the_largest_within_its_limit() {
        let pool = BufferPool::new(1000);
        pool.give(Vec::<u8>::with_capacity(100));
        pool.give(Vec::<u8>::with_capacity(600));
        pool.give(Vec::<u8>::with_capacity(400));
        pool.give(Vec::<u64>::with_capacity(10));
        assert_eq!(pool.take::<u8>().capacity(), 600);
        assert_eq!(pool.take::<u64>().capacity(), 10);
        assert_eq!(pool.take::<u8>().capacity(), 100, "the third did not fit");
        assert_eq!(pool.take::<u8>().capacity(), 0);
        let none = BufferPool::default();
        none.give(Vec::<u8>::with_capacity(1));
        assert_eq!(none.take::<u8>().capacity(), 0);
    }
}
