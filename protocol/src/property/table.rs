//! The table: a row per property of jobs and of Hadoop Streaming that Hadoop 3.4 documents, and typed keys for those that are honoured.

use super::class::{CodecClass, Comparator, Partitioner};
use super::row::{Class, Key, Row, Scope};
use super::value::{
    Attempts, BaseName, BlockSize, Bound, CompressType, Count, Limit, Megabytes, MergeFactor,
    Millis, Most, PipeEncoding, Replicas, Share, Size, Umask, Value,
};
use super::variables::{BlankVariables, CommaVariables, Each};
use crate::jobs::Priority;

macro_rules! table {
    (
        honoured { $( $key:ident : $type:ty = $name:literal [$($former:literal),*] $scope:ident $text:literal; )* }
        each { $( $each:ident = $each_name:literal $each_text:literal; )* }
        ignored { $( $ignored:literal [$($ignored_former:literal),*] $ignored_text:literal; )* }
        refused { $( $refused:literal [$($refused_former:literal),*] unless [$($same:literal),*] $refused_text:literal; )* }
    ) => {
        /// The keys of the properties that are honoured.
        pub mod keys {
            use super::{
                Attempts, BaseName, BlankVariables, BlockSize, Bound, CodecClass, CommaVariables,
                Comparator, CompressType, Count, Each, Key, Limit, Megabytes, MergeFactor, Millis,
                Most, Partitioner, PipeEncoding, Replicas, Share, Size, Umask,
            };
            use crate::jobs::Priority;
            $(
                #[doc = concat!("`", $name, "`: ", $text, ".")]
                pub const $key: Key<$type> = Key::new($name);
            )*
            $(
                #[doc = concat!("`", $each_name, "`: ", $each_text, ".")]
                pub const $each: Each = Each::new($each_name);
            )*
        }

        /// All rows.
        pub const ROWS: &[Row] = &[
            $( Row {
                name: $name,
                former: &[$($former),*],
                class: Class::Honoured {
                    scope: Scope::$scope,
                    culprit: |_, text| {
                        let is_valid = <$type as Value>::parse(text).is_some();
                        (!is_valid).then(|| <$type as Value>::culprit(text))
                    },
                    wanted: <$type as Value>::WANTED,
                },
                text: $text,
            }, )*
            $( Row {
                name: $each_name,
                former: &[],
                class: Class::Honoured {
                    scope: Scope::Streaming,
                    culprit: Each::culprit,
                    wanted: Each::WANTED,
                },
                text: $each_text,
            }, )*
            $( Row {
                name: $ignored,
                former: &[$($ignored_former),*],
                class: Class::Ignored,
                text: $ignored_text,
            }, )*
            $( Row {
                name: $refused,
                former: &[$($refused_former),*],
                class: Class::Refused { unless: &[$($same),*] },
                text: $refused_text,
            }, )*
        ];
    };
}

