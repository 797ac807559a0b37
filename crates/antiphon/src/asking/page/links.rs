//! Creates and decrypts the tokens in links and forms of the answer page.

use std::collections::BTreeSet;

use super::{Site, visitors::Browser};
use crate::{
    asking::ticket::Ticket,
    base::{digest, now_millis},
    task::Owner,
};

/// The data in the token of a link: a task, the owner of the task, and the time at which the link expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) task: String,
    pub(crate) owner: Owner,
    /// The time at which the link expires, in milliseconds since 1970.
    pub(crate) expires: u64,
}

impl Site {
    /// Returns the additional authenticated data for the encryption of a token. This data contains the purpose of the
    /// token. So a token that was encrypted for one purpose cannot be used for another purpose.
    pub(super) fn binding(&self, purpose: &str, parts: &[&str]) -> Vec<u8> {
        let parts = [[self.audience.as_str()].as_slice(), parts].concat();
        [purpose.as_bytes(), digest(&parts).as_bytes()].concat()
    }

    /// Returns the token of a link. The tokens for all tasks have the same length.
    pub(super) fn token(&self, named: &Named) -> String {
        let task = u128::from_str_radix(&named.task, 16).unwrap_or_default();
        let owner = named.owner.number();
        let mut plain = Vec::with_capacity(41);
        plain.extend_from_slice(&named.expires.to_le_bytes());
        plain.extend_from_slice(&task.to_le_bytes());
        plain.extend_from_slice(&owner.unwrap_or_default().to_le_bytes());
        plain.push(owner.is_some().into());
        self.seal.seal_token(&plain, &self.binding("ask page", &[]))
    }

    /// Decrypts the token of a link. Returns `None` if the token is forged or expired.
    pub(crate) fn named(&self, token: &str, now: u64) -> Option<Named> {
        let plain = self.seal.open_token(token, &self.binding("ask page", &[])).ok()?;
        let (expires, rest) = plain.split_first_chunk::<8>()?;
        let (task, rest) = rest.split_first_chunk::<16>()?;
        let (owner, is_known) = rest.split_first_chunk::<16>()?;
        let owner = (is_known == [1_u8]).then(|| u128::from_le_bytes(*owner));
        let named = Named {
            task: format!("{:032x}", u128::from_le_bytes(*task)),
            owner: Owner::of_number(owner),
            expires: u64::from_le_bytes(*expires),
        };
        (now < named.expires).then_some(named)
    }

    fn form_binding(&self, named: &Named, browser: &Browser) -> Vec<u8> {
        let owner = named.owner.number().map(|number| number.to_string()).unwrap_or_default();
        self.binding("ask form", &[&browser.0, &owner])
    }

    /// Returns a token for a form that shows the questions `questions`. Only the browser `browser` can submit this
    /// form.
    pub(crate) fn form_token(
        &self,
        named: &Named,
        browser: &Browser,
        questions: BTreeSet<String>,
        questions_end: Option<u64>,
    ) -> String {
        let end = questions_end.map_or(named.expires, |end| end.min(named.expires));
        let ticket = Ticket::new(&named.task, questions, (now_millis(), self.page.life), Some(end));
        let plain = serde_json::to_vec(&ticket).unwrap_or_default();
        self.seal.seal_token(&plain, &self.form_binding(named, browser))
    }

    /// Decrypts the token of a form, and returns the questions that the form shows. Returns `None` if the token is
    /// forged or expired, or if the token belongs to another browser or another task.
    pub(crate) fn questions(
        &self,
        token: &str,
        named: &Named,
        browser: &Browser,
        now: u64,
    ) -> Option<BTreeSet<String>> {
        let plain = self.seal.open_token(token, &self.form_binding(named, browser)).ok()?;
        let ticket: Ticket = serde_json::from_slice(&plain).ok()?;
        (ticket.task == named.task && now < ticket.expires).then_some(ticket.questions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        asking::page::tests::{at, site, task},
        seal::{KeyRing, SealConfig},
        task::Tasks,
    };

    #[test]
    fn token_names_its_task_until_it_expires_and_has_a_constant_length() {
        let site = site(&at());
        for named in [task(Some("ada")), task(None)] {
            let token = site.token(&named);
            assert_eq!(token.len(), 132);
            assert_eq!(site.named(&token, 999), Some(named.clone()));
            assert_eq!(site.named(&token, 1000), None);
        }
    }

    #[test]
    fn forged_tokens_name_nothing() {
        let (site, other) = (site(&at()), site(&at()));
        let named = task(Some("ada"));
        let token = site.token(&named);
        for at in 0..token.len() {
            let digit = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{digit}{}", &token[..at], &token[at + 1..]);
            assert_eq!(site.named(&changed, 1), None, "{at}");
        }
        let browser = Browser::new();
        let form = site.form_token(&named, &browser, BTreeSet::new(), None);
        let cookie = site.set_cookie(&browser, 1);
        let cookie = cookie.split_once('=').unwrap().1.split_once(';').unwrap().0;
        let (foreign, short, long) = (other.token(&named), "A".repeat(132), "A".repeat(100_000));
        for wrong in ["", "ask", &form, cookie, &foreign, &short, &long] {
            assert_eq!(site.named(wrong, 1), None, "{wrong:.80}");
        }
        let keys = |audience| {
            let seal = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
            Site::new(&at(), &seal, audience).unwrap()
        };
        assert_eq!(keys("bank").named(&keys("shop").token(&named), 1), None);
    }

    #[test]
    fn form_belongs_to_one_browser_and_one_task() {
        let site = site(&at());
        let now = now_millis();
        let named = Named { expires: now + 60_000, ..task(Some("ada")) };
        let (browser, other) = (Browser::new(), Browser::new());
        let questions = BTreeSet::from(["approval".to_owned()]);
        let form = site.form_token(&named, &browser, questions.clone(), Some(now + 30_000));
        assert_eq!(site.questions(&form, &named, &browser, now), Some(questions));
        assert_eq!(site.questions(&form, &named, &browser, now + 30_000), None);
        assert_eq!(site.questions(&form, &named, &other, now), None);
        let elsewhere = Named { task: "0a".repeat(16), ..named.clone() };
        assert_eq!(site.questions(&form, &elsewhere, &browser, now), None);
        let bobs = Named { owner: Tasks::owner(Some("bob")), ..named };
        assert_eq!(site.questions(&form, &bobs, &browser, now), None);
    }
}
