//! `-du`, `-df` and `-count`: amounts of space and files.

use std::ffi::OsString;
use std::path::Path;

use protocol::namenode::{ContentSummary, FileStatus, Room};
use serde::Serialize;

use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, FsPath, Item, Named};
use crate::output::{human_size, print_json};

/// Sizes below each path.
pub(super) fn du(context: &Context) -> Result<(), Failure> {
    let here = [OsString::from(".")];
    let operands =
        if context.args.operands.is_empty() { &here[..] } else { &context.args.operands };
    let (summarise, human) =
        (context.args.has("s") || context.command == "dus", context.args.has("h"));
    let mut rows = Vec::new();
    context.for_each(operands, |item| {
        if summarise || !item.status.directory {
            rows.push(usage_row(context, &item)?);
            return Ok(());
        }
        for child in context.store.children(&item.named)? {
            match usage_row(context, &child) {
                Ok(row) => rows.push(row),
                Err(failure) => context.report(&failure),
            }
        }
        Ok(())
    })?;
    if context.args.has("json") {
        return print_json(&rows).map_err(Failure::output);
    }
    let show = |bytes| if human { human_size(bytes) } else { bytes.to_string() };
    let mut table: Vec<[String; 3]> = Vec::new();
    if context.args.has("v") && !rows.is_empty() {
        let header = ["SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME"];
        table.push(header.map(str::to_owned));
    }
    table
        .extend(rows.into_iter().map(|row| [show(row.length), show(row.space_consumed), row.path]));
    let mut screen = Screen::new()?;
    for line in left_aligned(&table) {
        screen.line(format_args!("{line}"))?;
    }
    screen.flush()
}

#[derive(Serialize)]
struct UsageRow {
    path: String,
    length: u64,
    space_consumed: u64,
}

fn usage_row(context: &Context, item: &Item) -> Result<UsageRow, Failure> {
    let mut summary = summary(context, item)?;
    if context.args.has("x") {
        summary = living(summary);
    }
    let path = item.named.typed.clone();
    Ok(UsageRow { path, length: summary.length, space_consumed: summary.space_consumed })
}

/// Totals of an item; for a file without another call.
fn summary(context: &Context, item: &Item) -> Result<ContentSummary, Failure> {
    if item.status.directory {
        return context.store.summary(&item.named);
    }
    Ok(file_summary(&item.status))
}

fn file_summary(status: &FileStatus) -> ContentSummary {
    ContentSummary {
        length: status.length,
        file_count: 1,
        space_consumed: status.length * u64::from(status.replication),
        ..ContentSummary::default()
    }
}

/// Columns padded to their widest entry, two blanks between; the last is not padded.
fn left_aligned(rows: &[[String; 3]]) -> Vec<String> {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter()
        .map(|[size, space, path]| format!("{size:<first$}  {space:<second$}  {path}"))
        .collect()
}

/// Capacity of the file system.
pub(super) fn df(context: &Context) -> Result<(), Failure> {
    let human = context.args.has("h");
    let root = [OsString::from("/")];
    let operands =
        if context.args.operands.is_empty() { &root[..] } else { &context.args.operands };
    let show = |bytes| if human { human_size(bytes) } else { bytes.to_string() };
    let mut rows = vec![["Filesystem", "Size", "Used", "Available", "Use%"].map(str::to_owned)];
    context.for_each(operands, |item| {
        let (name, [capacity, used, remaining]) = match &item.named.path {
            FsPath::Cluster(_) => (context.resolver.file_system(), cluster_space(context)?),
            FsPath::Machine(path) => ("file:///".to_owned(), machine_space(path, &item.named)?),
        };
        let share = if capacity == 0 { 0.0 } else { used as f64 * 100.0 / capacity as f64 };
        rows.push([name, show(capacity), show(used), show(remaining), format!("{share:.0}%")]);
        Ok(())
    })?;
    let mut screen = Screen::new()?;
    if rows.len() > 1 {
        for line in df_table(&rows) {
            screen.line(format_args!("{line}"))?;
        }
    }
    screen.flush()
}

/// Capacity, what is used of it and what remains, of the cluster.
fn cluster_space(context: &Context) -> Result<[u64; 3], Failure> {
    let Room { capacity, used, remaining, .. } = context.store.room()?;
    Ok([capacity, used, remaining])
}

/// The same for the disk that holds a path of this machine.
fn machine_space(path: &Path, named: &Named) -> Result<[u64; 3], Failure> {
    let space = sys::fs::space(path).map_err(|error| Failure::local(&named.typed, &error))?;
    Ok([space.capacity, space.capacity - space.available, space.available])
}

