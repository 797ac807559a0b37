/// A deliberate fault in one rule, to prove that the tests notice when the rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Hands over the whole journal at once instead of one completion at a time.
    BatchDelivery,
    /// Lets new steps start before the journal is drained.
    OpenGate,
    /// Does not compare fingerprints.
    BlindFingerprint,
    /// Accepts answers to questions that were never asked.
    EagerAnswers,
    /// Counts all calls together instead of by name.
    PositionalKeys,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::BatchDelivery,
        Self::OpenGate,
        Self::BlindFingerprint,
        Self::EagerAnswers,
        Self::PositionalKeys,
    ];
}
