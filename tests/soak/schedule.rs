//! Which fault comes when: a deck of cards, one for each kind of fault of each daemon and some power cuts, shuffled by the seed and dealt
//! until it is empty, then another. Every fault comes in every deck, in another company each time.

use std::time::Duration;

use crate::support::data::Choices;

/// Power cuts in a deck.
const CUTS: usize = 4;
/// Longest pause before a step: it falls into anything that runs meanwhile.
const PAUSE_MAX_MS: u64 = 3000;
/// Shortest and longest time that a daemon is stopped: from what nobody notices to three times what makes it count as dead.
const STOPPED_MS: (u64, u64) = (200, 6000);

/// What happens to a daemon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT so much later.
    Stop(Duration),
    /// SIGTERM: it ends in order and is started again.
    Terminate,
}

/// What happens at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// How long all was well before.
    pub(super) pause: Duration,
    /// Daemons by name, two at most: of three copies of a block one is always to be had.
    pub(super) faults: Vec<(String, Kind)>,
    /// In the middle of that the power goes, for all of them.
    pub(super) cut: bool,
}

#[derive(Clone, Debug)]
enum Card {
    Fault(String, Kind),
    Cut,
}

/// Deals steps without end.
#[derive(Debug)]
pub(super) struct Schedule {
    daemons: Vec<String>,
    choices: Choices,
    deck: Vec<Card>,
}

impl Schedule {
    pub(super) fn new(daemons: Vec<String>, seed: u64) -> Self {
        Schedule { daemons, choices: Choices::new(seed), deck: Vec::new() }
    }

    /// The top card, and half of the time the one below it, unless that is for the same daemon.
    pub(super) fn deal(&mut self) -> Step {
        if self.deck.is_empty() {
            self.shuffle();
        }
        let pause = Duration::from_millis(self.choices.below(PAUSE_MAX_MS));
        let mut step = Step { pause, faults: Vec::new(), cut: false };
        step.take(self.deck.pop().expect("a deck has cards"));
        let fits = |card: &&Card| match card {
            Card::Fault(daemon, _) => step.faults.iter().all(|(other, _)| other != daemon),
            Card::Cut => !step.cut,
        };
        let has_another = self.choices.below(2) == 0 && self.deck.last().as_ref().is_some_and(fits);
        if has_another {
            step.take(self.deck.pop().expect("it was looked at"));
        }
        step
    }

    fn shuffle(&mut self) {
        let (shortest, longest) = STOPPED_MS;
        let choices = &mut self.choices;
        for daemon in &self.daemons {
            let stopped = Duration::from_millis(shortest + choices.below(longest - shortest));
            for kind in [Kind::Kill, Kind::Stop(stopped), Kind::Terminate] {
                self.deck.push(Card::Fault(daemon.clone(), kind));
            }
        }
        self.deck.extend(std::iter::repeat_n(Card::Cut, CUTS));
        for place in (1..self.deck.len()).rev() {
            self.deck.swap(place, choices.below(place as u64 + 1) as usize);
        }
    }
}

impl Step {
    fn take(&mut self, card: Card) {
        match card {
            Card::Fault(daemon, kind) => self.faults.push((daemon, kind)),
            Card::Cut => self.cut = true,
        }
    }
}

#[test]
fn every_deck_has_every_fault_and_no_step_takes_more_than_replication_bears() {
    let daemons = ["namenode-1", "datanode-1", "datanode-2"].map(str::to_owned).to_vec();
    for seed in 0..100 {
        let mut schedule = Schedule::new(daemons.clone(), seed);
        let (mut dealt, mut cuts, mut steps, mut with_two) = (Vec::new(), 0, 0, 0);
        while dealt.len() + cuts < 3 * (3 * daemons.len() + CUTS) {
            let step = schedule.deal();
            assert!(step.faults.len() <= 2 && (step.cut || !step.faults.is_empty()));
            let names = |place: usize| step.faults.get(place).map(|(name, _)| name);
            assert!(names(0) != names(1) || step.faults.is_empty(), "{step:?}");
            assert!(step.pause < Duration::from_millis(PAUSE_MAX_MS));
            (steps, with_two) = (steps + 1, with_two + usize::from(step.faults.len() == 2));
            cuts += usize::from(step.cut);
            dealt.extend(step.faults);
        }
        assert_eq!(cuts, 3 * CUTS, "three whole decks");
        assert!(with_two > 0 && with_two < steps);
        for daemon in &daemons {
            let of = |wanted: fn(&Kind) -> bool| {
                dealt.iter().filter(|(name, kind)| name == daemon && wanted(kind)).count()
            };
            assert_eq!(of(|kind| *kind == Kind::Kill), 3);
            assert_eq!(of(|kind| *kind == Kind::Terminate), 3);
            assert_eq!(of(|kind| matches!(kind, Kind::Stop(_))), 3);
        }
    }
    let steps = |seed| {
        let mut schedule = Schedule::new(daemons.clone(), seed);
        (0..50).map(|_| schedule.deal()).collect::<Vec<_>>()
    };
    assert!(steps(1) == steps(1) && steps(1) != steps(2), "the seed decides");
}
