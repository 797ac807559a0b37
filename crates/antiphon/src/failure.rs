//! Converts an [`Error`] into the failure that a journal records, and converts a recorded failure into an [`Error`].

use std::time::Duration;

use antiphon_replay::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{Capability, Error, ErrorKind, SampleValidationError},
    url_elicitation::UrlElicitation,
};

/// The code that marks [`ErrorKind::Model`] in a journal. All JSON-RPC codes are larger than this code.
const NO_MODEL: i32 = i32::MIN;
/// The code that marks [`ErrorKind::Indeterminate`] in a journal.
const INDETERMINATE: i32 = i32::MIN + 1;
/// The code that marks [`ErrorKind::Cancelled`] in a journal.
const CANCELLED: i32 = i32::MIN + 2;
/// The code that marks [`ErrorKind::Unanswered`] in a journal.
const UNANSWERED: i32 = i32::MIN + 3;

/// The error kinds that a journal records by name, because they have no code. The journal stores these error kinds in
/// [`Failure::kind`].
///
/// If an older version of Antiphon does not support the field `Failure::kind`, that version reads the failure as
/// [`ErrorKind::Tool`] with the recorded text.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedKind {
    Declined(String),
    Dismissed(String),
    InvalidAnswer { key: String, problems: Vec<String> },
    Unsupported(String),
    SampleValidation(Box<SampleValidationError>),
    InvalidArguments(Vec<String>),
    UrlElicitationRequired(Vec<UrlElicitation>),
    Misuse,
    Deadlock,
    Limit,
    Timeout { millis: u64 },
    Protocol { code: i32, data: Option<Value> },
}

impl RecordedKind {
    fn of(kind: &ErrorKind) -> Option<Self> {
        Some(match kind {
            ErrorKind::Declined(key) => Self::Declined(key.clone()),
            ErrorKind::Dismissed(key) => Self::Dismissed(key.clone()),
            ErrorKind::InvalidAnswer { key, problems } => {
                Self::InvalidAnswer { key: key.clone(), problems: problems.clone() }
            }
            ErrorKind::Unsupported(capability) => Self::Unsupported(capability.name().to_owned()),
            ErrorKind::SampleValidation(error) => Self::SampleValidation(error.clone()),
            ErrorKind::InvalidArguments(problems) => Self::InvalidArguments(problems.clone()),
            ErrorKind::UrlElicitationRequired(pages) => Self::UrlElicitationRequired(pages.clone()),
            ErrorKind::Misuse(_) => Self::Misuse,
            ErrorKind::Deadlock => Self::Deadlock,
            ErrorKind::Limit(_) => Self::Limit,
            ErrorKind::Timeout(limit) => {
                Self::Timeout { millis: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
            }
            ErrorKind::Protocol { code, data, .. } => Self::Protocol { code: *code, data: data.clone() },
            // The journal records these kinds with a code or only with their text. `Drift` is never the error of a
            // step, because drift ends the run.
            ErrorKind::Tool(_)
            | ErrorKind::Drift(_)
            | ErrorKind::Client { .. }
            | ErrorKind::Model(_)
            | ErrorKind::Indeterminate(_)
            | ErrorKind::Unanswered
            | ErrorKind::Cancelled => return None,
        })
    }

    /// Returns the error kind for a recorded kind. If the error kind contains a text, this text is `message`.
    fn restore(self, message: &str) -> Option<ErrorKind> {
        let message = message.to_owned();
        Some(match self {
            Self::Declined(key) => ErrorKind::Declined(key),
            Self::Dismissed(key) => ErrorKind::Dismissed(key),
            Self::InvalidAnswer { key, problems } => ErrorKind::InvalidAnswer { key, problems },
            Self::Unsupported(name) => ErrorKind::Unsupported(Capability::from_name(&name)?),
            Self::SampleValidation(error) => ErrorKind::SampleValidation(error),
            Self::InvalidArguments(problems) => ErrorKind::InvalidArguments(problems),
            Self::UrlElicitationRequired(pages) => ErrorKind::UrlElicitationRequired(pages),
            Self::Misuse => ErrorKind::Misuse(message),
            Self::Deadlock => ErrorKind::Deadlock,
            Self::Limit => ErrorKind::Limit(message),
            Self::Timeout { millis } => ErrorKind::Timeout(Duration::from_millis(millis)),
            Self::Protocol { code, data } => ErrorKind::Protocol { code, message, data },
        })
    }
}

impl Error {
    /// Returns the form of this error that the journal contains: the text with all causes, the kind, and whether the
    /// error is terminal.
    pub(crate) fn to_failure(&self) -> Failure {
        let (message, code) = match self.kind() {
            ErrorKind::Client { code, message } => (message.clone(), Some(*code)),
            ErrorKind::Model(tried) => (tried.clone(), Some(NO_MODEL)),
            ErrorKind::Indeterminate(step) => (step.clone(), Some(INDETERMINATE)),
            ErrorKind::Cancelled => ("the run was cancelled".to_owned(), Some(CANCELLED)),
            ErrorKind::Unanswered => (self.to_string(), Some(UNANSWERED)),
            _ => (format!("{self:#}"), None),
        };
        let kind = RecordedKind::of(self.kind()).and_then(|kind| serde_json::to_value(kind).ok());
        Failure { message, code, terminal: self.is_terminal(), kind }
    }

