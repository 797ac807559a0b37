/// A deliberate fault in one rule of the machine. It proves that the tests detect a violation of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Delivers the whole journal at once instead of one completion at a time.
    BatchDelivery,
    /// Starts new steps before the journal is delivered completely.
    OpenGate,
    /// Does not compare fingerprints.
    BlindFingerprint,
    /// Accepts answers to questions that were never asked.
    EagerAnswers,
    /// Numbers all calls together instead of by name.
    PositionalKeys,
}

impl Mutation {
    /// All mutations.
    pub const ALL: [Self; 5] = [
        Self::BatchDelivery,
        Self::OpenGate,
        Self::BlindFingerprint,
        Self::EagerAnswers,
        Self::PositionalKeys,
    ];
}
