//! What clients come for.

use std::time::Instant;

use fastrand::Rng;
use serde::Serialize;

use super::caller::{Caller, World};
use super::tally::{Failure, Never};

mod hostile;
mod quick;
mod rounds;
mod sessions;
mod sets;
mod tasks;

/// A kind of visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// One call.
    Plain,
    /// A tool that asks the server's model.
    Model,
    /// A run with two questions, round by round.
    Rounds,
    /// The same as a task.
    Tasks,
    /// The same in a session of 2025-11-25.
    Sessions,
    /// A result set made, paged, exported.
    Sets,
    /// Something that must be refused.
    Hostile,
}

/// Of a hundred visits, so many are of each kind.
const MIX: [(Kind, u32); 7] = [
    (Kind::Plain, 46),
    (Kind::Model, 6),
    (Kind::Rounds, 16),
    (Kind::Tasks, 12),
    (Kind::Sessions, 8),
    (Kind::Sets, 8),
    (Kind::Hostile, 4),
];

impl Kind {
    pub(super) const ALL: [Self; 7] =
        [Self::Plain, Self::Model, Self::Rounds, Self::Tasks, Self::Sessions, Self::Sets, Self::Hostile];

    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut left = rng.u32(..100);
        for (kind, share) in MIX {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Self::Plain
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain calls",
            Self::Model => "calls of the model",
            Self::Rounds => "runs over rounds",
            Self::Tasks => "tasks",
            Self::Sessions => "2025-11-25 sessions",
            Self::Sets => "result sets",
            Self::Hostile => "hostile calls",
        }
    }
}

/// Makes one visit, and notes what became of it.
pub(super) fn make(world: &World, kind: Kind, due: Instant, rng: &mut Rng) {
    let caller = Caller { world, person: world.people.one(rng), kind, due };
    let made = match kind {
        Kind::Plain => quick::greet(&caller),
        Kind::Model => quick::advise(&caller),
        Kind::Rounds => rounds::visit(&caller, rng),
        Kind::Tasks => tasks::visit(&caller, rng),
        Kind::Sessions => sessions::visit(&caller, rng),
        Kind::Sets => sets::visit(&caller, rng),
        Kind::Hostile => hostile::visit(&caller, rng),
    };
    world.tally.count(|counts| *counts.visits.entry(kind).or_default() += 1);
    if let Err(failure) = made {
        world.tally.failed(kind.name(), &failure);
    }
}

/// Of how many visits in one somebody else tries what is not theirs.
const CURIOUS: u32 = 8;

fn is_curious(rng: &mut Rng) -> bool {
    rng.u32(..CURIOUS) == 0
}

/// Holds the answer to somebody else against the only one they may have.
fn must_not_open(
    caller: &Caller<'_>,
    what: &'static str,
    is_refused: bool,
    said: &str,
) -> Result<(), Failure> {
    if !is_refused {
        return Err(Failure::new(Never::Foreign, format!("{what}: {said}")));
    }
    caller.world.tally.count(|counts| *counts.refused.entry(what).or_default() += 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_visits_are_a_hundred_and_every_kind_is_among_them() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u32>(), 100);
        assert_eq!(MIX.map(|(kind, _)| kind), Kind::ALL);
    }
}
