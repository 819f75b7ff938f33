//! Command lines of streaming jobs, as people write them, and those that are refused.

use mr_model::runner::side_file::Origin;

use super::*;

fn parsed(words: &[&str]) -> Result<Request, Error> {
    parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_command_line_as_people_write_it() {
    let Request { spec, options } = parsed(&[
        "-D",
        "mapred.reduce.tasks=3",
        "-Dstream.num.map.output.key.fields=2",
        "-files",
        "hdfs:///a/b#c,local.txt",
        "-input",
        "hdfs://nn:8020/in",
        "-input",
        "/x,/y",
        "-output",
        "/out",
        "-mapper",
        "python3 m.py -v",
        "-reducer",
        "aggregate",
        "-file",
        "m.py",
        "-cmdenv",
        "A=b=c",
        "-numReduceTasks",
        "5",
        "-lazyOutput",
        "--quiet",
    ])
    .unwrap();
    assert_eq!(
        spec.inputs,
        ["hdfs://nn:8020/in", "/x", "/y"],
        "what they mean is the driver's to say"
    );
    assert_eq!(spec.reducers, Some(5), "-numReduceTasks wins");
    assert!(options.quiet && spec.lazy && spec.ignore_key);
    assert_eq!(spec.map_output.key_fields, 2);
    let names: Vec<&str> = spec.side_files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["c", "local.txt", "m.py"]);
    let Work::Script(script) = &spec.mapper else { panic!("a script") };
    assert_eq!(script.words, ["python3", "m.py", "-v"]);
    assert_eq!(script.variables, [("A".to_owned(), "b=c".to_owned())]);
    assert!(matches!(spec.reducer, Some(Work::Aggregate { unique_max: None })));
}

#[test]
fn a_cache_file_without_a_scheme_is_of_the_cluster() {
    let words = "-input a -output b -cacheFile /x/y#l file:///m hdfs:///c -file /x/y";
    let words: Vec<&str> = words.split(' ').collect();
    let found = parsed(&words).unwrap().spec.side_files;
    let found: Vec<_> = found.into_iter().map(|file| (file.name, file.origin)).collect();
    let expected = [
        ("y", Origin::Local("/x/y".into())),
        ("l", Origin::Cluster("/x/y".to_owned())),
        ("m", Origin::Local("/m".into())),
        ("c", Origin::Cluster("hdfs:///c".to_owned())),
    ];
    assert_eq!(found, expected.map(|(name, origin)| (name.to_owned(), origin)));
}

