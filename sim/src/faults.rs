//! What goes wrong, and when it is over again.

use std::time::Duration;

use needs::random::Random;

use crate::disks::{self, DISKS, DiskFault};
use crate::net::Place;

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The process dies and is started again after this time.
    Kill(Place, Duration),
    /// The machine of a DataNode loses its power for this time.
    PowerCut(usize, Duration),
    /// Messages from the one to the other are lost.
    Cut(Place, Place),
    /// All links are slow now and then.
    Slow(Duration),
    /// One message in so many is lost, and one in so many comes twice.
    Lossy(u64),
    /// All links are good again.
    Heal,
    /// A disk of a DataNode, by their numbers.
    Disk(usize, usize, DiskFault),
    /// Nobody reaches this DataNode, until the swap.
    LeftBehind(Swap, Duration),
}

/// The DataNode that was left behind is back, and all others die with a client, for this time: what others wrote meanwhile must not be judged by the one that
/// missed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Swap {
    /// The DataNode.
    pub(crate) node: usize,
    /// The client.
    pub(crate) client: usize,
    /// For how long the others are away.
    pub(crate) time: Duration,
}

/// Draws the next fault, and when it comes.
pub(crate) fn draw(
    (nodes, clients, readers): (usize, usize, usize),
    random: &mut Random,
) -> (Duration, Fault) {
    let place = |random: &mut Random| match random.below(nodes + 1) {
        0 => Place::Master,
        number => Place::Node(number - 1),
    };
    let fault = match random.below(20) {
        0 => Fault::Kill(Place::Master, random.millis(50..4000)),
        1 | 2 => Fault::Kill(Place::Node(random.below(nodes)), random.millis(50..15_000)),
        3 | 4 => Fault::PowerCut(random.below(nodes), random.millis(50..15_000)),
        5 => Fault::Kill(Place::Client(random.below(clients)), random.millis(50..4000)),
        12 => Fault::Kill(Place::Keeper, random.millis(50..4000)),
        6 | 7 => Fault::Cut(place(random), place(random)),
        8 => {
            let from = match random.below(clients + readers + 1) {
                number if number < clients => Place::Client(number),
                number if number < clients + readers => Place::Reader(number - clients),
                _ => Place::Keeper,
            };
            Fault::Cut(from, place(random))
        }
        9 => Fault::Slow(random.millis(1..1500)),
        10 => Fault::Lossy(random.within(20..400)),
        11 => Fault::Heal,
        13 => {
            let (node, client) = (random.below(nodes), random.below(clients));
            // Pipelines must notice and go on meanwhile; a lease must end before the others are back.
            let swap = Swap { node, client, time: random.millis(10_000..30_000) };
            Fault::LeftBehind(swap, random.millis(4000..9000))
        }
        _ => Fault::Disk(random.below(nodes), random.below(DISKS), disks::draw(random)),
    };
    (random.millis(20..4000), fault)
}