/// First column left, the others right.
fn df_table(rows: &[[String; 5]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    rows.iter()
        .map(|row| {
            let mut line = format!("{:<1$}", row[0], width(0));
            for (column, text) in row.iter().enumerate().skip(1) {
                line.push_str(&format!("  {text:>0$}", width(column)));
            }
            line
        })
        .collect()
}

/// Directories, files and bytes below each path.
pub(super) fn count(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let quota = args.has("q") || args.has("u");
    // On their own, types are silently not printed, as in HDFS.
    let types = args.value("t").filter(|_| quota).map(storage_types).transpose()?;
    let options = CountOptions {
        columns: match types {
            Some(types) => Columns::QuotasOfTypes(types),
            None if args.has("u") => Columns::Quotas,
            None if quota => Columns::QuotasAndTotals,
            None => Columns::Totals,
        },
        human: args.has("h"),
        policy: args.has("e"),
        snapshots: args.has("s"),
        without_snapshots: args.has("x") && !quota,
    };
    let mut screen = Screen::new()?;
    if args.has("x") && quota {
        screen.line(format_args!("q or u option is given, the -x option is ignored."))?;
    }
    let mut json = Vec::new();
    if args.has("v") && !args.has("json") {
        screen.line(format_args!("{}", count_header(&options)))?;
    }
    context.for_each(&args.operands, |item| {
        let mut summary = summary(context, &item)?;
        if options.without_snapshots {
            summary = living(summary);
        }
        let path = item.named.typed;
        if args.has("json") {
            json.push(CountRow { path, summary });
            return Ok(());
        }
        screen.line(format_args!(
            "{}",
            count_line(&summary, (&path, item.status.directory), &options)
        ))
    })?;
    screen.flush()?;
    drop(screen);
    if args.has("json") {
        print_json(&json).map_err(Failure::output)?;
    }
    Ok(())
}

/// The totals without data that only snapshots still hold.
fn living(summary: ContentSummary) -> ContentSummary {
    ContentSummary {
        length: summary.length.saturating_sub(summary.snapshot_length),
        file_count: summary.file_count.saturating_sub(summary.snapshot_file_count),
        directory_count: summary.directory_count.saturating_sub(summary.snapshot_directory_count),
        space_consumed: summary.space_consumed.saturating_sub(summary.snapshot_space_consumed),
        ..summary
    }
}

#[derive(Serialize)]
struct CountRow {
    path: String,
    #[serde(flatten)]
    summary: ContentSummary,
}

/// Storage types that can have quotas in HDFS; none can here, since there is one type of storage.
const STORAGE_TYPES: [&str; 5] = ["SSD", "DISK", "ARCHIVE", "PROVIDED", "NVDIMM"];
/// A type that cannot, but that `-t` accepts.
const TRANSIENT_TYPE: &str = "RAM_DISK";

/// The types that `-t` names; all for nothing or `all`.
fn storage_types(text: &str) -> Result<Vec<&'static str>, Failure> {
    if text.is_empty() || text.eq_ignore_ascii_case("all") {
        return Ok(STORAGE_TYPES.to_vec());
    }
    let all = || STORAGE_TYPES.into_iter().chain([TRANSIENT_TYPE]);
    let known = |word: &str| all().find(|kind| kind.eq_ignore_ascii_case(word));
    let unknown = |word: &str| {
        Failure::Usage(format!(
            "No enum constant org.apache.hadoop.fs.StorageType.{}",
            word.to_uppercase()
        ))
    };
    text.split(',').map(|word| known(word).ok_or_else(|| unknown(word))).collect()
}

