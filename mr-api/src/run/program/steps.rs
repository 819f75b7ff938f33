//! Steps of a program, and what a worker is told of the one that it is to build.
//!
//! ```text
//! --shipped-step '2 kmeans::assign' --shipped-parameters 'BASE64' ARGUMENTS OF THE PROGRAM…
//! ```

use std::any::{TypeId, type_name};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mr_model::job::Plan;
use mr_model::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

const STEP: &str = "--shipped-step";
const PARAMETERS: &str = "--shipped-parameters";
/// Longest parameters that are sent, bytes: as base64 they are less than the kernel's limit for one argument of a process.
const PARAMETERS_BYTES_MAX: usize = 64 << 10;

/// Makes the plan of serialised parameters.
type PlanOf = dyn Fn(&[u8]) -> Result<Plan> + Send + Sync;

/// A step without its types.
pub(super) struct Step {
    id: TypeId,
    name: &'static str,
    plan: Box<PlanOf>,
}

impl Step {
    pub(super) fn new<F, P, J>(step: F) -> Self
    where
        F: Fn(P) -> Result<J> + Copy + Send + Sync + 'static,
        P: DeserializeOwned,
        J: Into<Plan>,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "a step captures nothing and is no function pointer: workers would not have it. Make it a parameter"
            );
        }
        let name = type_name::<F>();
        let plan = move |bytes: &[u8]| Ok(step(decode(name, bytes)?)?.into());
        Step { id: TypeId::of::<F>(), name, plan: Box::new(plan) }
    }

    /// The plan of an order for this step.
    pub(super) fn plan(&self, order: &Order) -> Result<Plan> {
        (self.plan)(&order.parameters)
    }
}

fn decode<P: DeserializeOwned>(step: &str, bytes: &[u8]) -> Result<P, Error> {
    let wrong = |reason: String| Error::Parameters { step: step.to_owned(), reason };
    let read = postcard::take_from_bytes(bytes);
    let (parameters, rest) = read.map_err(|error| {
        wrong(format!(
            "what was serialised does not read back: {error}. A type whose form names its fields (`flatten`, `untagged`, `skip_serializing_if`) cannot be sent"
        ))
    })?;
    match rest.len() {
        0 => Ok(parameters),
        count => Err(wrong(format!("{count} bytes are left over"))),
    }
}

/// The steps that a program names.
#[derive(Default)]
pub(super) struct Steps(Vec<Step>);

impl Steps {
    pub(super) fn add<F, P, J>(&mut self, step: F)
    where
        F: Fn(P) -> Result<J> + Copy + Send + Sync + 'static,
        P: DeserializeOwned,
        J: Into<Plan>,
    {
        self.0.push(Step::new(step));
    }

    /// The order to build a step.
    pub(super) fn order(&self, step: &Step, parameters: &impl Serialize) -> Result<Order> {
        let number = self.0.iter().position(|known| known.id == step.id);
        let unknown = || Error::StepUnknown { name: step.name.to_owned() };
        Order::of(step, number.ok_or_else(unknown)?, parameters)
    }

    /// Builds what was ordered.
    pub(super) fn plan(&self, order: &Order) -> Result<Plan> {
        let step = self.0.get(order.number).filter(|step| step.name == order.name);
        step.ok_or_else(|| Error::StepMissing { name: order.name.clone() })?.plan(order)
    }
}

/// What a worker is told: which step, of which parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Order {
    /// Position in the program's list.
    number: usize,
    /// The function, for people and as a check.
    name: String,
    /// In postcard's form.
    parameters: Vec<u8>,
}

impl Order {
    pub(super) fn of(step: &Step, number: usize, parameters: &impl Serialize) -> Result<Order> {
        let name = step.name.to_owned();
        let wrong = |reason: String| Error::Parameters { step: name.clone(), reason };
        let parameters =
            postcard::to_allocvec(parameters).map_err(|error| wrong(error.to_string()))?;
        if parameters.len() > PARAMETERS_BYTES_MAX {
            let count = parameters.len();
            let reason = format!(
                "they have {count} bytes, more than {PARAMETERS_BYTES_MAX}: send them as a file (Job::side_file)"
            );
            return Err(wrong(reason).into());
        }
        Ok(Order { number, name, parameters })
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Order { number, name, parameters } = self;
        let step = format!("{number} {name}");
        vec![STEP.to_owned(), step, PARAMETERS.to_owned(), STANDARD.encode(parameters)]
    }

