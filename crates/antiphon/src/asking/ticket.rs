//! Tickets. With a ticket, a form proves that it is allowed to answer the questions that it shows.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    base::{digest, millis},
    seal::SealConfig,
};

/// The maximum lifetime of a ticket.
const MAX_LIFE: Duration = Duration::from_secs(60 * 60);

/// A ticket that allows a form to answer some questions of a task. The form receives the encrypted ticket together with
/// the questions, and returns the ticket together with the answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    pub(super) task: String,
    /// The wire keys of the questions. A task uses each wire key only once, so a ticket is not valid for later
    /// questions.
    pub(super) questions: BTreeSet<String>,
    /// The time at which the ticket expires, in milliseconds since 1970.
    pub(super) expires: u64,
}

/// The holder of a ticket. Only the holder can use the ticket: the same caller, on a server with the same audience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) audience: &'a str,
    pub(super) principal: Option<&'a str>,
}

/// The reason why the server rejects a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// The ticket is forged or damaged, or the ticket belongs to another caller.
    Invalid,
    Expired,
}

impl Holder<'_> {
    fn binding(self) -> Vec<u8> {
        let owner = match self.principal {
            Some(principal) => digest(&["owner", principal]),
            None => "anyone".to_owned(),
        };
        [b"ask ticket".as_slice(), digest(&[self.audience, &owner]).as_bytes()].concat()
    }
}

impl Ticket {
    /// Creates a ticket that is valid for `life`, but at most for one hour. If the questions close earlier, the ticket
    /// expires when the questions close.
    pub(super) fn new(
        task: &str,
        questions: BTreeSet<String>,
        (now, life): (u64, Duration),
        questions_end: Option<u64>,
    ) -> Self {
        let end = now.saturating_add(millis(life.min(MAX_LIFE)));
        let expires = questions_end.map_or(end, |questions_end| questions_end.min(end));
        Self { task: task.to_owned(), questions, expires }
    }

    /// Encrypts the ticket so that only `holder` can use the ticket.
    pub(super) fn seal(&self, seal: &SealConfig, holder: Holder<'_>) -> String {
        let plain = serde_json::to_vec(self).unwrap_or_default();
        seal.seal_token(&plain, &holder.binding())
    }

    /// Decrypts a ticket of `holder`. The ticket can be encrypted with any key of the key ring.
    pub(super) fn open(
        sealed: &str,
        seal: &SealConfig,
        holder: Holder<'_>,
        now: u64,
    ) -> Result<Self, Rejected> {
        let plain = seal.open_token(sealed, &holder.binding()).map_err(|_| Rejected::Invalid)?;
        let ticket: Self = serde_json::from_slice(&plain).map_err(|_| Rejected::Invalid)?;
        if now >= ticket.expires { Err(Rejected::Expired) } else { Ok(ticket) }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;
    use crate::seal::KeyRing;

    const NOW: u64 = 1_000_000;
    const ADA: Holder<'static> = Holder { audience: "shop", principal: Some("ada") };

    fn ticket() -> Ticket {
        let questions = BTreeSet::from(["approval".to_owned(), "approval@2".to_owned()]);
        Ticket::new(&"a".repeat(32), questions, (NOW, Duration::from_secs(60)), None)
    }

    fn config(keys: KeyRing) -> SealConfig {
        SealConfig::default().with_keys(keys)
    }

    #[test]
    fn ticket_opens_for_its_holder_until_it_expires() {
        let seal = SealConfig::default();
        let sealed = ticket().seal(&seal, ADA);
        assert_eq!(Ticket::open(&sealed, &seal, ADA, NOW), Ok(ticket()));
        assert_eq!(Ticket::open(&sealed, &seal, ADA, NOW + 59_999), Ok(ticket()));
        assert_eq!(Ticket::open(&sealed, &seal, ADA, NOW + 60_000), Err(Rejected::Expired));
    }

    #[test]
    fn ticket_rejects_other_callers_servers_and_keys() {
        let seal = SealConfig::default();
        let sealed = ticket().seal(&seal, ADA);
        let others = [
            Holder { principal: Some("eve"), ..ADA },
            Holder { principal: None, ..ADA },
            Holder { audience: "bank", ..ADA },
        ];
        for other in others {
            assert_eq!(Ticket::open(&sealed, &seal, other, NOW), Err(Rejected::Invalid), "{other:?}");
        }
        let foreign = SealConfig::default();
        assert_eq!(Ticket::open(&sealed, &foreign, ADA, NOW), Err(Rejected::Invalid));
    }

    #[test]
    fn ticket_rejects_forgeries() {
        let seal = SealConfig::default();
        let sealed = ticket().seal(&seal, ADA);
        let at = sealed.len() / 2;
        let other = if sealed.as_bytes()[at] == b'A' { "B" } else { "A" };
        let changed = format!("{}{other}{}", &sealed[..at], &sealed[at + 1..]);
        let kept = seal.seal_kept(&serde_json::to_vec(&ticket()).unwrap(), b"ask ticket");
        let kept = URL_SAFE_NO_PAD.encode(kept);
        for forged in [String::new(), "t".into(), "ticket".repeat(20), changed, kept, "A".repeat(100_000)] {
            assert_eq!(Ticket::open(&forged, &seal, ADA, NOW), Err(Rejected::Invalid), "{forged:.80}");
        }
    }

    #[test]
    fn ticket_opens_with_every_key_of_the_ring() {
        let (old, new) = (KeyRing::new(1, [1; 32]), KeyRing::new(2, [2; 32]));
        let rotated = config(new.clone().with_decryption_key(1, [1; 32]));
        let sealed = ticket().seal(&config(old), ADA);
        assert_eq!(Ticket::open(&sealed, &rotated, ADA, NOW), Ok(ticket()));
        assert_eq!(Ticket::open(&sealed, &config(new), ADA, NOW), Err(Rejected::Invalid));
    }

    #[test]
    fn ticket_ends_with_its_questions_and_after_an_hour_at_most() {
        let day = Duration::from_secs(24 * 3600);
        let ends = |end| Ticket::new("", BTreeSet::new(), (NOW, day), end).expires;
        assert_eq!(ends(None), NOW + 3_600_000);
        assert_eq!(ends(Some(NOW + 5)), NOW + 5);
    }
}
