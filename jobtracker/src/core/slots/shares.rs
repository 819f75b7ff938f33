//! The fair share of each queue: weighted max-min fairness with a minimum and a maximum.
//!
//! Invariants: no queue gets more than it can use; the sum is the number of slots, or all usable slots if they are fewer; a queue gets less
//! than its minimum only if the minimums together exceed the slots.

/// What a queue may claim, in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// Its weight relative to others; at least 1.
    pub(crate) weight: u32,
    /// The minimum, which it gets before others get more than theirs; at most `most`.
    pub(crate) least: u64,
    /// The maximum that it can use.
    pub(crate) most: u64,
}

/// Thousandths of a slot in a slot.
pub(crate) const PER_SLOT: u64 = 1000;

/// Steps of a level in a thousandth of a slot: so many that the largest weight times one step is less than a thousandth.
const STEPS: u128 = 1 << u32::BITS;

/// The share of each claim in thousandths of a slot, in the order of the claims.
///
/// All shares grow at rates given by their weights, from zero (or the minimum) up to the maximum, until the slots are used up.
pub(crate) fn shares(claims: &[Claim], slot_total: u64) -> Vec<u64> {
    let total = slot_total.saturating_mul(PER_SLOT);
    let at = |level: u128| -> Vec<u64> {
        let share = |claim: &Claim| {
            let (least, most) =
                (claim.least.saturating_mul(PER_SLOT), claim.most.saturating_mul(PER_SLOT));
            let grown = level.saturating_mul(u128::from(claim.weight)) / STEPS;
            u64::try_from(grown).unwrap_or(u64::MAX).clamp(least.min(most), most)
        };
        claims.iter().map(share).collect()
    };
    let sum = |shares: &[u64]| shares.iter().fold(0u64, |sum, share| sum.saturating_add(*share));
    // The highest level at which all fits.
    let (mut low, mut high) = (0, (u128::from(total) + 1) * STEPS);
    if sum(&at(0)) > total {
        return scaled(&at(0), total);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if sum(&at(middle)) <= total { low = middle } else { high = middle }
    }
    at(low)
}

/// Reduces parts that are too much together, in proportion.
fn scaled(parts: &[u64], total: u64) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let scale = |part: &u64| {
        let scaled = u128::from(*part) * u128::from(total) / sum.max(1);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    parts.iter().map(scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(weight: u32, least: u64, most: u64) -> Claim {
        Claim { weight, least, most }
    }

    #[test]
    fn known_shares() {
        let cases: [(&str, &[Claim], u64, &[u64]); 9] = [
            ("alike", &[claim(1, 0, 100), claim(1, 0, 100)], 10, &[5000, 5000]),
            ("by weight", &[claim(3, 0, 100), claim(1, 0, 100)], 8, &[6000, 2000]),
            (
                "what one cannot use is shared",
                &[claim(1, 0, 1), claim(1, 0, 100)],
                10,
                &[1000, 9000],
            ),
            ("a least", &[claim(1, 6, 100), claim(1, 0, 100)], 8, &[6000, 2000]),
            ("too many leasts", &[claim(1, 6, 6), claim(1, 2, 9)], 4, &[3000, 1000]),
            ("enough for all", &[claim(1, 0, 2), claim(9, 0, 3)], 10, &[2000, 3000]),
            ("nobody", &[], 10, &[]),
            (
                "large weights",
                &[claim(60_000, 0, 100), claim(60_000, 0, 100)],
                100,
                &[50_000, 50_000],
            ),
            (
                "a large weight beside a small one",
                &[claim(1_000_000, 0, 1_000_000), claim(1, 0, 100)],
                1000,
                &[999_999, 0],
            ),
        ];
        for (what, claims, total, expected) in cases {
            assert_eq!(shares(claims, total), expected, "{what}");
        }
    }

    /// Gives slot by slot in tiny steps to the claim with the least for its weight: slow and obviously right.
    fn slowly(claims: &[Claim], total: u64) -> Vec<u64> {
        let mut shares: Vec<u64> =
            claims.iter().map(|claim| claim.least.min(claim.most) * PER_SLOT).collect();
        let mut left = (total * PER_SLOT).saturating_sub(shares.iter().sum());
        while left > 0 {
            let hungry =
                (0..claims.len()).filter(|index| shares[*index] < claims[*index].most * PER_SLOT);
            // Smaller fraction first: a/b < c/d as a·d < c·b.
            let next = hungry.min_by(|left, right| {
                let part =
                    |part: usize, weight: usize| shares[part] * u64::from(claims[weight].weight);
                part(*left, *right).cmp(&part(*right, *left)).then(left.cmp(right))
            });
            let Some(next) = next else { break };
            shares[next] += 1;
            left -= 1;
        }
        shares
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn as_filling_slowly(
            parts in proptest::collection::vec(
                (prop_oneof![1u32..8, 1u32..1_000_000], 0u64..4, 0u64..12),
                1..6,
            ),
            total in 0u64..20,
        ) {
            let claims: Vec<Claim> = parts.iter().map(|(weight, least, most)| claim(*weight, (*least).min(*most), *most)).collect();
            let least: u64 = claims.iter().map(|claim| claim.least).sum();
            prop_assume!(least <= total);
            let (fast, slow) = (shares(&claims, total), slowly(&claims, total));
            for ((fast, slow), claim) in fast.iter().zip(&slow).zip(&claims) {
                // The fast way may leave out the last thousandth of claims at the same level, the slow one gives it to the first of them.
                prop_assert!(fast.abs_diff(*slow) <= 6, "{claim:?}: {fast} and {slow}");
                prop_assert!(*fast <= claim.most * PER_SLOT && *fast >= claim.least * PER_SLOT);
            }
            prop_assert!(fast.iter().sum::<u64>() <= total * PER_SLOT);
        }
    }
}
