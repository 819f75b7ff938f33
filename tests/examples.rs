//! The tests within the example programs: cargo builds examples for tests either as programs or as tests, and other tests here run
//! them as programs.

#[path = "../examples/grep.rs"]
mod grep;
#[path = "../examples/joins.rs"]
mod joins;
#[path = "../examples/pagerank.rs"]
mod pagerank;
#[path = "../examples/secondary_sort.rs"]
mod secondary_sort;
#[path = "../examples/teragen.rs"]
mod teragen;
#[path = "../examples/terasort.rs"]
mod terasort;
#[path = "../examples/teravalidate.rs"]
mod teravalidate;
#[path = "../examples/wordcount.rs"]
mod wordcount;