    /// Returns the error for a recorded failure. If this version of Antiphon does not support the recorded kind, the
    /// error has the kind [`ErrorKind::Tool`] and the recorded text.
    pub(crate) fn from_failure(failure: Failure) -> Self {
        let Failure { message, code, terminal, kind } = failure;
        let recorded = kind.and_then(|kind| serde_json::from_value::<RecordedKind>(kind).ok());
        let kind = match (recorded.and_then(|kind| kind.restore(&message)), code) {
            (Some(kind), _) => kind,
            (None, Some(NO_MODEL)) => ErrorKind::Model(message),
            (None, Some(INDETERMINATE)) => ErrorKind::Indeterminate(message),
            (None, Some(CANCELLED)) => ErrorKind::Cancelled,
            (None, Some(UNANSWERED)) => ErrorKind::Unanswered,
            (None, Some(code)) => ErrorKind::Client { code, message },
            (None, None) => ErrorKind::Tool(message),
        };
        let error = Self::new(kind);
        if terminal { error.terminal() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Vec<ErrorKind> {
        vec![
            ErrorKind::Tool("out of tea".into()),
            ErrorKind::Declined("tea".into()),
            ErrorKind::Dismissed("tea".into()),
            ErrorKind::InvalidAnswer { key: "tea".into(), problems: vec!["too hot".into()] },
            ErrorKind::Unsupported(Capability::UrlElicitation),
            ErrorKind::Client { code: -32_603, message: "no".into() },
            ErrorKind::Model("none".into()),
            ErrorKind::InvalidArguments(vec!["cups: missing".into()]),
            ErrorKind::UrlElicitationRequired(vec![UrlElicitation::new(
                "1",
                "https://example.com",
                "Sign in",
            )]),
            ErrorKind::Misuse("no such state".into()),
            ErrorKind::Deadlock,
            ErrorKind::Indeterminate("charge".into()),
            ErrorKind::Limit("too many".into()),
            ErrorKind::Timeout(Duration::from_millis(1_500)),
            ErrorKind::Unanswered,
            ErrorKind::Cancelled,
            ErrorKind::Protocol { code: -32_002, message: "gone".into(), data: Some(1.into()) },
        ]
    }

    #[test]
    fn failure_keeps_kind_text_and_finality() {
        for kind in kinds() {
            for terminal in [false, true] {
                let mut error = Error::new(kind.clone());
                if terminal {
                    error = error.terminal();
                }
                let written = serde_json::to_vec(&error.to_failure()).unwrap();
                let read = Error::from_failure(serde_json::from_slice(&written).unwrap());
                assert_eq!(read.kind(), &kind);
                assert_eq!(read.is_terminal(), terminal);
                assert_eq!(read.to_string(), error.to_string());
                assert_eq!(read.to_failure(), error.to_failure(), "recorded twice it is the same");
            }
        }
    }

    #[test]
    fn failure_has_all_causes_in_its_text() {
        let cause = std::io::Error::other("connection refused");
        let error = Error::from_failure(Error::from(Chain(cause)).to_failure());
        assert_eq!(error.to_string(), "charging failed: connection refused");
        assert_eq!(format!("{error:#}"), error.to_string());
        assert!(error.source().is_none());
    }

    #[derive(Debug)]
    struct Chain(std::io::Error);

    impl std::fmt::Display for Chain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("charging failed")
        }
    }

    impl std::error::Error for Chain {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn failure_of_an_older_or_newer_version_is_read_by_its_text() {
        let old: Failure = serde_json::from_str(r#"{"m":"no stock","t":true}"#).unwrap();
        let error = Error::from_failure(old);
        assert_eq!(error.kind(), &ErrorKind::Tool("no stock".into()));
        assert!(error.is_terminal());
        let new: Failure = serde_json::from_str(r#"{"m":"no stock","k":{"sold_out":{"until":7}}}"#).unwrap();
        assert_eq!(Error::from_failure(new).kind(), &ErrorKind::Tool("no stock".into()));
    }
}
