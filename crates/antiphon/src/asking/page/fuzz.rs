//! Fuzzing of the tokens that the answer page creates. A server must accept a token only if the same server created the
//! token for the same purpose and the same holder. A server must reject an expired token.

use std::{collections::BTreeSet, sync::OnceLock, time::Duration};

use antiphon_http::auth::{OpenIdConnect, SignInAttempt};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, HeaderValue, header};

use super::{AskPage, Site, links::Named, visitors::Browser};
use crate::{
    asking::ticket::{Holder, Ticket},
    base::{millis, now_millis},
    seal::{KeyRing, SealConfig},
    task::Tasks,
};

const AUDIENCES: [&str; 2] = ["shop", "bank"];
const PRINCIPALS: [Option<&str>; 3] = [Some("ada"), Some("eve"), None];
const TASKS: [&str; 2] = ["7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c", "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"];

/// The duration for which each token in this fuzz test is valid.
const LIFE: Duration = Duration::from_secs(60);

/// The maximum number of changes that the fuzz test makes to one token.
const CHANGES: usize = 8;

/// The purpose for which a server creates a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ticket,
    ViewKey,
    Link,
    Form,
    Cookie,
    Session,
    SignIn,
}

const KINDS: [Kind; 7] =
    [Kind::Ticket, Kind::ViewKey, Kind::Link, Kind::Form, Kind::Cookie, Kind::Session, Kind::SignIn];

/// The numbers of an encryption key, an audience, a principal, a browser and a task. Together, the five numbers
/// identify the server and the visitor that create or read a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    key: usize,
    audience: usize,
    principal: usize,
    browser: usize,
    task: usize,
}

impl Place {
    /// Returns the default place, and places that differ from the default place in one number.
    fn all() -> [Self; 7] {
        let one = Self::default();
        [
            one,
            Self { key: 1, ..one },
            Self { audience: 1, ..one },
            Self { principal: 1, ..one },
            Self { principal: 2, ..one },
            Self { browser: 1, ..one },
            Self { task: 1, ..one },
        ]
    }

    /// Returns `true` if this reader must accept a token of the kind `kind` that `maker` created.
    fn accepts(self, maker: Self, kind: Kind) -> bool {
        let is_same_server = self.key == maker.key && self.audience == maker.audience;
        is_same_server
            && match kind {
                Kind::Ticket => self.principal == maker.principal,
                Kind::Form => {
                    (self.principal, self.browser, self.task) == (maker.principal, maker.browser, maker.task)
                }
                Kind::SignIn => self.browser == maker.browser,
                _ => true,
            }
    }
}

struct Made {
    kind: Kind,
    place: Place,
    text: String,
}

struct World {
    seals: [SealConfig; 2],
    /// The answer pages. The first index selects the encryption key, and the second index selects the audience.
    sites: [[Site; 2]; 2],
    browsers: [Browser; 2],
    attempts: [SignInAttempt; 2],
    /// The time at which the fuzz test created its tokens, in milliseconds since 1970.
    now: u64,
    made: Vec<Made>,
}

/// Changes a token as `data` describes, and then passes the changed token to all readers.
///
/// # Panics
///
/// Panics if a reader accepts a changed token, or a token that was created for another reader. Panics if a reader
/// rejects an unchanged token that was created for this reader.
pub(crate) fn tokens(data: &[u8]) {
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = WORLD.get_or_init(World::new);
    if let Some((text, now)) = world.changed(data) {
        world.check(&text, now);
    }
}

impl World {
    fn new() -> Self {
        // Both encryption keys have the same ID. So a reader must decrypt a token to find out whether the key is
        // correct.
        let seals = [1, 2].map(|key| SealConfig::default().with_keys(KeyRing::new(1, [key; 32])));
        let page = page();
        let sites = [0, 1].map(|key: usize| {
            AUDIENCES.map(|audience| Site::new(&page, &seals[key], audience).expect("the address is valid"))
        });
        let mut world = Self {
            seals,
            sites,
            browsers: [Browser::new(), Browser::new()],
            attempts: [SignInAttempt::random(), SignInAttempt::random()],
            now: now_millis(),
            made: Vec::new(),
        };
        for place in Place::all() {
            for kind in KINDS {
                let text = world.make(kind, place);
                world.made.push(Made { kind, place, text });
            }
        }
        world
    }

    fn site(&self, place: Place) -> &Site {
        &self.sites[place.key][place.audience]
    }