/// Options of the help with values that they take.
#[test]
fn every_option_of_the_help_is_taken_in_both_forms() {
    let value_of = |name: &str| match name {
        "-D" | "--default" | "-cmdenv" => "a=b",
        "--local" | "--reducers" | "--skip-bad" | "-numReduceTasks" => "1",
        "-io" => "text",
        "-partitioner" => "HashPartitioner",
        "-inputformat" => "TextInputFormat",
        "-outputformat" => "TextOutputFormat",
        _ => "x",
    };
    let help = format!("{HELP}{}", crate::run::OPTIONS_HELP);
    let lines = help.lines().filter_map(|line| line.strip_prefix("  -").map(|_| line.trim()));
    let mut tried = 0;
    for line in lines {
        let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
        let (name, next) = (words.next().unwrap(), words.next().unwrap_or_default());
        let (name, is_optional) = match name.split_once("[=") {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        if ["--help", "-help", "--", "-conf"].contains(&name) {
            continue;
        }
        let takes_one = !next.is_empty() && next.chars().all(|c| !c.is_lowercase());
        let value = value_of(name);
        let forms = match (is_optional, takes_one) {
            (true, _) => vec![vec![name.to_owned()], vec![format!("{name}={value}")]],
            (_, false) => vec![vec![name.to_owned()]],
            (_, true) if name.starts_with("--") => {
                vec![vec![name.to_owned(), value.to_owned()], vec![format!("{name}={value}")]]
            }
            (_, true) => vec![vec![name.to_owned(), value.to_owned()]],
        };
        for form in forms {
            let mut words: Vec<&str> = form.iter().map(String::as_str).collect();
            for needed in [["-input", "a"], ["-output", "b"]] {
                if name != needed[0] {
                    words.extend(needed);
                }
            }
            let error = parsed(&words).err().map(|error| error.to_string());
            let of_other = error.as_ref().is_some_and(|text| text.contains("is missing"));
            assert!(error.is_none() || of_other && name == "-input", "{form:?}: {error:?}");
            tried += 1;
        }
    }
    assert!(tried > 25, "{tried}");
}

#[test]
fn an_empty_path_is_not_dropped() {
    for (typed, inputs) in [
        ("", &[""][..]),
        (",", &["", ""]),
        ("/a,,/b", &["/a", "", "/b"]),
        ("/a,", &["/a", ""]),
        ("/{a,,b}", &["/{a,,b}"]),
    ] {
        let Request { spec, .. } = parsed(&["-input", typed, "-output", "/o"]).unwrap();
        assert_eq!(spec.inputs, inputs, "{typed}");
    }
}

#[test]
fn no_reduce_in_both_ways() {
    for extra in
        [&["-reducer", "NONE"][..], &["-numReduceTasks", "0"], &["-D", "mapred.reduce.tasks=0"]]
    {
        let words = [&["-input", "a", "-output", "b", "-mapper", "cat"], extra].concat();
        assert!(parsed(&words).unwrap().spec.is_map_only(), "{extra:?}");
    }
}

#[test]
fn options_without_effect_are_named() {
    let warnings = |line: &str| {
        let words = format!("-input a -output b {line}");
        let words: Vec<&str> = words.split_whitespace().collect();
        parsed(&words).unwrap().options.warnings
    };
    for (line, part) in [
        ("-reducer NONE -combiner cat", "option -combiner has no effect"),
        ("-numReduceTasks 0 -partitioner HashPartitioner", "the partitioner has no effect"),
        ("-D mapreduce.partition.keycomparator.options=-n", "comparator.class=KeyField"),
        ("-D mapreduce.partition.keypartitioner.options=-k1", "-partitioner KeyField"),
        ("-D num.key.fields.for.partition=2", "without -partitioner KeyFieldBased"),
        ("-D map.output.key.field.separator=.", "or -D mapreduce.job.output.key.comparator"),
        ("-D aggregate.max.num.unique.values=2", "without -reducer aggregate"),
        ("-D key.value.separator.in.input.line=,", "-inputformat KeyValueTextInputFormat"),
        ("-D stream.num.map.output.key.fields=2", "without a command as -mapper"),
        ("-mapper cat -D stream.reduce.output=typedbytes", "without a command as -reducer"),
        (
            "-mapper cat -reducer aggregate -D stream.reduce.input.field.separator=,",
            "without a command as -reducer",
        ),
        ("-D stream.stderr.reporter.prefix=x", "without a command"),
        ("-reducer aggregate -cmdenv A=b", "option -cmdenv has no effect"),
        (
            "-mapper cat -io typedbytes -D stream.map.input.ignoreKey=true",
            "without stream.map.input=text",
        ),
        (
            "-partitioner KeyFieldBasedPartitioner -D num.key.fields.for.partition=2 \
             -D mapreduce.partition.keypartitioner.options=-k1",
            "options has no effect beside num.key.fields.for.partition",
        ),
    ] {
        let found = warnings(line);
        assert!(found.len() == 1 && found[0].contains(part), "{line}: {found:?}");
    }
    let all = "-combiner cat -reducer aggregate -partitioner KeyFieldBasedPartitioner \
               -D num.key.fields.for.partition=2 -D map.output.key.field.separator=. \
               -D mapred.output.key.comparator.class=KeyFieldBasedComparator \
               -D mapreduce.partition.keycomparator.options=-n -D \
               aggregate.max.num.unique.values=2";
    assert_eq!(warnings(all), [""; 0]);
    let twice = ["-input", "a", "-output", "b", "-numReduceTasks", "2", "--reducers", "3"];
    let error = parsed(&twice).err().unwrap().to_string();
    assert!(error.contains("-numReduceTasks and --reducers"), "{error}");
}

/// `KeyFieldBasedPartitioner.setConf` reads the options only without the number of fields.
#[test]
fn the_number_of_fields_wins_over_options_of_the_partitioner() {
    let fields = |given: &[&str]| {
        let line = "-input a -output b -reducer cat -partitioner KeyFieldBasedPartitioner";
        let words: Vec<&str> = line.split(' ').chain(given.iter().copied()).collect();
        let partitioner = parsed(&words).unwrap().spec.partitioner;
        format!("{:?}", partitioner.unwrap())
    };
    let count = "num.key.fields.for.partition=2";
    let options = "mapreduce.partition.keypartitioner.options=-k1,1";
    assert_eq!(fields(&["-D", count, "-D", options]), fields(&["-D", count]));
    assert_ne!(fields(&["-D", options]), fields(&["-D", count]));
}

#[test]
fn what_is_given_once_is_refused_twice() {
    for name in VALUES {
        let option = format!("-{name}");
        let error = parsed(&[&option, "a", &option, "a"]).err().unwrap().to_string();
        assert!(error.contains(&format!("option {option} is given twice")), "{error}");
    }
    let line = "-input a -input b -file m -file n -files o -files p -cmdenv A=1 -cmdenv B=2 \
                -D x=1 -jobconf x=2 -output c";
    let request = parsed(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    assert_eq!(request.spec.inputs, ["a", "b"]);
    assert_eq!(request.options.properties["x"], "2");
}

#[test]
fn classes_of_others_do_not_pass_for_hadoops() {
    for (words, part) in [
        (["-partitioner", "com.foo.KeyFieldBasedPartitioner"], "com.foo.KeyFieldBasedPartitioner"),
        (["-inputformat", "com.foo.TextInputFormat"], "-inputformat com.foo.TextInputFormat"),
        (["-outputformat", "com.foo.NullOutputFormat"], "-outputformat com.foo.NullOutputFormat"),
        (["-mapper", "com.foo.IdentityMapper"], "looks like a Java class"),
        (["-reducer", "com.foo.Reducer"], "looks like a Java class"),
        (["-reducer", "com.foo.ValueAggregatorReducer"], "looks like a Java class"),
        (["-mapper", "aggregate"], "-mapper `aggregate`: the aggregate library reduces"),
        (
            ["-mapper", "org.apache.hadoop.mapred.lib.IdentityReducer"],
            "the identity is org.apache.hadoop.mapred.lib.IdentityMapper here",
        ),
        (["-combiner", "org.apache.hadoop.mapreduce.Mapper"], "IdentityReducer here"),
        (
            ["-D", "mapred.output.key.comparator.class=com.foo.KeyFieldBasedComparator"],
            "mapreduce.job.output.key.comparator.class: `com.foo.KeyFieldBasedComparator`",
        ),
    ] {
        let words = [&["-input", "a", "-output", "b"], &words[..]].concat();
        let error = parsed(&words).err().unwrap().to_string();
        assert!(error.contains(part), "{words:?}: {error}");
    }
    for words in [
        ["-mapper", "org.apache.hadoop.mapred.lib.IdentityMapper"],
        ["-reducer", "org.apache.hadoop.mapred.lib.aggregate.ValueAggregatorReducer"],
        ["-inputformat", "org.apache.hadoop.mapred.KeyValueTextInputFormat"],
        ["-inputformat", "KeyValueTextInputFormat"],
        ["-outputformat", "org.apache.hadoop.mapred.lib.NullOutputFormat"],
        ["-partitioner", "org.apache.hadoop.mapreduce.lib.partition.KeyFieldBasedPartitioner"],
    ] {
        let words = [&["-input", "a", "-output", "b"], &words[..]].concat();
        assert!(parsed(&words).is_ok(), "{words:?}");
    }
}

#[test]
fn mistakes_are_named() {
    for (words, expected) in [
        (&["-output", "b"][..], "-input is missing"),
        (&["-input", "a"], "-output is missing"),
        (&["-input"], "needs a value"),
        (&["-what", "x"], "unknown option `-what`"),
        (&["stray"], "unexpected argument `stray`"),
        (&["-input", "a", "-output", "b", "-inputformat", "x.Y"], "-inputformat x.Y"),
        (&["-input", "a", "-output", "b", "-io", "json"], "`json`"),
        (&["-input", "a", "-output", "b", "-mapper", " "], "an empty command"),
        (&["-input", "a", "-output", "b", "-cmdenv", "A"], "NAME=VALUE"),
        (&["-jobname", "x"], "option `-jobname` is not here: `-D mapreduce.job.name=NAME`"),
        (&["-fs", "a", "-fs", "b"], "option -fs is given twice"),
        (&["-jt", "a", "-jt", "b"], "option --jobtracker is given twice"),
        (&["--quiet=false"], "option --quiet takes no value"),
    ] {
        let error = parsed(words).err().unwrap().to_string();
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}