/// The columns before the policy.
#[derive(Clone, Debug, Default)]
enum Columns {
    #[default]
    Totals,
    QuotasAndTotals,
    Quotas,
    QuotasOfTypes(Vec<&'static str>),
}

#[derive(Clone, Debug, Default)]
struct CountOptions {
    columns: Columns,
    human: bool,
    policy: bool,
    snapshots: bool,
    without_snapshots: bool,
}

fn count_header(options: &CountOptions) -> String {
    let mut line = String::new();
    let quotas = ["QUOTA", "REM_QUOTA", "SPACE_QUOTA", "REM_SPACE_QUOTA"].map(str::to_owned);
    let totals = ["DIR_COUNT", "FILE_COUNT", "CONTENT_SIZE"].map(str::to_owned);
    match &options.columns {
        Columns::Totals => line.push_str(&total_columns(totals)),
        Columns::Quotas => line.push_str(&quota_columns(quotas)),
        Columns::QuotasAndTotals => {
            line.push_str(&quota_columns(quotas));
            line.push_str(&total_columns(totals));
        }
        Columns::QuotasOfTypes(types) => {
            for kind in types {
                let columns = [format!("{kind}_QUOTA"), format!("REM_{kind}_QUOTA")];
                line.push_str(&type_columns(columns));
            }
        }
    }
    if options.policy {
        line.push_str("ERASURECODING_POLICY ");
    }
    if options.snapshots {
        let names = [
            "SNAPSHOT_LENGTH",
            "SNAPSHOT_FILE_COUNT",
            "SNAPSHOT_DIR_COUNT",
            "SNAPSHOT_SPACE_CONSUMED",
        ];
        line.push_str(&snapshot_columns(names.map(str::to_owned)));
    }
    line + "PATHNAME"
}

fn count_line(
    summary: &ContentSummary,
    (path, directory): (&str, bool),
    options: &CountOptions,
) -> String {
    let show = |number: u64| if options.human { human_size(number) } else { number.to_string() };
    let quotas = || quota_columns(quota_values(summary, &show));
    let totals = || {
        let ContentSummary { directory_count, file_count, length, .. } = *summary;
        total_columns([directory_count, file_count, length].map(show))
    };
    let mut line = match &options.columns {
        Columns::Totals => totals(),
        Columns::Quotas => quotas(),
        Columns::QuotasAndTotals => quotas() + &totals(),
        Columns::QuotasOfTypes(types) => {
            type_columns(["none", "inf"].map(str::to_owned)).repeat(types.len())
        }
    };
    if options.policy {
        line.push_str(&format!("{:>20} ", if directory { "EC:" } else { "Replicated" }));
    }
    if options.snapshots {
        let ContentSummary {
            snapshot_length, snapshot_file_count, snapshot_directory_count, ..
        } = *summary;
        let counts = [
            snapshot_length,
            snapshot_file_count,
            snapshot_directory_count,
            summary.snapshot_space_consumed,
        ];
        line.push_str(&snapshot_columns(counts.map(show)));
    }
    line + path
}

fn total_columns([directories, files, length]: [String; 3]) -> String {
    format!("{directories:>12} {files:>12} {length:>18} ")
}

fn type_columns([quota, rest]: [String; 2]) -> String {
    format!("{quota:>14} {rest:>18} ")
}

/// Quotas and what is left of them; an excess is a negative number, as HDFS prints it.
fn quota_values(summary: &ContentSummary, show: &dyn Fn(u64) -> String) -> [String; 4] {
    let rest = |quota: u64, used: u64| match quota.checked_sub(used) {
        Some(rest) => show(rest),
        None => format!("-{}", show(used - quota)),
    };
    let names = summary.file_count + summary.directory_count;
    let both = |quota: Option<u64>, used| match quota {
        Some(quota) => [show(quota), rest(quota, used)],
        None => ["none".to_owned(), "inf".to_owned()],
    };
    let [quota, left] = both(summary.quota, names);
    let [space, space_left] = both(summary.space_quota, summary.space_consumed);
    [quota, left, space, space_left]
}

fn quota_columns([quota, rest, space, space_rest]: [String; 4]) -> String {
    format!("{quota:>12} {rest:>15} {space:>15} {space_rest:>15} ")
}

fn snapshot_columns([length, files, directories, space]: [String; 4]) -> String {
    format!("{length:>18} {files:>24} {directories:>24} {space:>28} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(row: [&str; N]) -> [String; N] {
        row.map(str::to_owned)
    }

    #[test]
    fn du_columns() {
        let rows = [texts(["15", "45", "/data15bytes"]), texts(["450", "1350", "/dir 0"])];
        assert_eq!(left_aligned(&rows), ["15   45    /data15bytes", "450  1350  /dir 0"]);
        assert!(left_aligned(&[]).is_empty());
    }

    #[test]
    fn df_columns() {
        let rows = [
            texts(["Filesystem", "Size", "Used", "Available", "Use%"]),
            texts(["hanno://h:1", "1000", "10", "900", "1%"]),
        ];
        assert_eq!(
            df_table(&rows),
            [
                "Filesystem   Size  Used  Available  Use%",
                "hanno://h:1  1000    10        900    1%",
            ]
        );
    }

    #[test]
    fn count_columns() {
        let summary = ContentSummary {
            length: 2048,
            file_count: 2,
            directory_count: 1,
            ..Default::default()
        };
        let plain = CountOptions::default();
        assert_eq!(
            count_line(
                &ContentSummary { directory_count: 1, ..Default::default() },
                ("/dir1", true),
                &plain
            ),
            "           1            0                  0 /dir1"
        );
        let human = CountOptions { human: true, ..plain.clone() };
        assert_eq!(
            count_line(&summary, ("/d", true), &human),
            "           1            2                2 K /d"
        );
        let quota = CountOptions { columns: Columns::QuotasAndTotals, ..plain };
        assert_eq!(
            count_line(&summary, ("/d", true), &quota),
            "        none             inf            none             inf            1            2               2048 /d"
        );
        let limited = ContentSummary { quota: Some(2), space_quota: Some(10), ..summary };
        let columns = quota_values(&limited, &|number| number.to_string());
        assert_eq!(columns, ["2", "-1", "10", "10"]);
        let types = CountOptions { columns: Columns::QuotasOfTypes(vec!["SSD"]), ..quota.clone() };
        assert_eq!(count_header(&types), "     SSD_QUOTA      REM_SSD_QUOTA PATHNAME");
        assert_eq!(
            count_line(&summary, ("/d", true), &types),
            "          none                inf /d"
        );
        let policy = CountOptions { policy: true, ..CountOptions::default() };
        assert!(count_line(&summary, ("/f", false), &policy).ends_with("           Replicated /f"));
        assert!(storage_types("ssd,disk").is_ok() && storage_types("tape").is_err());
        assert_eq!(
            count_header(&quota),
            "       QUOTA       REM_QUOTA     SPACE_QUOTA REM_SPACE_QUOTA    DIR_COUNT   FILE_COUNT       CONTENT_SIZE PATHNAME"
        );
    }
}
