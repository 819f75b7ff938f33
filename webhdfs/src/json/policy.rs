//! Storage policies. Every volume is a disk here, so every file has HDFS's default policy, `HOT`; the others are known by
//! name, for clients that list them.

use serde_json::{Value, json};

/// The policy of every file.
pub const HOT: &str = "HOT";
/// Its number.
pub const HOT_ID: u8 = 7;

/// A policy: number, name, types of storage, fall-backs when a file is made, and when it is copied.
struct Policy(
    u8,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const POLICIES: [Policy; 8] = [
    Policy(1, "PROVIDED", &["PROVIDED", "DISK"], &["PROVIDED", "DISK"], &["PROVIDED", "DISK"]),
    Policy(2, "COLD", &["ARCHIVE"], &[], &[]),
    Policy(5, "WARM", &["DISK", "ARCHIVE"], &["DISK", "ARCHIVE"], &["DISK", "ARCHIVE"]),
    Policy(HOT_ID, HOT, &["DISK"], &[], &["ARCHIVE"]),
    Policy(10, "ONE_SSD", &["SSD", "DISK"], &["SSD", "DISK"], &["SSD", "DISK"]),
    Policy(12, "ALL_SSD", &["SSD"], &["DISK"], &["DISK"]),
    Policy(14, "ALL_NVDIMM", &["NVDIMM"], &["DISK"], &["DISK"]),
    Policy(15, "LAZY_PERSIST", &["RAM_DISK", "DISK"], &["DISK"], &["DISK"]),
];

impl Policy {
    fn json(&self) -> Value {
        let Policy(id, name, storage_types, creation, replication) = self;
        json!({
            "id": id,
            "name": name,
            "storageTypes": storage_types,
            "creationFallbacks": creation,
            "replicationFallbacks": replication,
            "copyOnCreateFile": *name == "LAZY_PERSIST",
        })
    }
}

/// `BlockStoragePolicies`.
pub fn all() -> Value {
    let list: Vec<Value> = POLICIES.iter().map(Policy::json).collect();
    json!({ "BlockStoragePolicies": { "BlockStoragePolicy": list } })
}

/// `ErasureCodingPolicies` where there are none.
pub fn no_erasure_coding() -> Value {
    json!({ "ErasureCodingPolicies": { "ErasureCodingPolicyInfo": [] } })
}

/// `ErasureCodingCodecs` where there are none.
pub fn no_codecs() -> Value {
    json!({ "ErasureCodingCodecs": {} })
}

/// `BlockStoragePolicy` of every file.
pub fn hot() -> Value {
    let hot = POLICIES.iter().find(|policy| policy.1 == HOT).map(Policy::json);
    json!({ "BlockStoragePolicy": hot })
}

/// True if there is a policy of this name.
pub fn is_known(name: &str) -> bool {
    POLICIES.iter().any(|policy| policy.1.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_hdfss_numbers() {
        let all = all();
        let list = all["BlockStoragePolicies"]["BlockStoragePolicy"].as_array().unwrap();
        let numbers: Vec<_> = list.iter().map(|policy| policy["id"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 5, 7, 10, 12, 14, 15]);
        assert_eq!(hot()["BlockStoragePolicy"], list[3]);
        assert!(is_known("cold") && !is_known("x"));
    }
}
