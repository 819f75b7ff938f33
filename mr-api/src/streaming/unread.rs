//! Options of a streaming job that it does not read, because another is missing.

use protocol::property::{Properties, keys};

/// What a job has, as far as options belong to it.
pub(super) struct Has {
    pub(super) reduce: bool,
    pub(super) combiner: bool,
    /// `-partitioner` or the property.
    pub(super) partitioner: bool,
    /// `KeyFieldBasedPartitioner`.
    pub(super) key_partitioner: bool,
    /// `KeyFieldBasedComparator`.
    pub(super) key_comparator: bool,
    pub(super) aggregate: bool,
    pub(super) key_value_input: bool,
}

/// Warnings about them.
pub(super) fn warnings(properties: &Properties, has: &Has) -> Vec<String> {
    let given = |name: &str| properties.contains_key(name);
    let mut unread = Vec::new();
    for (name, is_given) in [
        ("option -combiner", has.combiner),
        ("the partitioner", has.partitioner),
        ("the comparator of keys", given(keys::COMPARATOR.name())),
    ] {
        if is_given && !has.reduce {
            unread.push(format!("{name} has no effect: nothing is reduced"));
        }
    }
    let with_partitioner = "-partitioner KeyFieldBasedPartitioner";
    let comparator = keys::COMPARATOR.name();
    let with_comparator = format!("-D {comparator}=KeyFieldBasedComparator");
    let (both, either) = (
        format!("{with_partitioner} or {with_comparator}"),
        has.key_partitioner || has.key_comparator,
    );
    for (name, is_read, missing) in [
        (keys::PARTITIONER_OPTIONS.name(), has.key_partitioner, with_partitioner),
        (keys::PARTITIONER_FIELDS.name(), has.key_partitioner, with_partitioner),
        (keys::COMPARATOR_OPTIONS.name(), has.key_comparator, &with_comparator),
        (keys::KEY_FIELD_SEPARATOR.name(), either, &both),
        (keys::UNIQUE_VALUES_MAX.name(), has.aggregate, "-reducer aggregate"),
        (
            keys::KEY_VALUE_SEPARATOR.name(),
            has.key_value_input,
            "-inputformat KeyValueTextInputFormat",
        ),
    ] {
        if given(name) && !is_read {
            unread.push(format!("property {name} has no effect without {missing}"));
        }
    }
    let (options, fields) = (keys::PARTITIONER_OPTIONS.name(), keys::PARTITIONER_FIELDS.name());
    if has.key_partitioner && given(options) && given(fields) {
        unread.push(format!("property {options} has no effect beside {fields}"));
    }
    unread
}
