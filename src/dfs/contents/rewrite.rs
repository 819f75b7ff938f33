//! `-appendToFile`, `-truncate`, `-concat`: change existing files.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::interrupt::{self, Input, Temporary};
use crate::dfs::args::flag;
use crate::dfs::command::{Command, MANY, command};
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Named, Problem, local, text_of};
use crate::dfs::target::Target;
use crate::output::report;

/// How often `-truncate -w` checks whether the last block is cut.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

const APPEND_HELP: &str = "Appends the contents of all the given local files to the given dst file. The dst file will be created if
it does not exist. If <localSrc> is -, then the input is read from stdin. Option -n represents that use
NEW_BLOCK create flag to append file.";
const TRUNCATE_HELP: &str =
    "Truncate all files that match the specified file pattern to the specified length.

  -w  Requests that the command wait for block recovery to complete, if necessary.";
const CONCAT_USAGE: &str = "<target path> <src path> <src path> ...";
const CONCAT_HELP: &str = "Concatenate existing source files into the target file. Target file and source files should be in the
same directory.";

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    command("appendToFile", "[-n] <localsrc> ... <dst>", (0, MANY), &[flag("n")], append_to_file, APPEND_HELP),
    command("concat", CONCAT_USAGE, (0, MANY), &[], concat, CONCAT_HELP),
    command("truncate", "[-w] <length> <path> ...", (2, MANY), &[flag("w")], truncate, TRUNCATE_HELP),
];

fn append_to_file(context: &Context) -> Result<(), Failure> {
    let Some((target, sources)) = context.args.operands.split_last() else {
        return Err(Failure::Text("missing destination argument".to_owned()));
    };
    if sources.is_empty() {
        return Err(Failure::Text("missing destination argument".to_owned()));
    }
    let target = Target::of(context, target)?;
    let has_stdin = sources.iter().any(|source| source == "-");
    if has_stdin && sources.len() > 1 {
        let text = "stdin (-) must be the sole input argument when present";
        return Err(Failure::Text(text.to_owned()));
    }
    target.named.cluster()?;
    if has_stdin {
        local::check_stdin()?;
    }
    let mut files = Vec::new();
    let local = sources.iter().filter(|source| *source != "-").map(|source| local::expand(source));
    for path in local.collect::<Result<Vec<_>, _>>()?.concat() {
        let file = File::open(&path).map_err(|error| Failure::local(&path, &error))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Failure::at(path.to_string_lossy(), Problem::IsDirectory));
        }
        files.push((path, file));
    }
    let Target { named: target, status, .. } = target;
    match status {
        Some(status) if status.directory => {
            let path = &target.path;
            let text = format!("Cannot append to directory {path}; already exists as a directory.");
            return Err(Failure::Text(text));
        }
        Some(_) => {}
        None => {
            // As in Hadoop, this creates the parent directories too.
            if let Some(parent) = target.path.parent() {
                let parent = Named { typed: target.typed.clone(), path: parent };
                context.store.mkdirs(&parent, context.properties.umask, true)?;
            }
            context.create_missing(&target)?;
        }
    }
    interrupt::watch(&context.store)?;
    let unfinished = Temporary::appended(target.path.clone());
    let mut writer = context.store.append(&target, context.args.has("n"))?;
    unfinished.opened(&writer);
    let fail = |path: &Path, error: &io::Error| Failure::local(path, error);
    let mut inputs: Vec<Input> = files.iter().map(|(_, file)| Input::opened(file)).collect();
    if has_stdin {
        inputs.push(Input::standard());
        writer.write_from(&mut io::stdin().lock(), &|error| fail(Path::new("-"), error))?;
    }
    for (path, mut file) in files {
        writer.write_from(&mut file, &|error| fail(&path, error))?;
    }
    let closed = writer.close(Input::of_all(inputs).ended());
    drop(unfinished);
    closed
}

fn truncate(context: &Context) -> Result<(), Failure> {
    let Some((length, paths)) = context.args.operands.split_first() else { return Ok(()) };
    let text = text_of(length)?;
    let length: i64 = text.parse().map_err(|_| {
        report!("truncate: Illegal length, a non-negative integer expected");
        Failure::Usage(format!("For input string: \"{text}\""))
    })?;
    let length =
        u64::try_from(length).map_err(|_| Failure::Usage("length must be >= 0".to_owned()))?;
    let mut output = Screen::new()?;
    let mut waiting = Vec::new();
    context.for_each(paths, |item| {
        let named = &item.named;
        if item.status.directory {
            return Err(Failure::at(&*named.typed, Problem::IsDirectory));
        }
        let typed = &named.typed;
        let size = item.status.length;
        if length > size && !item.status.open {
            return Err(Failure::Usage(format!(
                "Cannot truncate to a larger file size. Current size: {size}, truncate size: {length}."
            )));
        }
        if context.store.truncate(named, length)? {
            output.line(format_args!("Truncated {typed} to length: {length}"))
        } else if context.args.has("w") {
            waiting.push(named.clone());
            Ok(())
        } else {
            output.line(format_args!(
                "Truncating {typed} to length: {length}. Wait for block recovery to complete before further updating this file."
            ))
        }
    })?;
    for named in waiting {
        output.print(&format!("Waiting for {} ...", named.typed))?;
        output.flush()?;
        wait_closed(context, &named)?;
        output.line(format_args!("\nTruncated {} to length: {length}", named.typed))?;
    }
    output.flush()
}

fn wait_closed(context: &Context, named: &Named) -> Result<(), Failure> {
    while context.store.status(named)?.open {
        std::thread::sleep(WAIT_INTERVAL);
    }
    Ok(())
}

fn concat(context: &Context) -> Result<(), Failure> {
    let usage = CONCAT_USAGE;
    let operands = &context.args.operands;
    let Some((target, sources)) = operands.split_first() else {
        return Err(Failure::Text(format!("Target path not specified. {usage}")));
    };
    // Each match of a pattern counts.
    let mut expanded = Vec::new();
    for operand in sources {
        expanded.extend(context.expand_any(operand)?);
    }
    if expanded.len() < 2 {
        let text = format!("The number of source paths is less than 2. {usage}");
        return Err(Failure::Text(text));
    }
    let target = context.resolver.resolve(text_of(target)?)?;
    if context.store.find(&target)?.is_none_or(|status| status.directory) {
        let qualified = context.resolver.qualified(&target.path);
        let text = format!("Target path {qualified} does not exist or is not file.");
        return Err(Failure::Text(text));
    }
    let mut found = Vec::new();
    for named in expanded {
        if context.store.find(&named)?.is_none_or(|status| status.directory) {
            let qualified = context.resolver.qualified(&named.path);
            let text = format!("{qualified} does not exist or is not file.");
            return Err(Failure::Text(text));
        }
        found.push(named.cluster()?.clone());
    }
    context.store.concat(&target, &found)
}
