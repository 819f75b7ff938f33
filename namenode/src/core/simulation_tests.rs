//! The block manager with simulated DataNodes.
