//! The tests within the programs that learn. Cargo builds examples either as programs or as tests, and the end-to-end tests run them as
//! programs.

#![allow(dead_code, reason = "whole programs, of which only the tests are used")]

#[path = "als.rs"]
mod als;
#[path = "analogies.rs"]
mod analogies;
#[path = "kmeans.rs"]
mod kmeans;
#[path = "linear_regression.rs"]
mod linear_regression;
#[path = "logistic_regression.rs"]
mod logistic_regression;
#[path = "naive_bayes.rs"]
mod naive_bayes;
#[path = "pca.rs"]
mod pca;
#[path = "word_vectors.rs"]
mod word_vectors;