    fn holder(place: Place) -> Holder<'static> {
        Holder { audience: AUDIENCES[place.audience], principal: PRINCIPALS[place.principal] }
    }

    fn named(&self, place: Place) -> Named {
        let owner = Tasks::owner(PRINCIPALS[place.principal]);
        Named { task: TASKS[place.task].to_owned(), owner, expires: self.end() }
    }

    /// Returns the time at which the tokens of the fuzz test expire, in milliseconds since 1970.
    fn end(&self) -> u64 {
        self.now + millis(LIFE)
    }

    fn make(&self, kind: Kind, place: Place) -> String {
        let (seal, site) = (&self.seals[place.key], self.site(place));
        let questions = BTreeSet::from(["approval".to_owned()]);
        let value = |set_cookie: String| pair(&set_cookie).1.to_owned();
        match kind {
            Kind::Ticket => Ticket::new(TASKS[place.task], questions, (self.now, LIFE), None)
                .seal(seal, Self::holder(place)),
            Kind::ViewKey => seal.view_key(AUDIENCES[place.audience]),
            Kind::Link => site.token(&self.named(place)),
            Kind::Form => site.form_token(&self.named(place), &self.browsers[place.browser], questions, None),
            Kind::Cookie => value(site.set_cookie(&self.browsers[place.browser], self.now)),
            Kind::Session => {
                value(site.set_session(PRINCIPALS[place.principal].unwrap_or_default(), self.now))
            }
            Kind::SignIn => {
                let attempt = &self.attempts[place.browser];
                let begun = serde_json::json!({"attempt": attempt, "link": "link", "expires": self.end()});
                seal.seal_token(begun.to_string().as_bytes(), &site.binding("ask sign-in", &[]))
            }
        }
    }

    /// Returns `true` if the reader at `place` accepts the token `text` at the time `now`.
    fn opens(&self, kind: Kind, place: Place, text: &str, now: u64) -> bool {
        let (seal, site) = (&self.seals[place.key], self.site(place));
        match kind {
            Kind::Ticket => Ticket::open(text, seal, Self::holder(place), now).is_ok(),
            Kind::ViewKey => seal.is_view_key(text, AUDIENCES[place.audience]),
            Kind::Link => site.named(text, now).is_some(),
            Kind::Form => {
                let (named, browser) = (self.named(place), &self.browsers[place.browser]);
                site.questions(text, &named, browser, now).is_some()
            }
            Kind::Cookie => {
                let name = site.set_cookie(&self.browsers[0], now);
                site.browser(&sent(pair(&name).0, text), now).is_some()
            }
            Kind::Session => {
                let name = site.set_session("", now);
                site.signed_in(&sent(pair(&name).0, text), now).is_some()
            }
            Kind::SignIn => {
                let (name, state) = (site.end_sign_in(), self.attempts[place.browser].state());
                site.begun(&sent(pair(&name).0, text), state, now).is_some()
            }
        }
    }

    /// Passes a token to all readers, and returns how many readers accept the token.
    fn check(&self, text: &str, now: u64) -> usize {
        let mut accepted = 0;
        for kind in KINDS {
            for place in Place::all() {
                let is_expected = |made: &Made| {
                    let is_in_time = kind == Kind::ViewKey || now < self.end();
                    made.kind == kind && place.accepts(made.place, kind) && made.text == text && is_in_time
                };
                let opens = self.opens(kind, place, text, now);
                assert_eq!(opens, self.made.iter().any(is_expected), "{kind:?} at {place:?}: {text:?}");
                accepted += usize::from(opens);
            }
        }
        accepted
    }

    /// Makes the changes that `data` describes to a token. Returns the changed token, and the time at which the readers
    /// check the changed token. Returns `None` if a cookie cannot contain the changed token.
    fn changed(&self, data: &[u8]) -> Option<(String, u64)> {
        let ([first, second, time], changes) = data.split_first_chunk::<3>()?;
        let token = |number: u8| self.made[usize::from(number) % self.made.len()].text.as_bytes();
        let (mut bytes, other) = (token(*first).to_vec(), token(*second));
        for change in changes.as_chunks::<4>().0.iter().take(CHANGES) {
            bytes = alter(bytes, other, *change);
        }
        let end = self.end();
        let now = [self.now, end - 1, end, end + 1, 0, u64::MAX][usize::from(*time) % 6];
        let text = String::from_utf8(bytes).ok()?;
        // The server removes spaces around the value of a cookie. So the readers receive the token without these
        // spaces.
        let text = text.trim().to_owned();
        // A semicolon ends the value of a cookie. The server would then read only the text before the semicolon, which
        // can be the unchanged token.
        (!text.contains(';')).then_some((text, now))
    }
}

