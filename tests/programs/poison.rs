//! A job whose mapper misbehaves on certain records, to see what the cluster makes of it. Built as an example, so that it links `mr-api` as
//! any job does.

use std::io::Write;
use std::process::ExitCode;

use mr_api::{Args, Auto, Emit, Job, Line, Lines, Mapper, Plan, Result, Sink, Sum, text, text_out};

/// What a record `flood` prints.
const FLOOD_BYTES: usize = 1 << 30;
/// Printed at once.
const FLOOD_CHUNK_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    mr_api::main("poison [--map-only] IN... OUT", plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let map_only = args.flag("--map-only");
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("poison").input(text(inputs)).map(Poisoned);
    if map_only {
        return Ok(Plan::from(job.output(text_out(output))));
    }
    let job = job.combine(Sum).reduce(Sum);
    Ok(Plan::from(job.reducers(Auto).output(text_out(output))))
}

/// Emits each line, but does what some lines say.
#[derive(Clone)]
struct Poisoned;

impl Mapper for Poisoned {
    type In = Lines;
    type Key = Vec<u8>;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
        match line.split(|byte| *byte == b' ').next() {
            Some(b"poison") => {
                eprintln!("about to fail");
                panic!("this line is poison");
            }
            Some(b"abort") => std::process::abort(),
            Some(b"exit") => std::process::exit(0),
            Some(b"spin") => loop {
                std::hint::spin_loop();
            },
            Some(b"flood") => {
                let mut stdout = std::io::stdout().lock();
                let chunk = vec![b'x'; FLOOD_CHUNK_BYTES];
                for _ in 0..FLOOD_BYTES / FLOOD_CHUNK_BYTES {
                    stdout.write_all(&chunk)?;
                }
            }
            Some(b"junk") => {
                let junk: Vec<u8> = (0..=255).collect();
                std::io::stdout().write_all(&junk)?;
                std::io::stderr().write_all(&junk)?;
            }
            _ => {}
        }
        out.emit(&*line, 1u64)
    }
}