table! {
    honoured {
    JOB_NAME: String = "mapreduce.job.name" ["mapred.job.name"] Jobs "what lists and pages call the job; `--name` wins";
    QUEUE: String = "mapreduce.job.queuename" ["mapred.job.queue.name"] Jobs "the queue it waits in";
    PRIORITY: Priority = "mapreduce.job.priority" ["mapred.job.priority"] Jobs "its urgency there";
    REDUCES: u32 = "mapreduce.job.reduces" ["mapred.reduce.tasks"] Jobs "number of reduces; 0: what maps emit is the output. `--reducers` wins";
    DEFAULT_FS: String = "fs.defaultFS" ["fs.default.name"] Jobs "the file system of paths without a scheme; `-fs` wins";
        MAPS_MAX: Bound = "mapreduce.job.max.map" [] Jobs "a job with more maps is not submitted";
    MAP_ATTEMPTS: Attempts = "mapreduce.map.maxattempts" ["mapred.map.max.attempts"] Jobs "attempts of a map before the job fails (4)";
    REDUCE_ATTEMPTS: Attempts = "mapreduce.reduce.maxattempts" ["mapred.reduce.max.attempts"] Jobs "attempts of a reduce before the job fails (4)";
    TASK_TIMEOUT: Millis = "mapreduce.task.timeout" ["mapred.task.timeout"] Jobs "silence after which an attempt is ended; 0 is never; by default the worker's `task_timeout_ms`";
    SLOW_START: Share = "mapreduce.job.reduce.slowstart.completedmaps" ["mapred.reduce.slowstart.completed.maps"] Jobs "share of maps that are done before reduces start (0.05)";
    MAP_LIMIT: Limit = "mapreduce.job.running.map.limit" [] Jobs "most maps at once";
    REDUCE_LIMIT: Limit = "mapreduce.job.running.reduce.limit" [] Jobs "most reduces at once";
    MAP_SPECULATIVE: bool = "mapreduce.map.speculative" ["mapred.map.tasks.speculative.execution"] Jobs "whether slow maps get a backup (true)";
    REDUCE_SPECULATIVE: bool = "mapreduce.reduce.speculative" ["mapred.reduce.tasks.speculative.execution"] Jobs "whether slow reduces get a backup (true)";
    FAILURES_PER_WORKER: Count = "mapreduce.job.maxtaskfailures.per.tracker" ["mapred.max.tracker.failures"] Jobs "failures on a worker after which the job avoids it (3)";
    ACL_MODIFY: String = "mapreduce.job.acl-modify-job" [] Jobs "who else may kill it and change its priority: users, a blank, groups";
    ACL_VIEW: String = "mapreduce.job.acl-view-job" [] Jobs "who else may view it, its counters and logs: users, a blank, groups";
    SKIP_MAX: Most = "mapreduce.map.skip.maxrecords" ["mapred.skip.map.max.skip.records"] Jobs "records that a map may leave out because attempts ended in them (0); `--skip-bad`";
    SKIP_START: u32 = "mapreduce.task.skip.start.attempts" ["mapred.skip.attempts.to.start.skipping"] Jobs "failed attempts of a map before it does so (1)";
    SKIP_AUTO_COUNT: bool = "mapreduce.map.skip.proc-count.auto-incr" ["mapred.skip.map.auto.incr.proc.count", "mapreduce.map.skip.proc.count.autoincr"] Streaming "false: the script counts the records it is done with, so that bad ones can be found";
    LOCALITY_WAIT: u64 = "locality_wait" [] Jobs "milliseconds for which a map waits for a slot next to its input; Hanno's own";

    SORT_MB: Megabytes = "mapreduce.task.io.sort.mb" ["io.sort.mb"] Jobs "memory in which map output is sorted, within what the worker gives a task";
    SORT_FACTOR: MergeFactor = "mapreduce.task.io.sort.factor" ["io.sort.factor"] Jobs "sorted runs that are merged at once (100)";
    MAP_COMPRESS: bool = "mapreduce.map.output.compress" ["mapred.compress.map.output"] Jobs "whether map output is compressed, with lz4 (true; where all workers are on one machine, false)";

    SPLIT_MIN: Size = "mapreduce.input.fileinputformat.split.minsize" ["mapred.min.split.size"] Jobs "least bytes of a split";
    SPLIT_MAX: Size = "mapreduce.input.fileinputformat.split.maxsize" ["mapred.max.split.size"] Jobs "most bytes of a split";
    FILES_PER_MAP: Count = "hanno.input.files.per.map.max" [] Jobs "most small files that a map reads, one after the other (100000); 1: a map for each file. Hanno's own";
    RECURSIVE: bool = "mapreduce.input.fileinputformat.input.dir.recursive" ["mapred.input.dir.recursive"] Jobs "whether directories in an input directory are read too; otherwise they fail the job";
    IGNORE_DIRECTORIES: bool = "mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs" [] Jobs "true: directories in an input directory are skipped";
    RECORD_DELIMITER: String = "textinputformat.record.delimiter" [] Jobs "what ends a record of text, instead of a line end";
    LINE_BYTES_MAX: u64 = "mapreduce.input.linerecordreader.line.maxlength" ["mapred.linerecordreader.maxlength"] Jobs "lines of at least so many bytes, line end included, are skipped";
    KEY_VALUE_SEPARATOR: String = "mapreduce.input.keyvaluelinerecordreader.key.value.separator" ["key.value.separator.in.input.line"] Streaming "between key and value of KeyValueTextInputFormat (a tab); its first byte";
    LINES_PER_MAP: Count = "mapreduce.input.lineinputformat.linespermap" ["mapred.line.input.format.linespermap"] Streaming "lines of each map with NLineInputFormat (1); a Rust job has `NLines { count }`";

    OUTPUT_BASENAME: BaseName = "mapreduce.output.basename" [] Jobs "what names of output files begin with (`part`)";
    OUTPUT_SEPARATOR: String = "mapreduce.output.textoutputformat.separator" ["mapred.textoutputformat.separator", "mapreduce.textoutputformat.separator"] Jobs "between key and value of a line of output (a tab)";
    OUTPUT_COMPRESS: bool = "mapreduce.output.fileoutputformat.compress" ["mapred.output.compress"] Jobs "whether output files are compressed (false)";
    OUTPUT_CODEC: CodecClass = "mapreduce.output.fileoutputformat.compress.codec" ["mapred.output.compression.codec"] Jobs "how (DefaultCodec)";
    OUTPUT_COMPRESS_TYPE: CompressType = "mapreduce.output.fileoutputformat.compress.type" ["mapred.output.compression.type"] Jobs "what of a SequenceFile is compressed (RECORD)";
    REPLICATION: Replicas = "dfs.replication" [] Jobs "replicas of output files";
    BLOCK_SIZE: BlockSize = "dfs.blocksize" ["dfs.block.size"] Jobs "bytes of the blocks of output files";
    UMASK: Umask = "fs.permissions.umask-mode" ["dfs.umaskmode"] Jobs "permission bits that its output does not get (022), unless a default access control list decides";

    MAP_INPUT_ENCODING: PipeEncoding = "stream.map.input" [] Streaming "how records reach the mapper; `-io` sets all four";
    MAP_OUTPUT_ENCODING: PipeEncoding = "stream.map.output" [] Streaming "how the mapper prints records";
    REDUCE_INPUT_ENCODING: PipeEncoding = "stream.reduce.input" [] Streaming "how records reach the reducer";
    REDUCE_OUTPUT_ENCODING: PipeEncoding = "stream.reduce.output" [] Streaming "how the reducer prints records";
    IGNORE_KEY: bool = "stream.map.input.ignoreKey" [] Streaming "whether the mapper gets values alone; by default so for lines as text";
    MAP_INPUT_SEPARATOR: String = "stream.map.input.field.separator" [] Streaming "between key and value for the mapper (a tab)";
    MAP_OUTPUT_SEPARATOR: String = "stream.map.output.field.separator" ["stream.map.output.field.seperator"] Streaming "between fields of what the mapper prints (a tab)";
    REDUCE_INPUT_SEPARATOR: String = "stream.reduce.input.field.separator" [] Streaming "between key and value for the reducer (a tab)";
    REDUCE_OUTPUT_SEPARATOR: String = "stream.reduce.output.field.separator" [] Streaming "between fields of what the reducer prints (a tab)";
    MAP_OUTPUT_KEY_FIELDS: Count = "stream.num.map.output.key.fields" [] Streaming "fields of a mapper's line that are the key (1)";
    REDUCE_OUTPUT_KEY_FIELDS: Count = "stream.num.reduce.output.key.fields" [] Streaming "fields of a reducer's line that are the key (1)";
    EXIT_CODE_MATTERS: bool = "stream.non.zero.exit.is.failure" [] Streaming "whether an exit code other than 0 fails the attempt (true)";
    REPORTER_PREFIX: String = "stream.stderr.reporter.prefix" [] Streaming "prefix of lines on standard error that update counters and status (`reporter:`)";
    ADD_ENVIRONMENT: BlankVariables = "stream.addenvironment" [] Streaming "variables of the scripts, `A=b C=d`";
    VARIABLE_BYTES_MAX: Bound = "stream.jobconf.truncate.limit" [] Streaming "values of properties are cut to this many bytes in the environment of scripts";
    CHILD_ENV: CommaVariables = "mapred.child.env" [] Streaming "variables of all scripts whose kind has no list of its own, `A=b,C=d`; `$A` is the worker's";
    MAP_ENV: CommaVariables = "mapreduce.map.env" ["mapred.map.child.env"] Streaming "the same for mappers, instead of those of all scripts";
    REDUCE_ENV: CommaVariables = "mapreduce.reduce.env" ["mapred.reduce.child.env"] Streaming "the same for reducers, instead of those of all scripts";
    PARTITIONER: Partitioner = "mapreduce.job.partitioner.class" ["mapred.partitioner.class", "mapreduce.partitioner.class"] Streaming "which reduce a key goes to (by its hash); `-partitioner` wins";
    UNIQUE_VALUES_MAX: Most = "mapreduce.aggregate.max.num.unique.values" ["aggregate.max.num.unique.values"] Streaming "`-reducer aggregate`: a UniqValueCount counts no further";
    PARTITIONER_OPTIONS: String = "mapreduce.partition.keypartitioner.options" ["mapred.text.key.partitioner.options"] Streaming "`-k` options of KeyFieldBasedPartitioner";
    PARTITIONER_FIELDS: Count = "num.key.fields.for.partition" [] Streaming "the first so many fields instead of those options";
    COMPARATOR: Comparator = "mapreduce.job.output.key.comparator.class" ["mapred.output.key.comparator.class"] Streaming "the order in which keys are sorted (by bytes)";
    COMPARATOR_OPTIONS: String = "mapreduce.partition.keycomparator.options" ["mapred.text.key.comparator.options"] Streaming "its `-k`, `-n` and `-r` options";
    KEY_FIELD_SEPARATOR: String = "mapreduce.map.output.key.field.separator" ["map.output.key.field.separator"] Streaming "between the fields of a key for these two (a tab)";

    }
    each {
    MAP_ENV_EACH = "mapreduce.map.env.*" "a variable of mappers, whose value can have commas; `mapreduce.map.env.A=b`";
    REDUCE_ENV_EACH = "mapreduce.reduce.env.*" "the same for reducers";

    }
    ignored {
    "mapreduce.job.maps" ["mapred.map.tasks"] "the number of maps comes from the splits of the input";
    "mapreduce.job.jvm.numtasks" ["mapred.job.reuse.jvm.num.tasks"] "task processes are used again in any case";
    "mapreduce.job.ubertask.enable" [] "small jobs start fast as they are";
    "mapreduce.job.ubertask.*" [] "small jobs start fast as they are";
    "mapreduce.ubertask.child.*" [] "there are no such tasks";
    "mapreduce.job.hdfs-servers" [] "a job has the file system that it was submitted to";
    "mapreduce.job.split.metainfo.maxsize" [] "splits travel with the job";
    "mapreduce.job.max.split.locations" [] "all places of a split are used";
    "mapreduce.job.committer.setup.cleanup.needed" ["mapred.committer.job.setup.cleanup.needed"] "the JobTracker commits";
    "mapreduce.job.committer.task.cleanup.needed" [] "the JobTracker commits";
    "mapreduce.fileoutputcommitter.algorithm.version" [] "a task commits by one durable record, the job by renames";
    "mapreduce.fileoutputcommitter.cleanup.skipped" [] "nothing temporary is left";
    "mapreduce.fileoutputcommitter.cleanup-failures.ignored" [] "nothing temporary is left";
    "mapreduce.fileoutputcommitter.task.cleanup.enabled" [] "nothing temporary is left";
    "mapreduce.fileoutputcommitter.failures.attempts" [] "the JobTracker tries again by itself";
    "mapreduce.outputcommitter.factory.*" [] "the JobTracker commits";
    "mapreduce.manifest.committer.*" [] "the JobTracker commits";
    "mapreduce.job.finish-when-all-reducers-done" [] "maps that nobody needs are ended";
    "mapreduce.job.reducer.preempt.delay.sec" [] "the JobTracker's `preemption_timeout_ms` holds";
    "mapreduce.job.reducer.unconditional-preempt.delay.sec" [] "the JobTracker's `preemption_timeout_ms` holds";
    "mapreduce.job.speculative.*" [] "the JobTracker's `speculation_after_ms` holds";
    "mapred.speculative.execution.*" [] "the JobTracker's `speculation_after_ms` holds";
    "mapreduce.job.emit-timeline-data" [] "the history is kept in any case";
    "mapreduce.job.sharedcache.mode" [] "the side files of a user are kept by their hash in any case";
    "mapreduce.job.tags" [] "lists do not show tags";
    "mapreduce.job.token.tracking.*" [] "tasks have passes of their own";
    "mapreduce.job.complete.cancel.delegation.tokens" [] "tasks have passes of their own";
    "mapreduce.job.send-token-conf" [] "tasks have passes of their own";
    "mapreduce.job.kerberos.*" [] "Hanno has no Kerberos";
    "mapreduce.job.cache.limit.*" [] "side files are not limited";
    "mapreduce.job.cache.symlink.create" ["mapred.create.symlink"] "links are made in any case";
    "mapreduce.job.log4j-properties-file" [] "there is no Java";
    "mapreduce.job.heap.memory-mb.ratio" [] "there is no Java";
    "mapreduce.job.classloader*" [] "there is no Java";
    "mapreduce.job.user.classpath.first" ["mapreduce.user.classpath.first", "mapreduce.task.classpath.user.precedence"] "there is no Java";
    "mapreduce.job.classpath.*" ["mapred.job.classpath.archives", "mapred.job.classpath.files"] "there is no Java";
    "mapreduce.job.jar*" ["mapred.jar"] "the program is its own archive";
    "mapreduce.application.*" [] "there is no Java";
    "mapreduce.app-submission.cross-platform" [] "workers run the program as it is";
    "mapreduce.am.*" [] "there is no application master";
    "mapreduce.admin.*" [] "there is no Java";
    "mapreduce.jvm.*" [] "there is no Java";
    "mapreduce.framework.name" [] "`--local` runs a job in this process, else the cluster does";
    "mapreduce.job.redacted-properties" [] "no list shows the values of secrets, as jobs have none";
    "mapreduce.job.counters.*" ["mapreduce.job.counters.limit"] "the cluster's limits hold";
    "mapreduce.job.userlog.retain.hours" ["mapred.userlog.retain.hours"] "workers keep logs as they are configured";
    "mapreduce.job.submithost*" [] "set by Hadoop itself";
    "mapreduce.job.splitfile" [] "set by Hadoop itself";
    "mapreduce.job.id" ["mapred.job.id"] "set for tasks by the engine";
    "mapreduce.job.local.dir" ["job.local.dir"] "set for tasks by the engine";
    "mapreduce.job.cache.local.files" ["mapred.cache.localFiles"] "set for tasks by the engine";
    "mapreduce.job.cache.local.archives" ["mapred.cache.localArchives"] "set for tasks by the engine";
    "mapreduce.job.cache.files.*" ["mapred.cache.files.filesizes", "mapred.cache.files.timestamps"] "set by Hadoop itself";
    "mapreduce.job.cache.archives.*" ["mapred.cache.archives.filesizes", "mapred.cache.archives.timestamps"] "set by Hadoop itself";
    "mapreduce.job.local-fs.single-disk-limit.*" [] "the worker's `task_disk_bytes_max` holds";
    "mapreduce.job.dfs.storage.capacity.kill-limit-exceed" [] "a task that meets a full file system fails";
    "mapreduce.task.local-fs.write-limit.bytes" [] "the worker's `task_disk_bytes_max` holds";
    "mapreduce.task.spill.files.count.limit" [] "the worker's `task_disk_bytes_max` holds";
    "mapreduce.task.stuck.timeout-ms" [] "`mapreduce.task.timeout` counts from the launch";
    "mapreduce.task.exit.timeout*" [] "task processes stay for the next attempt";
    "mapreduce.task.progress-report.interval" [] "tasks report four times a second";
    "mapreduce.task.enable.ping-for-liveliness-check" [] "a sign of life is progress or output";
    "mapreduce.task.merge.progress.records" ["mapred.merge.recordsBeforeProgress"] "progress goes by bytes";
    "mapreduce.task.combine.progress.records" [] "progress goes by bytes";
    "mapreduce.task.index.cache.limit.bytes" [] "workers keep no such cache";
    "mapreduce.task.files.preserve.failedtasks" ["keep.failed.task.files"] "`hanno job replay` runs a failed attempt again";
    "mapreduce.task.files.preserve.filepattern" ["keep.task.files.pattern"] "`hanno job replay` runs an attempt again";
    "mapreduce.task.debugout.lines" ["mapred.debug.out.lines"] "there are no debug scripts";
    "mapreduce.task.tmp.dir" ["mapred.child.tmp"] "`TMPDIR` is the task's own";
    "mapreduce.task.userlog.limit.kb" ["mapred.userlog.limit.kb"] "the worker's `log_bytes_max` holds";
    "mapreduce.task.profile" ["mapred.task.profile"] "the engine measures its phases in any case";
    "mapreduce.task.profile.*" ["mapred.task.profile.maps", "mapred.task.profile.reduces", "mapred.task.profile.params"] "the engine measures its phases in any case";
    "mapreduce.task.id" ["mapred.tip.id"] "set for tasks by the engine";
    "mapreduce.task.attempt.id" ["mapred.task.id"] "set for tasks by the engine";
    "mapreduce.task.ismap" ["mapred.task.is.map"] "set for tasks by the engine";
    "mapreduce.task.partition" ["mapred.task.partition"] "set for tasks by the engine";
    "mapreduce.task.output.dir" ["mapred.work.output.dir"] "set for tasks by the engine";
    "mapreduce.map.input.file" ["map.input.file"] "set for tasks by the engine";
    "mapreduce.map.input.start" ["map.input.start"] "set for tasks by the engine";
    "mapreduce.map.input.length" ["map.input.length"] "set for tasks by the engine";
    "mapreduce.map.memory.*" ["mapred.job.map.memory.mb", "mapred.cluster.map.memory.mb"] "the worker's `task_memory_limit_bytes` holds";
    "mapreduce.reduce.memory.*" ["mapred.job.reduce.memory.mb", "mapred.cluster.reduce.memory.mb", "mapred.job.reduce.total.mem.bytes"] "the worker's `task_memory_limit_bytes` holds";
    "mapreduce.map.cpu.vcores" [] "a task has a slot";
    "mapreduce.reduce.cpu.vcores" [] "a task has a slot";
    "mapreduce.map.resource.*" [] "a task has a slot";
    "mapreduce.reduce.resource.*" [] "a task has a slot";
    "mapreduce.map.java.opts" ["mapred.map.child.java.opts"] "there is no Java";
    "mapreduce.reduce.java.opts" ["mapred.reduce.child.java.opts"] "there is no Java";
    "mapred.child.java.opts" [] "there is no Java";
    "mapreduce.map.ulimit" ["mapred.child.ulimit"] "the worker's limits hold";
    "mapreduce.reduce.ulimit" [] "the worker's limits hold";
    "mapreduce.map.log.level" ["mapred.map.child.log.level"] "a task's log is what it writes";
    "mapreduce.reduce.log.level" ["mapred.reduce.child.log.level"] "a task's log is what it writes";
    "mapreduce.map.sort.spill.percent" ["io.sort.spill.percent"] "a run is written when the memory is full";
    "io.sort.record.percent" [] "records have no part of the memory of their own";
    "map.sort.class" [] "the engine sorts";
    "mapreduce.map.combine.minspills" ["min.num.spills.for.combine"] "a combiner runs where it pays";
    "mapreduce.map.output.compress.codec" ["mapred.map.output.compression.codec"] "map output is compressed with lz4";
    "mapreduce.map.output.key.class" ["mapred.mapoutput.key.class"] "the program's types say it; scripts have bytes";
    "mapreduce.map.output.value.class" ["mapred.mapoutput.value.class"] "the program's types say it; scripts have bytes";
    "mapreduce.job.output.key.class" ["mapred.output.key.class"] "the program's types say it; scripts write text";
    "mapreduce.job.output.value.class" ["mapred.output.value.class"] "the program's types say it; scripts write text";
    "mapreduce.job.map.output.collector.class" [] "the engine collects";
    "mapreduce.job.reduce.shuffle.consumer.plugin.class" [] "the engine shuffles";
    "mapreduce.reduce.shuffle.*" ["mapred.reduce.parallel.copies", "mapred.shuffle.connect.timeout", "mapred.shuffle.read.timeout", "mapred.job.shuffle.input.buffer.percent", "mapred.job.shuffle.merge.percent"] "the shuffle sets itself up";
    "mapreduce.reduce.merge.*" ["mapred.inmem.merge.threshold"] "merges go by memory";
    "mapreduce.reduce.input.buffer.percent" ["mapred.job.reduce.input.buffer.percent"] "merges go by memory";
    "mapreduce.reduce.markreset.*" ["mapred.job.reduce.markreset.buffer.percent"] "values are not read twice";
    "mapreduce.ifile.*" [] "the kernel reads ahead";
    "mapreduce.input.fileinputformat.list-status.num-threads" [] "the NameNode lists fast as it is";
    "mapreduce.input.fileinputformat.split.*" ["mapred.min.split.size.per.node", "mapred.min.split.size.per.rack"] "splits are combined by size alone";
    "mapreduce.input.fileinputformat.numinputfiles" [] "set by Hadoop itself";
    "mapreduce.reduce.skip.proc-count.auto-incr" ["mapred.skip.reduce.auto.incr.proc.count", "mapreduce.reduce.skip.proc.count.autoincr"] "reduces leave nothing out";
    "mapreduce.job.skiprecords" ["mapred.skip.on"] "set by Hadoop itself; `mapreduce.map.skip.maxrecords` turns skipping on";
    "mapreduce.client.*" ["jobclient.completion.poll.interval", "jobclient.progress.monitor.poll.interval", "jobclient.output.filter", "mapred.submit.replication", "mapred.used.genericoptionsparser"] "progress is pushed; failures are reported in any case";
    "mapreduce.cluster.*" ["mapred.local.dir", "mapred.temp.dir", "mapred.acls.enabled", "mapred.permissions.supergroup"] "it belongs in the configuration of the daemons";
    "mapreduce.jobhistory.*" [] "it belongs in the configuration of the JobTracker";
    "mapreduce.jobtracker.*" [] "it belongs in the configuration of the JobTracker; `-jt` names one";
    "mapreduce.tasktracker.*" [] "it belongs in the configuration of the workers";
    "mapreduce.shuffle.connection-keep-alive.*" [] "connections are kept";
    "mapreduce.shuffle.port" [] "it belongs in the configuration of the workers";
    "mapreduce.shuffle.listen.queue.size" [] "it belongs in the configuration of the workers";
    "mapreduce.shuffle.max.*" [] "it belongs in the configuration of the workers";
    "mapreduce.shuffle.transfer*" [] "it belongs in the configuration of the workers";
    "mapreduce.shuffle.ssl.file.buffer.size" [] "the shuffle is encrypted without these settings";
    "yarn.*" [] "there is no YARN";
    "hadoop.*" [] "a setting of Hadoop's Java client";
    "ipc.*" [] "a setting of Hadoop's Java client";
    "io.file.buffer.size" [] "buffers are as large as they need to be";
    "io.seqfile.*" [] "blocks of SequenceFiles have one size";
    "io.compression.*" [] "codecs are known by their extensions";
    "io.serializations" [] "the program's types say it";
    "io.bytes.per.checksum" [] "checksums are of 512 bytes";
    "dfs.bytes-per-checksum" [] "checksums are of 512 bytes";
    "dfs.checksum.type" [] "checksums are CRC-32";
    "dfs.client.*" [] "the client of the file system sets itself up";
    "dfs.client-write-packet-size" [] "the client of the file system sets itself up";
    "dfs.stream-buffer-size" [] "the client of the file system sets itself up";
    "dfs.namenode.*" [] "it belongs in the configuration of the NameNode";
    "dfs.datanode.*" [] "it belongs in the configuration of the DataNodes";
    "dfs.ha.*" [] "it belongs in the configuration of the NameNode";
    "dfs.nameservices" [] "there is one NameNode; `-fs` names it";
    "dfs.permissions.*" [] "it belongs in the configuration of the NameNode";
    "mapreduce.shuffle.pathcache.*" [] "it belongs in the configuration of the workers";
    "mapred.job.tracker*" [] "it belongs in the configuration of the JobTracker; `-jt` names one";
    "mapred.jobtracker.*" [] "it belongs in the configuration of the JobTracker";
    "mapred.jobinit.threads" [] "it belongs in the configuration of the JobTracker";
    "mapred.heartbeats.in.second" [] "it belongs in the configuration of the JobTracker";
    "mapred.hosts*" [] "it belongs in the configuration of the JobTracker";
    "mapred.queue.*" [] "it belongs in the configuration of the JobTracker";
    "mapred.system.dir" [] "it belongs in the configuration of the JobTracker";
    "mapred.task.cache.levels" [] "it belongs in the configuration of the JobTracker";
    "mapred.max.tracker.blacklists" [] "it belongs in the configuration of the JobTracker";
    "mapred.cluster.*" [] "it belongs in the configuration of the daemons";
    "mapred.local.dir.*" [] "it belongs in the configuration of the workers";
    "mapred.tasktracker.*" [] "it belongs in the configuration of the workers";
    "mapred.task.tracker.*" [] "it belongs in the configuration of the workers";
    "mapred.healthChecker.*" [] "it belongs in the configuration of the workers";
    "tasktracker.*" [] "it belongs in the configuration of the workers";
    "local.cache.size" [] "it belongs in the configuration of the workers";
    "slave.host.name" [] "it belongs in the configuration of the daemons";
    "webinterface.private.actions" [] "signed-in users may do on the pages what their rights allow";
    "mapreduce.webapp.ui-actions.enabled" [] "signed-in users may do on the pages what their rights allow";
    "mapreduce.jobclient.*" [] "a setting of Hadoop's Java client";
    "mapreduce.jobcontrol.*" ["create.empty.dir.if.nonexist"] "a program runs its jobs one after the other by itself";
    "mapreduce.local.map.tasks.maximum" [] "`--local` uses the cores of the machine";
    "mapreduce.local.reduce.tasks.maximum" [] "`--local` uses the cores of the machine";
    "mapreduce.minicluster.*" [] "`--local` and `hanno cluster` take its place";
    "mapreduce.workflow.*" [] "lists know jobs by their names";
    "mapreduce.job.reservation.id" [] "queues have minimums instead of reservations";
    "mapreduce.job.preemption" [] "the JobTracker's `preemption_timeout_ms` holds";
    "mapreduce.job.process-tree.class" [] "workers count all that a task holds";
    "mapreduce.job.restart.recover" [] "jobs go on after a restart of the JobTracker";
    "mapreduce.job.net.static.resolutions" [] "names are the system's";
    "mapreduce.job.num-opportunistic-maps-percent" [] "all slots are of one kind";
    "mapreduce.job.am.strict-locality" [] "there is no application master";
    "mapreduce.job.application.attempt.id" [] "set by Hadoop itself";
    "mapreduce.job.dir" [] "set by Hadoop itself";
    "mapreduce.job.jobTokenFile" [] "tasks have passes of their own";
    "mapreduce.job.credentials.*" [] "tasks have passes of their own";
    "mapreduce.job.hdfs-servers.*" [] "a job has the file system that it was submitted to";
    "mapreduce.job.jobjar.*" [] "the program is its own archive";
    "mapreduce.job.cache.sharedcache.*" [] "the side files of a user are kept by their hash in any case";
    "mapreduce.job.input.file.*" [] "inputs are read where they are";
    "mapreduce.job.shuffle.provider.services" [] "the engine shuffles";
    "mapreduce.task.local.output.class" [] "the engine keeps map outputs";
    "mapreduce.task.log.progress.*" [] "tasks report four times a second";
    "mapreduce.task.max.status.length" [] "statuses have a limit of their own";
    "mapreduce.task.timeout.check-interval-ms" [] "silence is checked in any case";
    "mapreduce.task.uberized" [] "set by Hadoop itself";
    "mapred.mapper.new-api" [] "set by Hadoop itself";
    "mapred.reducer.new-api" [] "set by Hadoop itself";
    "mapred.task.limit.maxvmem" [] "the worker's `task_memory_limit_bytes` holds";
    "mapred.task.default.maxvmem" [] "the worker's `task_memory_limit_bytes` holds";
    "mapred.task.maxvmem" [] "the worker's `task_memory_limit_bytes` holds";
    "mapred.task.maxpmem" [] "the worker's `task_memory_limit_bytes` holds";
    "stream.debug" [] "a task's log is what it writes";
    "stream.jobLog_" [] "a task's log is what it writes";
    "stream.minRecWrittenToEnableSkip_" [] "a script need not read all of its input";
    "stream.tmpdir" [] "nothing is packed before a job is submitted";
    "stream.numinputspecs" [] "set by Hadoop itself";
    "stream.inputtagged" [] "set by Hadoop itself";
    "stream.joindelay.milli" [] "what a script prints is read to its end";
    "stream.shipped.hadoopstreaming" [] "the program is its own archive";
    "stream.recordreader.*" [] "set by `-inputreader`, which is not here";

    }
    refused {
    "mapreduce.map.failures.maxpercent" ["mapred.max.map.failures.percent"] unless ["0"] "a job whose map fails has no output; `--skip-bad N` leaves out bad records";
    "mapreduce.reduce.failures.maxpercent" ["mapred.max.reduce.failures.percent"] unless ["0"] "a job whose reduce fails has no output";
    "mapreduce.reduce.skip.maxgroups" ["mapred.skip.reduce.max.skip.groups"] unless ["0"] "reduces leave nothing out";
    "mapreduce.job.skip.outdir" ["mapred.skip.out.dir"] unless [""] "what maps leave out is named in OUT/_logs/skip";
    "mapreduce.job.end-notification.url" ["job.end.notification.url"] unless [""] "nobody would be notified; the driver's exit code tells how the job ended";
    "mapreduce.job.end-notification.*" ["job.end.retry.attempts", "job.end.retry.interval"] unless ["0", "1000", "5", "5000", "true"] "nobody would be notified; the driver's exit code tells how the job ended";
    "mapreduce.job.encrypted-intermediate-data" [] unless ["false"] "map output on the disks of workers is not encrypted";
    "mapreduce.job.encrypted-intermediate-data-key-size-bits" [] unless ["128"] "map output on the disks of workers is not encrypted";
    "mapreduce.job.encrypted-intermediate-data.buffer.kb" [] unless ["128"] "map output on the disks of workers is not encrypted";
    "mapreduce.shuffle.ssl.enabled" [] unless ["false"] "the shuffle is encrypted between machines, whatever this says";
    "mapreduce.job.node-label-expression" [] unless [""] "workers have no labels";
    "mapreduce.map.node-label-expression" [] unless [""] "workers have no labels";
    "mapreduce.reduce.node-label-expression" [] unless [""] "workers have no labels";
    "mapreduce.job.am.node-label-expression" [] unless [""] "workers have no labels";
    "mapreduce.job.am-access-disabled" [] unless ["false"] "the JobTracker is always asked";
    "mapreduce.job.output.group.comparator.class" ["mapred.output.value.groupfn.class"] unless [] "a Rust job groups by `group_by_first`; a script sees for itself where a group ends";
    "mapreduce.job.combine.group.comparator.class" ["mapreduce.job.combiner.group.comparator.class"] unless [] "a combiner sees equal keys";
    "mapreduce.job.inputformat.class" ["mapreduce.inputformat.class", "mapred.input.format.class"] unless [] "a Rust job names its format, a streaming job has `-inputformat`";
    "mapreduce.job.outputformat.class" ["mapreduce.outputformat.class", "mapred.output.format.class"] unless [] "a Rust job names its output, a streaming job has `-outputformat`";
    "mapreduce.job.map.class" ["mapreduce.map.class", "mapred.mapper.class"] unless [] "a Rust job names its mapper, a streaming job has `-mapper`";
    "mapreduce.job.reduce.class" ["mapreduce.reduce.class", "mapred.reducer.class"] unless [] "a Rust job names its reducer, a streaming job has `-reducer`";
    "mapreduce.job.combine.class" ["mapreduce.combine.class", "mapred.combiner.class"] unless [] "a Rust job names its combiner, a streaming job has `-combiner`";
    "mapreduce.input.pathFilter.class" ["mapred.input.pathFilter.class"] unless [] "globs choose inputs: `{a,b}`, `[a-c]`, `*`";
    "mapreduce.input.fileinputformat.inputdir" ["mapred.input.dir"] unless [] "name inputs on the command line; a streaming job has `-input`";
    "mapreduce.output.fileoutputformat.outputdir" ["mapred.output.dir"] unless [] "name the output on the command line; a streaming job has `-output`";
    "mapreduce.input.multipleinputs.*" ["mapred.input.dir.mappers", "mapred.input.dir.formats"] unless [] "`Job::also` adds inputs";
    "mapreduce.input.sequencefileinputfilter.*" ["sequencefile.filter.class", "sequencefile.filter.regex", "sequencefile.filter.frequency"] unless [] "the mapper filters";
    "mapreduce.output.lazyoutputformat.outputformat" ["mapred.lazy.output.format"] unless [] "`text_out(…).lazy()`, `-lazyOutput`";
    "mapreduce.output.seqbinaryoutputformat.*" ["mapred.seqbinary.output.key.class", "mapred.seqbinary.output.value.class"] unless [] "`sequence_out::<K, V>` says it";
    "mapreduce.fileoutputcommitter.marksuccessfuljobs" [] unless ["true"] "an output that is complete has `_SUCCESS`";
    "mapreduce.job.working.dir" ["mapred.working.dir"] unless [] "relative paths are below the user's home";
    "mapreduce.job.user.name" ["user.name"] unless [] "a job belongs to the user who submits it";
    "mapreduce.job.cache.files" ["mapred.cache.files", "tmpfiles"] unless [""] "`--files A,B#NAME`, `-files`, `Job::side_file` send files";
    "mapreduce.job.cache.archives" ["mapred.cache.archives", "tmparchives"] unless [""] "archives are not unpacked; `--files` sends files as they are";
    "tmpjars" [] unless [""] "there is no Java";
    "mapreduce.map.debug.script" ["mapred.map.task.debug.script"] unless [""] "`hanno job replay` runs a failed attempt again";
    "mapreduce.reduce.debug.script" ["mapred.reduce.task.debug.script"] unless [""] "`hanno job replay` runs a failed attempt again";
    "mapreduce.partition.binarypartitioner.*" ["mapred.binary.partitioner.left.offset", "mapred.binary.partitioner.right.offset"] unless [] "`Job::partition` says it";
    "mapreduce.totalorderpartitioner.*" [] unless [] "`Job::total_order` samples by itself";
    "mapreduce.join.*" ["mapred.join.expr", "mapred.join.keycomparator"] unless [] "`SortedFile` joins: `examples/joins.rs`";
    "mapreduce.fieldsel.*" ["mapred.data.field.separator", "map.output.key.value.fields.spec", "reduce.output.key.value.fields.spec"] unless [] "a mapper chooses fields";
    "mapreduce.mapper.regex" ["mapred.mapper.regex"] unless [] "`examples/grep.rs` takes it as an argument";
    "mapreduce.mapper.regexmapper..group" ["mapred.mapper.regex.group"] unless [] "`examples/grep.rs` takes it as an argument";
    "mapreduce.mapper.multithreadedmapper.*" [] unless ["1"] "a slot is a thread; more slots run more maps";
    "mapreduce.pipes.*" ["hadoop.pipes.command-file.keep", "hadoop.pipes.executable", "hadoop.pipes.executable.interpretor", "hadoop.pipes.java.mapper", "hadoop.pipes.java.recordreader", "hadoop.pipes.java.recordwriter", "hadoop.pipes.java.reducer", "hadoop.pipes.partitioner", "mapred.pipes.user.inputformat"] unless [] "there are no pipes jobs; a Rust job or `hanno job streaming` takes their place";
    "mapreduce.chain.*" [] unless [] "a Rust mapper calls the next itself; a script is a pipe";
    "mapreduce.jdbc.*" ["mapred.jdbc.input.bounding.query"] unless [] "databases are neither inputs nor outputs; a program reads and writes them itself";
    "mapreduce.aggregate.*" [] unless [] "`-reducer aggregate` has Hadoop's built-in sums; others are programs";
    "aggregator.descriptor*" [] unless ["0"] "`-reducer aggregate` has Hadoop's built-in sums; others are programs";
    "aggregate.descriptor*" [] unless [] "`-reducer aggregate` has Hadoop's built-in sums; others are programs";
    "mapreduce.multipleoutputs*" [] unless ["false"] "the code of a job says what else it writes";
    "mapred.outputformat.numOfTrailingLegs" [] unless ["0"] "the code of a job says what its files are called";
    "mapreduce.outputcommitter.named.classname" [] unless [] "the JobTracker commits";
    "mapred.output.committer.class" [] unless ["org.apache.hadoop.mapred.FileOutputCommitter"] "the JobTracker commits";
    "mapred.map.runner.class" [] unless ["org.apache.hadoop.mapred.MapRunner", "org.apache.hadoop.streaming.PipeMapRunner"] "the engine runs mappers";
    "stream.map.input.writer.class" [] unless [] "`stream.map.input` or `-io` names an encoding";
    "stream.map.output.reader.class" [] unless [] "`stream.map.output` or `-io` names an encoding";
    "stream.reduce.input.writer.class" [] unless [] "`stream.reduce.input` or `-io` names an encoding";
    "stream.reduce.output.reader.class" [] unless [] "`stream.reduce.output` or `-io` names an encoding";
    "stream.io.identifier.resolver.class" [] unless [] "`-io` takes text, rawbytes, typedbytes";
    "stream.map.streamprocessor" [] unless [] "`-mapper` names it";
    "stream.reduce.streamprocessor" [] unless [] "`-reducer` names it";
    "stream.combine.streamprocessor" [] unless [] "`-combiner` names it";
    }
}
