//! Virtual time, seeded random numbers and planted defects, for the simulation of tasks.

#![cfg_attr(
    not(feature = "__simulation"),
    expect(clippy::unused_self, dead_code, unreachable_pub, reason = "only the simulation plants defects")
)]

/// A defect that the simulation plants in the task engine. The rules of the simulation must find every defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The workers of a server start with its first request.
    IdleWorkers,
    /// A worker that cannot read a run acknowledges the job of the run.
    UnreadableAcknowledged,
    /// The record of a run does not contain the claims of its at-most-once steps.
    ClaimsNotStored,
    /// A record whose pieces were replaced during the read counts as removed.
    TornRecordGone,
    /// No server searches for runs whose job was lost.
    NobodyRepairs,
    /// A write of a leg overwrites the changes that other processes made since the leg read the record.
    OthersOverwritten,
    /// The result of a step is not stored before the tool receives the result.
    StepNotStored,
    /// An answer does not create a job.
    AnswerWithoutJob,
    /// The end of a leg replaces the status of a cancelled run.
    CancelOverwritten,
    /// The next job of a run has the ID of the previous job.
    JobIdReused,
}

impl Defect {
    /// All defects.
    pub const ALL: [Self; 10] = [
        Self::IdleWorkers,
        Self::UnreadableAcknowledged,
        Self::ClaimsNotStored,
        Self::TornRecordGone,
        Self::NobodyRepairs,
        Self::OthersOverwritten,
        Self::StepNotStored,
        Self::AnswerWithoutJob,
        Self::CancelOverwritten,
        Self::JobIdReused,
    ];

    /// Returns whether this thread simulates a program with this defect.
    #[cfg(not(feature = "__simulation"))]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}

#[cfg(feature = "__simulation")]
pub(crate) use world::*;

#[cfg(feature = "__simulation")]
mod world {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::Defect;

    /// The start of every simulation, in milliseconds since 1970.
    const START: u64 = 1_800_000_000_000;

    thread_local! {
        static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    }

    struct World {
        began: Instant,
        random: u64,
        defect: Option<Defect>,
        repairs: u64,
    }

    impl Defect {
        /// Returns whether this thread simulates a program with this defect.
        pub(crate) fn is_planted(self) -> bool {
            WORLD.with_borrow(|world| world.as_ref().is_some_and(|world| world.defect == Some(self)))
        }
    }

    /// Starts a simulation on this thread. The simulation uses the clock of the current Tokio runtime.
    pub(crate) fn enter(seed: u64, defect: Option<Defect>) {
        WORLD.set(Some(World { began: Instant::now(), random: seed, defect, repairs: 0 }));
    }

    /// Ends the simulation on this thread.
    pub(crate) fn leave() {
        WORLD.set(None);
    }

    /// Returns the virtual time in milliseconds since 1970, if this thread runs a simulation.
    pub(crate) fn now() -> Option<u64> {
        WORLD.with_borrow(|world| {
            world.as_ref().map(|world| START + super::super::millis(world.began.elapsed()))
        })
    }

    /// Counts a run whose job was lost.
    pub(crate) fn count_repair() {
        WORLD.with_borrow_mut(|world| {
            if let Some(world) = world {
                world.repairs += 1;
            }
        });
    }

    /// Returns the number of runs whose job was lost.
    pub(crate) fn repairs() -> u64 {
        WORLD.with_borrow(|world| world.as_ref().map_or(0, |world| world.repairs))
    }

    /// Returns the next seeded random number, if this thread runs a simulation.
    pub(crate) fn random() -> Option<u64> {
        WORLD.with_borrow_mut(|world| {
            let world = world.as_mut()?;
            // This is `splitmix64`, which returns the same numbers on every platform.
            world.random = world.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = world.random;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            Some(mixed ^ (mixed >> 31))
        })
    }
}
