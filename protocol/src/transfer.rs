//! Block bytes between clients and DataNodes; filled in with the DataNode.
