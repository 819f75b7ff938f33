//! What the allocator keeps of freed memory.
//!
//! By itself glibc learns from the first large block that is freed to take the next one from a heap, of which each thread has its own, and keeps as much there:
//! a daemon that read a few large requests would hold one of them per thread for good.

#![allow(unsafe_code, reason = "the call has no safe form; the proof is at the call")]

/// From here on a block is mapped for itself and goes back to the system when it is freed, bytes. Larger than what is allocated often: packets, pieces of answers.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 4 << 20;
/// Free bytes at the end of a heap that are kept: some packets, so that heaps do not grow and shrink all the time.
#[cfg(target_env = "gnu")]
const FREE_BYTES_MAX: i32 = 8 << 20;

/// From now on large blocks of this process go back to the system when they are freed. Other allocators than glibc's do so by themselves.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in
        [(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN), (libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX)]
    {
        // SAFETY: the call takes two numbers and sets a field of the allocator under its lock.
        let is_set = unsafe { libc::mallopt(what, bytes) } == 1;
        debug_assert!(is_set, "glibc knows both and takes any number below half of a heap");
    }
}
