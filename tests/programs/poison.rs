//! A job whose mapper panics on one record, to see what the cluster makes of it. Built as an example, so that it links `mr-api` as
//! any job does.

use std::process::ExitCode;

use mr_api::{Args, Auto, Emit, Job, Line, Lines, Mapper, Plan, Result, Sink, Sum, text, text_out};

fn main() -> ExitCode {
    mr_api::main("poison IN... OUT", plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("poison").input(text(inputs)).map(Poisoned).combine(Sum).reduce(Sum);
    Ok(Plan::from(job.reducers(Auto).output(text_out(output))))
}

/// Emits each line, but panics on lines that begin with `poison`.
#[derive(Clone)]
struct Poisoned;

impl Mapper for Poisoned {
    type In = Lines;
    type Key = Vec<u8>;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
        if line.starts_with(b"poison") {
            eprintln!("about to fail");
            panic!("this line is poison");
        }
        out.emit(&*line, 1u64)
    }
}
