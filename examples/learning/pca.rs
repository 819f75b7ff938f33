//! Finds the directions in which points vary most: principal components.
//!
//! ```text
//! cargo run --release -p learning --example pca -- --local --components 2 points.txt
//! cargo run --release -p learning --example pca -- --local --components 2 --projections OUT points.txt
//! ```
//!
//! Reads points, a line each, numbers separated by spaces. Prints `component<TAB>variance<TAB>direction`; `--projections` writes the place of each
//! point along the components, from the mean of all points on.
//!
//! The components are the eigenvectors of the covariance matrix, which is small however many points there are. A map measures the moments of
//! its points ([`learning::moments`]) and emits one matrix. One reduce merges these, in the order of the maps, and finds the eigenvectors. The
//! sums are around means: the covariance by the formula, mean of products minus product of means, is noise where numbers are large.
//!
//! A direction has no sign of its own. Here its largest number is positive, so the same points give the same components.
//!
//! The second job projects. Each task needs the mean and the components, which can be larger than what a step's parameters may have: they
//! are a side file, the output of the first job.

use std::fs;
use std::io::Write;
use std::process::ExitCode;

use learning::moments::{Measure, Moments, OfMap, merged};
use learning::rows::{check_width, parse, words};
use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Cluster, Context, Emit, Job, Line, Lines, Mapper, Program, Result, Sink,
    intermediate, reduce_fn, text, text_out, usage_error,
};
use nalgebra::{DMatrix, SymmetricEigen};

const HELP: &str = "\
Finds the principal components of points.

Usage: pca [options] IN...

  IN...                  points: lines of numbers, separated by spaces
  --components N         how many components (default: all)
  --projections OUT      writes the points along the components to a new directory

Example:
  pca --local --components 2 points.txt
";

fn main() -> ExitCode {
    Program::new(HELP).step(components).step(project).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let most = args.value::<usize>("--components")?.unwrap_or(usize::MAX);
    let projections: Option<String> = args.value("--projections")?;
    let inputs = args.operands()?;
    if inputs.is_empty() || most == 0 {
        return usage_error("an input is needed, and a component");
    }
    if let Some(output) = &projections {
        cluster.check_new(output)?;
    }
    let done = cluster.run(components, &(inputs.clone(), most))?;
    let lines = done.lines()?;
    if lines.is_empty() {
        return Err("there are no points".into());
    }
    lines.iter().skip(1).try_for_each(|line| writeln!(mr_api::stdout(), "{line}"))?;
    if let Some(output) = projections {
        cluster.run(project, &(inputs, done.path().to_owned(), output))?;
    }
    Ok(())
}

/// Lines `number<TAB>variance<TAB>direction`; before them the mean as that of number 0.
fn components((inputs, most): (Vec<String>, usize)) -> Result<CompleteJob> {
    let find = reduce_fn::<OfMap, Serde<Moments>, _>(move |_, parts, out| {
        let points = merged(parts)?;
        out.write(0u64, (0.0, words(&points.means)))?;
        let found = eigen(&points);
        let mut numbered = (1u64..).zip(found.into_iter().take(most));
        numbered.try_for_each(|(number, (variance, direction))| {
            out.write(number, (variance, words(&direction)))
        })
    });
    let job = Job::new("components").input(text(inputs)).map(Measure::default()).depends_on(most);
    // One file, whatever `--reducers` says: the next job reads it by its name.
    let job = job.group_by_first().reduce(find).reducers(Always(1));
    Ok(job.output(intermediate()))
}

/// Variances and directions, largest variance first.
fn eigen(points: &Moments) -> Vec<(f64, Vec<f64>)> {
    let (width, freedom) = (points.means.len(), (points.count.max(2) - 1) as f64);
    let covariance = DMatrix::from_fn(width, width, |a, b| points.product(a, b) / freedom);
    let SymmetricEigen { eigenvectors, eigenvalues } = covariance.symmetric_eigen();
    let directed = |(direction, variance): (nalgebra::DVectorView<'_, f64>, &f64)| {
        let largest = direction[direction.icamax()];
        (*variance, direction.iter().map(|x| x * largest.signum()).collect())
    };
    let mut found: Vec<(f64, Vec<f64>)> =
        eigenvectors.column_iter().zip(&eigenvalues).map(directed).collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found
}

fn project((inputs, components, output): (Vec<String>, String, String)) -> Result<CompleteJob> {
    let job = Job::new("project").side_file(&format!("{components}/part-r-00000#components"))?;
    Ok(job.input(text(inputs)).map(Project::default()).output(text_out(output)))
}

