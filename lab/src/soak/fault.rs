//! What is broken on purpose.

use std::fmt;

use fastrand::Rng;
use serde::Serialize;

/// One way in which a fleet suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fault {
    /// A replica is killed with `kill -9` and started again some seconds later.
    Kill,
    /// A replica is replaced as a rolling update does it: taken out, asked to end, started, taken in.
    Roll,
    /// A replica gets no processor for some seconds.
    Stop,
    /// The store's server is restarted.
    Restart,
    /// All connections to the store are ended by the store.
    Sever,
    /// The balancer breaks all connections, and every new one, for two seconds.
    Cut,
    /// The balancer sends nothing to a replica for some seconds.
    Drain,
}

impl Fault {
    pub(super) const ALL: [Self; 7] =
        [Self::Kill, Self::Roll, Self::Stop, Self::Restart, Self::Sever, Self::Cut, Self::Drain];

    /// What people read.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "replica killed",
            Self::Roll => "replica rolled",
            Self::Stop => "replica stopped",
            Self::Restart => "store restarted",
            Self::Sever => "store connections ended",
            Self::Cut => "balancer cut",
            Self::Drain => "replica drained",
        }
    }

    /// One letter, for a plot.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Kill => 'K',
            Self::Roll => 'R',
            Self::Stop => 'S',
            Self::Restart => 'D',
            Self::Sever => 'V',
            Self::Cut => 'C',
            Self::Drain => 'O',
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All faults, then all again in another order, and so on.
#[derive(Debug)]
pub(super) struct Turns {
    rng: Rng,
    left: Vec<Fault>,
}

impl Turns {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, left: Vec::new() }
    }
}

impl Iterator for Turns {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        if self.left.is_empty() {
            self.left = Fault::ALL.into();
            self.rng.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_its_turn_and_a_seed_says_when() {
        let turns = |seed| Turns::new(Rng::with_seed(seed)).take(14).collect::<Vec<_>>();
        assert_eq!(turns(7), turns(7));
        for round in turns(7).chunks(7) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 7);
        }
    }

    #[test]
    fn no_two_have_the_same_letter() {
        assert_eq!(Fault::ALL.map(Fault::letter).iter().collect::<BTreeSet<_>>().len(), 7);
    }
}
