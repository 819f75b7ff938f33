//! Storage policies, and the erasure coding that is not there.

use protocol::storage::{StoragePolicy, StorageType};
use serde_json::{Value, json};

fn of(policy: StoragePolicy) -> Value {
    let names = |types: &[StorageType]| types.iter().map(|t| t.as_str()).collect::<Vec<_>>();
    let policy = policy.definition();
    json!({
        "id": policy.id,
        "name": policy.name,
        "storageTypes": names(policy.storage_types),
        "creationFallbacks": names(policy.creation_fallbacks),
        "replicationFallbacks": names(policy.replication_fallbacks),
        "copyOnCreateFile": policy.copy_on_create,
    })
}

/// `BlockStoragePolicies`.
pub fn all() -> Value {
    let list = StoragePolicy::ALL.map(of);
    json!({ "BlockStoragePolicies": { "BlockStoragePolicy": list } })
}

/// `BlockStoragePolicy`.
pub fn one(policy: StoragePolicy) -> Value {
    json!({ "BlockStoragePolicy": of(policy) })
}

/// `ErasureCodingPolicies` where there are none.
pub fn no_erasure_coding() -> Value {
    json!({ "ErasureCodingPolicies": { "ErasureCodingPolicyInfo": [] } })
}

/// `ErasureCodingCodecs` where there are none.
pub fn no_codecs() -> Value {
    json!({ "ErasureCodingCodecs": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_hadoops_fields() {
        let all = all();
        let list = all["BlockStoragePolicies"]["BlockStoragePolicy"].as_array().unwrap();
        assert_eq!(list.len(), 8);
        let ssd = json!({
            "id": 12,
            "name": "ALL_SSD",
            "storageTypes": ["SSD"],
            "creationFallbacks": ["DISK"],
            "replicationFallbacks": ["DISK"],
            "copyOnCreateFile": false,
        });
        assert_eq!((&list[5], &one(StoragePolicy::AllSsd)["BlockStoragePolicy"]), (&ssd, &ssd));
        assert_eq!(list[7]["copyOnCreateFile"], true);
    }
}