/// Writes where points are along the components.
#[derive(Clone, Default)]
struct Project {
    mean: Vec<f64>,
    components: Vec<Vec<f64>>,
    point: Vec<f64>,
}

impl Mapper for Project {
    type In = Lines;
    type Key = String;
    type Value = ();

    fn setup(&mut self, context: &Context) -> Result<()> {
        let lines = fs::read_to_string(context.side_file("components")?)?;
        let vector = |line: &str| {
            let mut vector = Vec::new();
            parse(line.rsplit('\t').next().unwrap_or_default().as_bytes(), &mut vector)?;
            Ok(vector)
        };
        let mut vectors = lines.lines().map(vector).collect::<Result<Vec<_>>>()?.into_iter();
        self.mean = vectors.next().ok_or("the mean is missing")?;
        self.components = vectors.collect();
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<String, (), S>) -> Result<()> {
        parse(line.bytes, &mut self.point)?;
        check_width(self.mean.len(), self.point.len())?;
        self.point.iter_mut().zip(&self.mean).for_each(|(x, mean)| *x -= mean);
        let along =
            |direction: &Vec<f64>| direction.iter().zip(&self.point).map(|(a, b)| a * b).sum();
        let places: Vec<f64> = self.components.iter().map(along).collect();
        out.emit(words(&places), ())
    }
}

#[cfg(test)]
mod tests {
    use learning::chance;
    use mr_api::LocalRunner;

    use super::*;

    type Components = Vec<(f64, Vec<f64>)>;

    /// The components of points, and the points along them.
    fn found(points: &[Vec<f64>], most: usize) -> (Components, Vec<Vec<f64>>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = points.iter().map(|point| words(point) + "\n").collect();
        fs::write(path("in"), lines).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(3).split_bytes(300).tiny_memory());
        let done = cluster.run(components, &(vec![path("in")], most)).unwrap();
        let numbers = |text: &str| {
            let mut numbers = Vec::new();
            parse(text.as_bytes(), &mut numbers).unwrap();
            numbers
        };
        let component = |line: &String| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[1].parse().unwrap(), numbers(fields[2]))
        };
        let all = done.lines().unwrap().iter().skip(1).map(component).collect();
        cluster.run(project, &(vec![path("in")], done.path().to_owned(), path("out"))).unwrap();
        let mut parts: Vec<_> =
            fs::read_dir(path("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
        parts.sort();
        let text: String = parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect();
        (all, text.lines().map(numbers).collect())
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn directions_in_which_points_were_spread_are_found() {
        // Along (3, 4) / 5 six times as far as across, far from 0.
        let point = |n: u64| {
            let (along, across) = (6.0 * (chance(1, n) - 0.5), chance(2, n) - 0.5);
            vec![1e6 + 0.6 * along - 0.8 * across, -2e6 + 0.8 * along + 0.6 * across]
        };
        let points: Vec<Vec<f64>> = (0..2000).map(point).collect();
        let (components, _) = found(&points, 2);
        let [(long, direction), (short, _)] = &components[..] else { panic!("{components:?}") };
        assert!((dot(direction, &[0.6, 0.8]) - 1.0).abs() < 1e-3, "{direction:?}");
        assert!((long * 12.0 / 36.0 - 1.0).abs() < 0.1 && (short * 12.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn along_the_components_points_vary_apart() {
        let point = |n: u64| {
            let x: Vec<f64> = (0..4).map(|axis| chance(axis, n)).collect();
            vec![x[0], x[0] * 2.0 + x[1], x[2] - x[1], x[3] + 5.0]
        };
        let points: Vec<Vec<f64>> = (0..200).map(point).collect();
        let (components, projected) = found(&points, 3);
        assert_eq!((components.len(), projected.len()), (3, 200));
        for (a, (variance, direction)) in components.iter().enumerate() {
            let largest = direction.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
            assert!(largest.unwrap() > 0.0 && (dot(direction, direction) - 1.0).abs() < 1e-9);
            for b in 0..3 {
                let covariance: f64 = projected.iter().map(|p| p[a] * p[b]).sum::<f64>() / 199.0;
                let expected = if a == b { *variance } else { 0.0 };
                assert!((covariance - expected).abs() < 1e-9, "{a}, {b}: {covariance}");
            }
        }
        assert!(components.is_sorted_by(|a, b| a.0 >= b.0));
    }
}
