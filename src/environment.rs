//! `envvars` and `checknative`: for scripts that query the program's environment.

use std::ffi::OsString;

use client::config::{
    ALIASES_VARIABLE, CONFIG_VARIABLE, JOBTRACKER_VARIABLE, NAMENODE_VARIABLE, SECRET_FILE_VARIABLE,
};

use crate::connect::Overrides;
use crate::generic::DIRECTORY_VARIABLE;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, say};

/// Names the acting user.
const USER_VARIABLE: &str = "HADOOP_USER_NAME";
/// Variables that the commands read.
const VARIABLES: [&str; 7] = [
    DIRECTORY_VARIABLE,
    USER_VARIABLE,
    CONFIG_VARIABLE,
    NAMENODE_VARIABLE,
    JOBTRACKER_VARIABLE,
    SECRET_FILE_VARIABLE,
    ALIASES_VARIABLE,
];
/// Libraries of Hadoop's list and whether their function works here. Codecs are compiled in; sums and ciphers need no library.
const LIBRARIES: [(&str, bool, &str); 7] = [
    ("hadoop:  ", true, "built in"),
    ("zlib:    ", true, "built in"),
    ("zstd  :  ", true, "built in"),
    ("bzip2:   ", true, "built in"),
    ("openssl: ", true, "TLS 1.3 between machines is built in; files on disks are not encrypted"),
    ("ISA-L:   ", false, "nothing is erasure coded"),
    ("PMDK:    ", false, "blocks are not kept in persistent memory"),
];

/// `hdfs envvars`: a line for a shell for each variable.
pub(crate) fn variables(arguments: &[OsString], _: &Overrides) -> u8 {
    if let Some(word) = arguments.first() {
        report!("envvars: {}: it takes no arguments", word.to_string_lossy());
        return EXIT_USAGE;
    }
    for name in VARIABLES {
        let value = std::env::var_os(name).unwrap_or_default();
        say!("{name}='{}'", value.to_string_lossy().replace('\'', r"'\''"));
    }
    EXIT_OK
}

/// `hadoop checknative [-a]`; with `-a` it fails if anything is missing.
pub(crate) fn codecs(arguments: &[OsString], _: &Overrides) -> u8 {
    let all = match arguments {
        [] => false,
        [word] if word == "-a" => true,
        [word, ..] => {
            report!("checknative: Illegal option {}", word.to_string_lossy());
            report!("Usage: hadoop checknative [-a]");
            return EXIT_USAGE;
        }
    };
    say!("Native library checking:");
    LIBRARIES.iter().for_each(|(name, works, why)| say!("{name}{works} {why}"));
    match all && LIBRARIES.iter().any(|(_, works, _)| !works) {
        true => EXIT_FAILED,
        false => EXIT_OK,
    }
}
