/// A deliberate fault in one rule of the replay machine. With a mutation, a test run shows whether the tests detect a
/// violation of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Delivers the whole journal at once, instead of one result at a time.
    BatchDelivery,
    /// Starts new steps before the code has received the whole journal.
    OpenGate,
    /// Does not compare the fingerprints of the code's calls with the fingerprints in the journal.
    BlindFingerprint,
    /// Accepts answers to questions that were never asked.
    EagerAnswers,
    /// Numbers all calls of the code together, instead of separately for each name.
    PositionalKeys,
}

impl Mutation {
    /// A list of all mutations.
    pub const ALL: [Self; 5] = [
        Self::BatchDelivery,
        Self::OpenGate,
        Self::BlindFingerprint,
        Self::EagerAnswers,
        Self::PositionalKeys,
    ];
}