    /// Takes an order off the front of a command line.
    pub(super) fn take(words: &[String]) -> Result<Order> {
        if let [option, step, other, parameters, ..] = words
            && (option.as_str(), other.as_str()) == (STEP, PARAMETERS)
            && let Some((number, name)) = step.split_once(' ')
        {
            let name = name.to_owned();
            let parameters = STANDARD.decode(parameters).map_err(|error| Error::Parameters {
                step: name.clone(),
                reason: error.to_string(),
            })?;
            return Ok(Order { number: number.parse()?, name, parameters });
        }
        Err(Error::StepMissing { name: format!("in `{}`", words.join(" ")) }.into())
    }
}

#[cfg(test)]
mod tests {
    use mr_model::runner::{InputPaths, Planned};
    use mr_model::{Job, text, text_out};
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Copy {
        inputs: Vec<String>,
        share: f64,
    }

    fn copy(step: Copy) -> Result<Plan> {
        let job = Job::new(format!("copy {}", step.share)).input(text(step.inputs));
        Ok(job.map_fn::<String, (), _>(|_, _| Ok(())).output(text_out("out")).into())
    }

    fn nothing(_: ()) -> Result<Plan> {
        Ok(Plan::new())
    }

    fn steps() -> Steps {
        let mut steps = Steps::default();
        steps.add(nothing);
        steps.add(copy);
        steps
    }

    fn job(plan: Plan) -> (String, InputPaths) {
        let settings = Planned::from(plan).graph.stages[0].settings().clone();
        (settings.name.clone(), settings.inputs[0].paths.clone())
    }

    #[test]
    fn a_worker_builds_the_step_that_the_driver_ran() {
        let parameters = Copy { inputs: vec!["a b".into(), "--é".into()], share: 0.1 + 0.2 };
        let order = steps().order(&Step::new(copy), &parameters).unwrap();
        let words = [order.words(), vec!["--top".into(), "3".into()]].concat();
        let there = job(steps().plan(&Order::take(&words).unwrap()).unwrap());
        assert_eq!(there.0, format!("copy {}", 0.1 + 0.2), "to the last bit");
        assert_eq!(there.1, InputPaths::Paths(parameters.inputs.clone()));
        assert_eq!(there, job(copy(parameters).unwrap()));
    }

    #[test]
    fn what_a_worker_could_not_build_is_refused() {
        fn other(_: u8) -> Result<Plan> {
            Ok(Plan::new())
        }
        let error = steps().order(&Step::new(other), &1u8).err().unwrap().to_string();
        assert!(error.contains("other") && error.contains("does not name the step"), "{error}");
        let large = Copy { inputs: vec!["x".repeat(70_000)], share: 0.0 };
        let error = steps().order(&Step::new(copy), &large).err().unwrap().to_string();
        assert!(error.contains("70012 bytes") && error.contains("side_file"), "{error}");
        let order = steps().order(&Step::new(nothing), &()).unwrap();
        for broken in [
            Order { number: 1, ..order.clone() },
            Order { number: 7, ..order.clone() },
            Order { name: "gone".into(), ..order.clone() },
            Order { parameters: vec![0], ..order.clone() },
        ] {
            assert!(steps().plan(&broken).is_err(), "{broken:?}");
        }
        assert!(steps().plan(&order).is_ok());
        assert!(Order::take(&["--top".to_owned()]).is_err());
        let mut words = order.words();
        words[3] = "no base64!".to_owned();
        assert!(Order::take(&words).is_err());
    }

    #[test]
    fn cut_parameters_are_refused_at_every_length() {
        let parameters = Copy { inputs: vec!["in".into(); 3], share: 1.0 };
        let order = steps().order(&Step::new(copy), &parameters).unwrap();
        for length in 0..order.parameters.len() {
            let parameters = order.parameters[..length].to_vec();
            assert!(steps().plan(&Order { parameters, ..order.clone() }).is_err(), "{length}");
        }
    }
}
