//! What can be wrong with a backend.

/// One thing that is wrong, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    // In all three.
    /// Whoever opens another space finds this one.
    SpacesAreOne,
    /// Upper and lower case are one.
    NamesIgnoreCase,
    /// What cannot be a name is made into one.
    AnyNameIsTaken,
    /// Bytes that are not UTF-8 are replaced.
    BytesAreText,
    /// What has no bytes is not kept.
    EmptyIsNothing,
    /// Not even 1,024 bytes are taken.
    LittleFits,
    /// What does not fit is cut until it does.
    LargeIsCut,
    /// As many are given as there are.
    LimitsAreIgnored,
    /// The last of a page is in none.
    PagesLoseTheirLast,
    /// The first of a page was the last of the one before.
    PagesOverlap,

    // In the store: records.
    /// Reading finds a record under every key.
    ReadsInvent,
    /// Reading gives a revision that nobody wrote.
    ReadsMistakeTheRevision,
    /// An opening remembers what it has seen, and looks no more.
    OpeningsRemember,
    /// Creating replaces what is there.
    CreateOverwrites,
    /// Creating looks first and then writes, whatever happened in between.
    CreateLooksThenWrites,
    /// An update gives a new revision to the old value.
    UpdateKeepsTheValue,
    /// An update of what is not there creates it.
    UpdateCreates,
    /// An update at an old revision is made.
    UpdateIgnoresTheRevision,
    /// An update looks first and then writes, whatever happened in between.
    UpdateLooksThenWrites,
    /// A revision is a digest of the value.
    RevisionsAreDigests,
    /// A delete at its revision removes nothing.
    DeleteDoesNothing,
    /// A delete at an old revision removes the record.
    DeleteIgnoresTheRevision,
    /// A delete of what is not there is made.
    DeleteOfNothingSucceeds,
    /// Deleting a record deletes the log of its name.
    DeleteTakesTheLogAlong,

    // In the store: listings and expiry.
    /// A prefix is letters, not segments.
    PrefixesAreLetters,
    /// Where a listing goes on is a number of records.
    PagesAreCounted,
    /// A listing gives a revision that nobody wrote.
    ListingMistakesTheRevision,
    /// What has expired is listed.
    ExpiredIsListed,
    /// Each moment has the same time.
    ClockStandsStill,
    /// Nothing is created where something has expired.
    ExpiredIsInTheWay,
    /// An update does not change when the record expires.
    UpdateKeepsTheTimeToLive,
    /// What has not expired is claimed.
    LiveIsClaimed,
    /// A claim binds only the opening it was made through.
    ClaimsAreForgotten,
    /// A claim lasts for ever.
    ClaimsNeverLapse,
    /// Claiming is a write, and gives a new revision.
    ClaimsWrite,
    /// Bulk removal does nothing.
    RemovalDoesNothing,
    /// Bulk removal takes what has not expired.
    RemovalTakesTheLiving,
    /// Bulk removal takes what somebody has claimed.
    RemovalIgnoresClaims,

    // In the store: logs.
    /// Reading a log that was never written is an error.
    AbsentLogIsAnError,
    /// The last entry comes first.
    LogsAreReadBackwards,
    /// An append goes to the end, wherever it was for.
    AppendIgnoresItsPlace,
    /// A conflict says the length that was expected.
    AppendHidesTheLength,
    /// Entries of one append come one after the other.
    AppendIsOneByOne,
    /// Deleting a log leaves it as it is.
    DeletedLogStays,
    /// The first place of a new log comes after the last of the deleted one.
    DeletedLogKeepsItsPlaces,

    // In the queue.
    /// The name of a queue means nothing.
    QueuesAreOne,
    /// The first attempt has number 0.
    AttemptsBeginAtZero,
    /// Every attempt has number 1.
    AttemptsAreNotCounted,
    /// A job is given to two workers.
    JobsAreGivenTwice,
    /// A worker that has gone keeps its job for ever.
    LeasesNeverRunOut,
    /// A lease that has run out is lost, though nobody took it.
    LeasesAreLostOnTheHour,
    /// Extending a lease does nothing.
    ExtendDoesNothing,
    /// Any lease a job ever had is good.
    LeasesAreNotFenced,
    /// Acknowledging does nothing.
    AckDoesNothing,
    /// Acknowledging succeeds always.
    AckAlwaysSucceeds,
    /// What is given back is gone.
    NackIsAck,
    /// Nothing is delayed.
    DelaysAreIgnored,
    /// Waiting workers look every six seconds.
    WorkersPoll,
    /// Nobody waits for a job.
    WorkersDoNotWait,
    /// Two jobs may have one id.
    IdsAreNotUnique,
    /// The id of a dead job is free.
    IdsOfTheDeadAreFree,
    /// An id can be used once.
    IdsAreUsedUp,
    /// A job is dead one attempt too early.
    JobsDieEarly,
    /// A job is dead one attempt too late.
    JobsDieLate,
    /// What is given up is gone.
    BuryIsAck,
    /// What is revived has its attempts behind it.
    RevivedIsOld,
    /// Discarding does nothing.
    DiscardDoesNothing,
    /// What is leased counts as waiting.
    DepthMixesKinds,
    /// What does not fit on a page is estimated.
    DepthStopsAtAPage,
    /// Asking whether the queue answers takes a job.
    PingLeases,

    // In the bus.
    /// What is published through one opening is heard through that one only.
    OpeningsAreAlone,
    /// One listener hears each event.
    ListenersShareEvents,
    /// Every second event overtakes the one before.
    EventsOvertake,
    /// Who listens to a topic hears all below it.
    TopicsAreTrees,
    /// Who comes late is told the last event.
    EventsAreKept,
    /// When one listener leaves, nobody hears any more.
    OneLeavesForAll,
    /// What does not fit in a listener's buffer is gone, and nobody says so.
    OverflowIsSilent,
}
