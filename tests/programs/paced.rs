//! PageRank whose rounds stop where a test wants them to.
//!
//! `paced [--rounds N] [--keep-every N] MARKS IN OUT`: each task of round `n` makes the file `round-n-ATTEMPT` in MARKS, with the attempt's
//! directory in it, and waits there while MARKS has a file `shut-n`. Ranks are sums of floating-point numbers, which another order of
//! messages would change.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{Args, Emit, Job, Output, Plan, Result, Sink, text, text_out};

fn main() -> ExitCode {
    mr_api::main("Usage: paced [--rounds N] [--keep-every N] MARKS IN OUT", plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let last = args.value("--rounds")?.unwrap_or(8);
    let keep_every = args.value("--keep-every")?.unwrap_or(0);
    let (mut operands, output) = args.inputs_and_output()?;
    let input = operands.pop().ok_or("an input is needed")?;
    let marks = operands.pop().ok_or("a directory for marks is needed")?.into();
    let job = Job::new("paced")
        .input(text([input]))
        .map_fn::<u32, u32, _>(|line, out| {
            let line = line.to_str_lossy();
            let (from, to) = line.split_once(' ').ok_or("a line is two numbers")?;
            out.emit(from.parse::<u32>()?, to.parse::<u32>()?)
        })
        .rounds(Paced { marks }, last)
        .keep_every(keep_every)
        .reducers(4)
        .output(text_out(output));
    Ok(job.into())
}

#[derive(Clone)]
struct Paced {
    marks: PathBuf,
}

impl Rounds for Paced {
    type Key = u32;
    type Fixed = u32;
    type State = f64;
    type Message = f64;
    type Summary = f64;

    fn setup(&mut self, round: &mut Round<'_, f64>) -> Result<()> {
        let (number, context) = (round.number(), round.context());
        let mark = self.marks.join(format!("round-{number}-{}", context.attempt()));
        fs::write(mark, context.directory().display().to_string())?;
        while self.marks.join(format!("shut-{number}")).try_exists()? {
            context.show_life();
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn begin(&mut self, _: u32, _: Option<u32>, _: &mut Round<'_, f64>) -> Result<f64> {
        Ok(1.0)
    }

    fn update(
        &mut self,
        node: Entry<'_, Self>,
        share: Option<f64>,
        round: &mut Round<'_, f64>,
    ) -> Result<f64> {
        let total = round.total().copied().unwrap_or_default();
        let rank = 0.15 + 0.85 * share.unwrap_or_default() + 1e-3 * total.sin();
        *round.summary() += (rank - node.state).abs() / 3.0;
        Ok(rank)
    }

    fn send<S: Sink>(&mut self, node: Entry<'_, Self>, out: &mut Emit<u32, f64, S>) -> Result<()> {
        let Some(target) = node.fixed else { return Ok(()) };
        (0..7).try_for_each(|step| out.emit(target.wrapping_mul(step) % 5000, node.state / 7.0))
    }

    fn combine(&self, into: &mut f64, other: f64) {
        *into += other;
    }

    fn add(&self, into: &mut f64, other: f64) {
        *into += other;
    }

    fn measure(&self, _: u32, total: &f64) -> Option<f64> {
        Some(*total)
    }

    fn write(&mut self, node: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        out.write(node.key, node.state)
    }
}
