//! What can be wrong with a store.

/// One thing that is wrong, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Each opening has a store of its own.
    OpeningsAreAlone,
    /// Times are kept to the second.
    SaveRoundsTimes,
    /// Text ends at the first NUL.
    SaveCutsText,
    /// What is saved under an id that is taken is not.
    FirstSaveStays,
    /// An update of what is not there creates it.
    UpdateCreates,
    /// What cannot be part of an id is left out of it.
    IdsAreMadeGood,
    /// Upper and lower case are one.
    IdsIgnoreCase,
    /// What an update does not give is taken away.
    UpdateClearsTheRest,
    /// An update looks first and then writes, whatever happened in between.
    UpdateLooksThenWrites,
    /// An update returns the resource before it.
    UpdateReturnsWhatWas,
    /// Links are revoked once.
    RevocationsAreOne,
    /// A store that is closed cannot be closed.
    SecondCloseFails,
    /// An update is one access, however many it says.
    AccessesCountForOne,
    /// The access that comes last is the latest.
    AccessesComeLast,
    /// Any update is a sign of somebody who reads.
    ChangesAreAccesses,
    /// An update that is abandoned keeps its turn.
    AbandonedHoldsUpAll,
    /// An update that is abandoned takes those along that were to be written with it.
    AbandonedTakesAllAlong,
    /// What has expired is updated.
    ExpiredIsUpdated,
    /// What has expired is not seen.
    ExpiredIsHidden,
    /// A deletion removes nothing.
    DeleteOnlySaysSo,
    /// All who delete are told that it was they.
    DeleteIsToldToAll,
    /// Nobody remembers what is gone.
    TombstonesAreForgotten,
    /// Whatever is gone was deleted.
    TombstonesSayDeleted,
    /// Whoever comes last says why.
    LastTombstoneStays,
    /// What is removed as expired is removed, whatever its end.
    ExpiryDoesNotLook,
    /// What is pinned cannot be deleted.
    PinsAreAgainstPeople,
    /// What ends some day is found now.
    LiveIsFound,
    /// What is pinned is found.
    PinnedIsFound,
    /// Nothing is found.
    NothingIsFound,
    /// What was found is found again.
    FindsAreForgotten,
    /// What was pinned once never ends.
    PinsLastForEver,
    /// A set ends when it first was to.
    FirstEndStays,
    /// The last row is the first.
    RowsAreBackwards,
    /// No more than a thousand rows are given.
    PagesAreShort,
    /// Beyond the end is the last row.
    BeyondTheEndIsTheLast,
    /// Rows over 256 KiB are not kept.
    LargeRowsAreLeftOut,
    /// Rows are read and written again.
    RowsAreRewritten,
    /// The rows that were put last are everybody's.
    RowsAreOfAll,
    /// The rows of a deleted set are still there.
    RowsStay,
    /// Where there are no rows, there is an empty one.
    NoRowsAreOne,
}
