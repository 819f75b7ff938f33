//! A program with a loop: `stepping [--pause] [--unnamed] IN OUT` follows the Collatz sequence of each number until all are 1, and counts
//! the rounds.
//!
//! `--pause` waits for the end of standard input after the first round. `--unnamed` runs a step that the program does not name. A number
//! that is odd is multiplied by the variable `FACTOR`, 3 by default.

use std::io::{Read, Write, stdin, stdout};
use std::process::ExitCode;

use mr_api::job::CompleteJob;
use mr_api::{Args, Cluster, Job, Program, Result, counters, intermediate, text, text_out};
use serde::{Deserialize, Serialize};

counters! {
    enum Numbers {
        Above,
    }
}

fn main() -> ExitCode {
    Program::new("Usage: stepping [--pause] [--unnamed] IN OUT\n").step(next).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let (pauses, is_unnamed) = (args.flag("--pause"), args.flag("--unnamed"));
    let (inputs, output) = args.inputs_and_output()?;
    if is_unnamed {
        cluster.run(unnamed, &Next { inputs, output: None })?;
        return Ok(());
    }
    cluster.check_new(&output)?;
    let mut done = cluster.run(next, &Next { inputs, output: None })?;
    let mut rounds = 1;
    if pauses {
        writeln!(stdout(), "paused {}", done.path())?;
        stdin().read_to_end(&mut Vec::new())?;
    }
    while done.counted(Numbers::Above) > 0 {
        done = cluster.run(next, &Next { inputs: vec![done.path().to_owned()], output: None })?;
        rounds += 1;
    }
    assert_eq!(done.path(), done.path().trim());
    let ones = done.lines()?.iter().filter(|line| *line == "1").count();
    let last = Next { inputs: vec![done.path().to_owned()], output: Some(output) };
    assert_eq!(cluster.run(next, &last)?.lines()?.len(), ones);
    writeln!(stdout(), "{rounds} rounds, {ones} numbers")?;
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Next {
    inputs: Vec<String>,
    output: Option<String>,
}

fn next(Next { inputs, output }: Next) -> Result<CompleteJob> {
    let factor: u64 = std::env::var("FACTOR").unwrap_or("3".to_owned()).parse()?;
    let job = Job::new("next").depends_on(factor).property("stepping.most", "1000")?;
    let job = job.input(text(inputs)).map_fn::<u64, (), _>(move |line, out| {
        let most: u64 = out.context().property("stepping.most").unwrap_or_default().parse()?;
        let next = match line.to_str_lossy().parse()? {
            1 => 1,
            even if even % 2 == 0 => even / 2,
            odd => odd * factor + 1,
        };
        if next > most {
            return Err(format!("{next} is above {most}").into());
        }
        if next > 1 {
            out.count(Numbers::Above);
        }
        out.emit(next, ())
    });
    Ok(job.output(output.map_or(intermediate(), text_out)))
}

fn unnamed(step: Next) -> Result<CompleteJob> {
    next(step)
}
