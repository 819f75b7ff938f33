//! The packets of a block in transit: which were sent, which are acknowledged, which must be sent again after a failure. Pure.
//!
//! ```text
//! push -> waiting --next_unsent--> in flight --on_ack--> acknowledged (its buffer is free)
//!            ^                         |
//!            +------ restart ----------+   (the pipeline was rebuilt: all that is not acknowledged, renumbered from 0)
//! ```
//!
//! Invariants: packets are kept in the order of their offsets; acks are taken in that order only; the acknowledged length never
//! shrinks; a packet is kept until every member of the pipeline has it.

use std::collections::VecDeque;

use protocol::transfer::{Ack, PacketHeader, Status};

/// A packet as the window sees it.
pub trait Slot {
    /// Its header.
    fn header(&self) -> &PacketHeader;
    /// Its header, to renumber it.
    fn header_mut(&mut self) -> &mut PacketHeader;
}

/// The packets of one block.
#[derive(Debug)]
pub struct Window<P> {
    packets: VecDeque<P>,
    sent: usize,
    next_sequence: u32,
    acked_length: u64,
}

/// The effect of an ack.
#[derive(Debug, PartialEq, Eq)]
pub enum Acked<P> {
    /// Every member has this packet.
    Packet(P),
    /// Member `member` failed.
    Failed {
        /// Position in the pipeline.
        member: usize,
        /// Why.
        status: Status,
    },
    /// An impossible ack: the first member is broken.
    Nonsense,
}

impl<P: Slot> Default for Window<P> {
    fn default() -> Self {
        Window::new()
    }
}

impl<P: Slot> Window<P> {
    /// The window of a new block.
    pub fn new() -> Self {
        Window { packets: VecDeque::new(), sent: 0, next_sequence: 0, acked_length: 0 }
    }

    /// The window of a block of which every member already has `length` bytes.
    pub fn resumed(length: u64) -> Self {
        Window { acked_length: length, ..Window::new() }
    }

    /// Adds the next packet and numbers it.
    pub fn push(&mut self, mut packet: P) {
        packet.header_mut().sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.packets.push_back(packet);
    }

    /// The next packet to send; it counts as sent.
    pub fn next_unsent(&mut self) -> Option<&P> {
        let packet = self.packets.get(self.sent)?;
        self.sent += 1;
        Some(packet)
    }

    /// True if a packet waits to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.packets.len()
    }

    /// Packets sent but not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.sent
    }

    /// True if every packet is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of the block that every member has.
    pub fn acked_length(&self) -> u64 {
        self.acked_length
    }

    /// Takes an ack of a pipeline of `members`.
    pub fn on_ack(&mut self, ack: &Ack, members: usize) -> Acked<P> {
        if let Some((member, status)) = ack.failure() {
            return Acked::Failed { member: member.min(members.saturating_sub(1)), status };
        }
        let expected = self.packets.front().map(|packet| packet.header().sequence);
        if self.sent == 0 || expected != Some(ack.sequence) || ack.statuses().len() != members {
            return Acked::Nonsense;
        }
        match self.packets.pop_front() {
            Some(packet) => {
                self.sent -= 1;
                self.acked_length = self.acked_length.max(packet.header().end());
                Acked::Packet(packet)
            }
            None => Acked::Nonsense,
        }
    }

    /// Everything that is not acknowledged must be sent again, on a new connection.
    pub fn restart(&mut self) {
        self.sent = 0;
        self.next_sequence = 0;
        for packet in &mut self.packets {
            packet.header_mut().sequence = self.next_sequence;
            self.next_sequence += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Slot for PacketHeader {
        fn header(&self) -> &PacketHeader {
            self
        }

        fn header_mut(&mut self) -> &mut PacketHeader {
            self
        }
    }

    fn packet(offset: u64, last: bool) -> PacketHeader {
        PacketHeader { data_bytes: 512, offset, last, ..PacketHeader::default() }
    }

    /// A pipeline that loses everything in flight at a failure, as the window must expect.
    #[derive(Default)]
    struct Model {
        received: Vec<u64>,
        in_flight: VecDeque<PacketHeader>,
    }

    proptest! {
        /// Whatever fails and when, every packet is acknowledged once, in order, and the pipeline misses none.
        #[test]
        fn nothing_is_lost_or_reordered(events in proptest::collection::vec(0..4u8, 0..200)) {
            let mut window = Window::new();
            let mut model = Model::default();
            let (mut pushed, mut acked) = (0u64, Vec::new());
            for event in events.into_iter().chain([1; 250]).chain([2; 250]) {
                match event {
                    0 => {
                        window.push(packet(pushed * 512, false));
                        pushed += 1;
                    }
                    1 => {
                        if let Some(packet) = window.next_unsent() {
                            prop_assert_eq!(packet.sequence as usize, acked_since_restart(&model, packet));
                            model.in_flight.push_back(*packet);
                        }
                    }
                    2 => {
                        if let Some(packet) = model.in_flight.pop_front() {
                            model.received.push(packet.offset);
                            let ack = Ack::new(packet.sequence, Status::Success);
                            match window.on_ack(&ack, 1) {
                                Acked::Packet(packet) => acked.push(packet.offset),
                                other => prop_assert!(false, "{:?}", other),
                            }
                        }
                    }
                    _ => {
                        model.in_flight.clear();
                        window.restart();
                    }
                }
                prop_assert_eq!(window.in_flight(), model.in_flight.len());
                prop_assert_eq!(window.acked_length(), acked.len() as u64 * 512);
            }
            prop_assert!(window.is_empty());
            prop_assert_eq!(acked, (0..pushed).map(|n| n * 512).collect::<Vec<_>>());
        }
    }

    fn acked_since_restart(model: &Model, packet: &PacketHeader) -> usize {
        // Numbers are consecutive: the one after the last in flight, whatever came before.
        model.in_flight.back().map_or(packet.sequence as usize, |last| last.sequence as usize + 1)
    }

    #[test]
    fn failures_name_the_member_and_nonsense_is_refused() {
        let mut window = Window::new();
        window.push(packet(0, true));
        let good = Ack::new(0, Status::Success);
        assert_eq!(window.on_ack(&good, 1), Acked::Nonsense, "not sent yet");
        window.next_unsent();
        assert_eq!(window.on_ack(&good, 2), Acked::Nonsense, "too few statuses");
        assert_eq!(window.on_ack(&Ack::new(1, Status::Success), 1), Acked::Nonsense);
        let failed = good.followed_by(&[Status::Full]);
        assert_eq!(window.on_ack(&failed, 2), Acked::Failed { member: 1, status: Status::Full });
        let good = good.followed_by(&[Status::Success]);
        assert!(matches!(window.on_ack(&good, 2), Acked::Packet(_)));
        assert!(window.is_empty() && window.acked_length() == 512);
    }
}