/// Changes a token in one place. In the array, the first number selects the kind of change, and the last number is a
/// value for the change. The two numbers between them are the position of the change.
fn alter(mut bytes: Vec<u8>, other: &[u8], [change, high, low, value]: [u8; 4]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = usize::from(u16::from_be_bytes([high, low]));
    let at = place % (bytes.len() + 1);
    let digit = DIGITS[usize::from(value) % DIGITS.len()];
    match change % 12 {
        // These changes modify the encoded text of the token.
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (value % 8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = digit),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..bytes.len().min(at + 1 + usize::from(value % 4)))),
        4 => bytes.insert(at, digit),
        // These changes combine two tokens. One change joins the beginning of the first token and the end of the second
        // token. The other change joins both complete tokens.
        5 => {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[at.min(other.len())..]);
        }
        6 => bytes.extend_from_slice(other),
        // These changes modify how a token is encoded in Base64.
        7 => bytes.extend(std::iter::repeat_n(b'=', 1 + usize::from(value % 3))),
        8 => {
            if let Ok(plain) = URL_SAFE_NO_PAD.decode(&bytes) {
                let engine = if value < 128 { STANDARD } else { URL_SAFE };
                bytes = engine.encode(plain).into_bytes();
            }
        }
        9 => bytes.make_ascii_uppercase(),
        // These changes modify the encrypted bytes of a token. One change flips a bit, and the other change replaces
        // the end of the token with the end of another token.
        10 => {
            if let Ok(mut plain) = URL_SAFE_NO_PAD.decode(&bytes) {
                let at = place % (plain.len() + 1);
                plain.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (value % 8));
                bytes = URL_SAFE_NO_PAD.encode(plain).into_bytes();
            }
        }
        _ => {
            if let (Ok(mut plain), Ok(other)) =
                (URL_SAFE_NO_PAD.decode(&bytes), URL_SAFE_NO_PAD.decode(other))
            {
                let at = place % (plain.len() + 1);
                plain.truncate(at);
                plain.extend_from_slice(&other[at.min(other.len())..]);
                bytes = URL_SAFE_NO_PAD.encode(plain).into_bytes();
            }
        }
    }
    bytes
}

fn page() -> AskPage {
    let sign_in = OpenIdConnect::new("https://login.example.com", "page", "secret");
    AskPage::at("https://mcp.example.com").with_life(LIFE).with_sign_in(sign_in)
}

/// Returns the name and the value of the cookie in `set_cookie`, which is the value of a `Set-Cookie` header.
fn pair(set_cookie: &str) -> (&str, &str) {
    let cookie = set_cookie.split(';').next().unwrap_or_default();
    cookie.split_once('=').unwrap_or_default()
}

/// Returns the headers of a request in which a browser sends a cookie. Returns no headers if a header cannot contain
/// this cookie.
fn sent(name: &str, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(cookie) = HeaderValue::from_str(&format!("{name}={value}")) {
        headers.insert(header::COOKIE, cookie);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next pseudorandom number. Each run of the test uses the same pseudorandom numbers.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn unchanged_tokens_are_accepted_by_their_readers_only() {
        let world = World::new();
        for made in &world.made {
            assert!(world.opens(made.kind, made.place, &made.text, world.now), "{:?}", made.kind);
            assert!(world.check(&made.text, world.now) > 0);
            let accepted = world.check(&made.text, world.end());
            assert_eq!(accepted > 0, made.kind == Kind::ViewKey, "{:?} after its end", made.kind);
        }
    }

    #[test]
    fn each_change_of_a_token_is_rejected() {
        let world = World::new();
        for change in 0..12 {
            let mut rejected = 0;
            for number in 0..u8::try_from(world.made.len()).unwrap() {
                let Some((text, now)) = world.changed(&[number, number + 1, 0, change, 0, 40, 1]) else {
                    continue;
                };
                if world.made.iter().all(|made| made.text != text) {
                    assert_eq!(world.check(&text, now), 0, "change {change}: {text}");
                    rejected += 1;
                }
            }
            assert!(rejected > 0, "change {change} changes nothing");
        }
    }

    #[test]
    fn random_changes_of_tokens_are_rejected() {
        let mut state = 1;
        for _ in 0..1000 {
            let length = 3 + 4 * (random(&mut state) % 6);
            let data: Vec<u8> = (0..length).map(|_| random(&mut state).to_le_bytes()[0]).collect();
            tokens(&data);
        }
    }
}
