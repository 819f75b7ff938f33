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
    pub(super) map_script: bool,
    /// Or a combiner, which has the pipes of both sides.
    pub(super) reduce_script: bool,
    /// The mapper's script gets lines of text.
    pub(super) map_input_is_text: bool,
    /// `-cmdenv`.
    pub(super) variables: bool,
    pub(super) key_value_input: bool,
    /// Each map gets a number of lines.
    pub(super) counts_lines: bool,
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
        (keys::LINES_PER_MAP.name(), has.counts_lines, "-inputformat NLineInputFormat"),
    ] {
        if given(name) && !is_read {
            unread.push(format!("property {name} has no effect without {missing}"));
        }
    }
    unread.extend(of_scripts(properties, has));
    let (options, fields) = (keys::PARTITIONER_OPTIONS.name(), keys::PARTITIONER_FIELDS.name());
    if has.key_partitioner && given(options) && given(fields) {
        unread.push(format!("property {options} has no effect beside {fields}"));
    }
    unread
}

/// Those that say how a script is fed, read and started, where there is none.
fn of_scripts(properties: &Properties, has: &Has) -> Vec<String> {
    let (mapper, reducer) = ("a command as -mapper", "a command as -reducer or -combiner");
    let map_output = has.map_script || has.reduce_script;
    let rows = [
        (keys::MAP_INPUT_ENCODING.name(), has.map_script, mapper),
        (keys::MAP_INPUT_SEPARATOR.name(), has.map_script, mapper),
        (keys::IGNORE_KEY.name(), has.map_script, mapper),
        (keys::MAP_OUTPUT_ENCODING.name(), map_output, mapper),
        (keys::MAP_OUTPUT_SEPARATOR.name(), map_output, mapper),
        (keys::MAP_OUTPUT_KEY_FIELDS.name(), map_output, mapper),
        (keys::REDUCE_INPUT_ENCODING.name(), has.reduce_script, reducer),
        (keys::REDUCE_INPUT_SEPARATOR.name(), has.reduce_script, reducer),
        (keys::REDUCE_OUTPUT_ENCODING.name(), has.reduce_script, reducer),
        (keys::REDUCE_OUTPUT_SEPARATOR.name(), has.reduce_script, reducer),
        (keys::REDUCE_OUTPUT_KEY_FIELDS.name(), has.reduce_script, reducer),
        (keys::REPORTER_PREFIX.name(), map_output, "a command"),
        (keys::EXIT_CODE_MATTERS.name(), map_output, "a command"),
    ];
    let unread =
        rows.into_iter().filter(|(name, is_read, _)| properties.contains_key(*name) && !is_read);
    let mut all: Vec<String> = unread
        .map(|(name, _, missing)| format!("property {name} has no effect without {missing}"))
        .collect();
    if has.variables && !map_output {
        all.push("option -cmdenv has no effect without a command".to_owned());
    }
    let ignore_key = keys::IGNORE_KEY.name();
    if properties.contains_key(ignore_key) && has.map_script && !has.map_input_is_text {
        let encoding = keys::MAP_INPUT_ENCODING.name();
        all.push(format!("property {ignore_key} has no effect without {encoding}=text: binary records have their keys"));
    }
    all
}
