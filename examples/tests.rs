//! The tests within the example programs. Cargo builds examples either as programs or as tests, and the end-to-end tests run them as
//! programs.

#![allow(dead_code, reason = "whole programs, of which only the tests are used")]

#[path = "bloom_join.rs"]
mod bloom_join;
#[path = "connected_components.rs"]
mod connected_components;
#[path = "cooccurrence.rs"]
mod cooccurrence;
#[path = "grep.rs"]
mod grep;
#[path = "inverted_index.rs"]
mod inverted_index;
#[path = "joins.rs"]
mod joins;
#[path = "mean_variance.rs"]
mod mean_variance;
#[path = "pagerank.rs"]
mod pagerank;
#[path = "pi.rs"]
mod pi;
#[path = "secondary_sort.rs"]
mod secondary_sort;
#[path = "sessions.rs"]
mod sessions;
#[path = "shortest_paths.rs"]
mod shortest_paths;
#[path = "teragen.rs"]
mod teragen;
#[path = "terasort.rs"]
mod terasort;
#[path = "teravalidate.rs"]
mod teravalidate;
#[path = "tfidf.rs"]
mod tfidf;
#[path = "topk.rs"]
mod topk;
#[path = "triangles.rs"]
mod triangles;
#[path = "wordcount.rs"]
mod wordcount;
