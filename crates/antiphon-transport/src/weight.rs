//! Estimates how much memory the parsing of a JSON message needs, before the message is parsed.
//!
//! A JSON value of two bytes (`0,`) can take several hundred bytes of memory after parsing. The SDK also buffers the
//! parsed values of a message several times. Because of these factors, a limit on the length of a message does not
//! limit the memory of the message. [`Weight`] counts the JSON values while the bytes of a message arrive.
//! [`MemoryBudget`] limits the memory of all messages of a process together.
//!
//! ```
//! use antiphon_transport::weight::{MemoryBudget, Weight};
//!
//! let text = "x".repeat(100_000);
//! let (prose, zeros) = (format!("[\"{text}\"]"), format!("[{}0]", "0,".repeat(50_000)));
//! assert!(Weight::of(prose.as_bytes()).check(1 << 20).is_ok());
//! assert!(Weight::of(zeros.as_bytes()).check(1 << 20).is_err());
//!
//! let budget = MemoryBudget::new(1 << 20);
//! let share = budget.take(700 << 10);
//! assert!(share.is_some() && budget.take(700 << 10).is_none());
//! drop(share);
//! assert!(budget.take(700 << 10).is_some());
//! ```

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The default maximum memory for parsing one message, in bytes.
pub const MAX_PARSED_BYTES: usize = 8 * MIB;
/// A factor for the memory limit. Parsing a message can always use `FACTOR` times the message's length, even if this
/// product exceeds the maximum memory.
pub const FACTOR: usize = 8;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// The default size of a [`MemoryBudget`], in bytes.
const DEFAULT_BUDGET: usize = 64 * MIB;
/// The maximum size of a share that can use the reserved quarter of a budget, in bytes.
const SMALL: usize = 64 * KIB;

/// The number of copies of each byte of a message during parsing. The copies are in the received chunk, in a buffer, in
/// a buffer of the SDK, and in a string.
const PER_BYTE: usize = 4;
/// The memory that a JSON value uses in all buffers of the SDK and in the arguments of a tool, in bytes.
const PER_VALUE: usize = 480;
/// The memory of an object member in addition to the member's value, in bytes: the name, and the entry in a map.
const PER_MEMBER: usize = 1024;
/// The memory after parsing for each byte of a string, in bytes.
const KEPT_PER_BYTE: usize = 2;
const KEPT_PER_VALUE: usize = 128;

/// The numbers of bytes, values and object members in the received part of a JSON text.
///
/// `Weight` does not check that the text is valid JSON. Invalid JSON does not need more memory than the estimate,
/// because a parser stops at the first error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    bytes: usize,
    values: usize,
    members: usize,
    in_string: bool,
    escaped: bool,
}

impl Weight {
    /// Counts the bytes, values and members of a complete JSON text.
    pub fn of(text: &[u8]) -> Self {
        let mut weight = Self::default();
        weight.add(text);
        weight
    }

    /// Counts the next part of a JSON text. You can split the JSON text at any byte.
    pub fn add(&mut self, mut part: &[u8]) {
        self.bytes = self.bytes.saturating_add(part.len());
        loop {
            if self.in_string {
                if self.escaped {
                    let Some((_, rest)) = part.split_first() else { return };
                    (self.escaped, part) = (false, rest);
                }
                let Some(end) = part.iter().position(|byte| matches!(byte, b'"' | b'\\')) else { return };
                (self.in_string, self.escaped) = (part[end] == b'\\', part[end] == b'\\');
                part = &part[end + 1..];
                continue;
            }
            let mut begins = None;
            for (at, byte) in part.iter().enumerate() {
                match byte {
                    b'"' => {
                        begins = Some(at);
                        break;
                    }
                    b',' | b'[' | b'{' => self.values += 1,
                    b':' => self.members += 1,
                    _ => {}
                }
            }
            let Some(begins) = begins else { return };
            self.in_string = true;
            part = &part[begins + 1..];
        }
    }

    /// Returns the length of the received part of the text, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the estimated maximum memory for parsing the text, in bytes.
    pub fn parsed(&self) -> usize {
        self.bytes * PER_BYTE + self.values * PER_VALUE + self.members * PER_MEMBER
    }

    /// Returns the estimated memory that the message uses after parsing, in bytes.
    pub fn kept(&self) -> usize {
        self.bytes * KEPT_PER_BYTE + (self.values + self.members) * KEPT_PER_VALUE
    }

    /// Checks how much memory parsing the text takes. The maximum is `limit` bytes or 8 times the length of the text,
    /// whichever is more.
    ///
    /// # Errors
    ///
    /// Returns [`TooHeavy`] if parsing the text takes more memory than this maximum.
    pub fn check(&self, limit: usize) -> Result<(), TooHeavy> {
        let limit = limit.max(self.bytes.saturating_mul(FACTOR));
        let needed = self.parsed();
        if needed <= limit { Ok(()) } else { Err(TooHeavy { values: self.values, needed, limit }) }
    }
}

/// The error for a message with too many JSON values: parsing the message would need too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the message is too large: its {values} JSON values need about {needed} bytes of memory, more than the {limit} allowed; send fewer values, or raise `max_parsed_bytes` on the server"
)]
pub struct TooHeavy {
    /// The approximate number of JSON values in the message.
    pub values: usize,
    /// The estimated memory for parsing the message, in bytes.
    pub needed: usize,
    /// The maximum memory for parsing the message, in bytes.
    pub limit: usize,
}

/// The fields of a message that show whether it is a request, a response or a notification.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
}

/// The kind of a message that is rejected before it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request, or a message whose kind cannot be determined. The peer expects a response.
    Request,
    /// A response of the peer, for which a request of this side waits.
    Response,
    /// A notification, which needs no response.
    Notification,
}

/// Returns the kind of a message, and a JSON-RPC error with the message's ID, `code` and `reason`. `reject` does not
/// parse the whole message.
pub fn reject(message: &[u8], code: i32, reason: &str) -> (Kind, Vec<u8>) {
    let message = message.strip_prefix("\u{feff}".as_bytes()).unwrap_or(message);
    // serde would parse an array as the fields of a struct, in their order.
    let is_object = message.trim_ascii_start().starts_with(b"{");
    let shape = serde_json::from_slice::<Shape<'_>>(message).ok().filter(|_| is_object);
    let id = shape.as_ref().and_then(|shape| shape.id).map(RawValue::get).filter(|id| is_id(id));
    let kind = match &shape {
        Some(Shape { id: Some(_), method: None }) => Kind::Response,
        Some(Shape { id: None, method: Some(_) }) => Kind::Notification,
        _ => Kind::Request,
    };
    let error = serde_json::json!({"code": code, "message": reason});
    (kind, format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.unwrap_or("null")).into_bytes())
}

/// Returns whether the JSON text of a message ID is a number or a short string.
fn is_id(id: &str) -> bool {
    const LONGEST: usize = 4 * KIB;
    (id.starts_with('"') && id.len() <= LONGEST) || id.parse::<i64>().is_ok()
}

/// The memory that all messages of one or more endpoints can use together, while they are received, parsed and
/// processed. A clone of a `MemoryBudget` is a handle to the same budget.
///
/// By default, all endpoints of a process share one budget of 64 MiB. A quarter of a budget is reserved for messages
/// that need up to 64 KiB, so that large messages do not block small messages.
#[derive(Clone)]
pub struct MemoryBudget {
    common: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

impl MemoryBudget {
    /// Creates a separate budget of `bytes` bytes, rounded down to whole KiB.
    pub fn new(bytes: usize) -> Self {
        let permits = (bytes / KIB).min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        let reserve = permits / 4;
        Self {
            common: Arc::new(Semaphore::new(permits - reserve)),
            reserve: Arc::new(Semaphore::new(reserve)),
        }
    }

    /// Takes `bytes` bytes from the budget until the returned share is dropped. Returns `None` if the budget does not
    /// have enough memory left.
    pub fn take(&self, bytes: usize) -> Option<Share> {
        let mut share = Share { budget: self.clone(), permit: None, is_reserved: false };
        share.grow(bytes).then_some(share)
    }

    /// Takes `bytes` bytes as soon as the budget has enough memory left. Returns `None` if the memory is not available
    /// within the time `limit`.
    ///
    /// `take_within` polls the budget and does not queue, so that a large request does not block small requests.
    #[cfg(feature = "__server")]
    pub(crate) async fn take_within(&self, bytes: usize, limit: std::time::Duration) -> Option<Share> {
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
        let wait = async {
            loop {
                if let Some(share) = self.take(bytes) {
                    return share;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(limit, wait).await.ok()
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        static PROCESS: OnceLock<MemoryBudget> = OnceLock::new();
        PROCESS.get_or_init(|| Self::new(DEFAULT_BUDGET)).clone()
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.common.available_permits() + self.reserve.available_permits();
        f.debug_struct("MemoryBudget").field("left_kib", &left).finish()
    }
}

/// A share of a [`MemoryBudget`]. When a share is dropped, its memory returns to the budget.
pub struct Share {
    budget: MemoryBudget,
    permit: Option<OwnedSemaphorePermit>,
    is_reserved: bool,
}

impl Share {
    /// Increases the share to at least `bytes` bytes. If the budget does not have enough memory left, `grow` returns
    /// `false` and does not change the share.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let (has, wants) = (self.permits(), permits(bytes));
        if wants <= has {
            return true;
        }
        let take = |from: &Arc<Semaphore>, count: usize| {
            Arc::clone(from).try_acquire_many_owned(u32::try_from(count).unwrap_or(u32::MAX)).ok()
        };
        if self.is_reserved || self.permit.is_none() {
            // Move the share out of the reserve as soon as possible. A share of more than `SMALL` bytes must not use
            // the reserve.
            if let Some(all) = take(&self.budget.common, wants) {
                (self.permit, self.is_reserved) = (Some(all), false);
                return true;
            }
            let more = (bytes <= SMALL).then(|| take(&self.budget.reserve, wants - has)).flatten();
            self.is_reserved |= more.is_some();
            return self.merge(more);
        }
        self.merge(take(&self.budget.common, wants - has))
    }

    /// Reduces the share to `bytes` bytes, and returns the rest of its memory to the budget.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.permits().saturating_sub(permits(bytes));
        if let Some(permit) = &mut self.permit {
            drop(permit.split(beyond));
        }
    }

    fn permits(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn merge(&mut self, more: Option<OwnedSemaphorePermit>) -> bool {
        let Some(more) = more else { return false };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("kib", &self.permits()).finish()
    }
}

fn permits(bytes: usize) -> usize {
    bytes.div_ceil(KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_counts_what_is_outside_strings_wherever_the_text_is_cut() {
        let text = br#"{"a,[{:":[0,0,{"b\"" : "\\"}], "c":"d,e\u005b"}"#;
        let whole = Weight::of(text);
        assert_eq!((whole.values, whole.members), (6, 3), "{whole:?}");
        for cut in 0..text.len() {
            let mut weight = Weight::of(&text[..cut]);
            weight.add(&text[cut..]);
            assert_eq!(weight, whole, "cut at {cut}");
        }
        let mut bytewise = Weight::default();
        for byte in text {
            bytewise.add(&[*byte]);
        }
        assert_eq!(bytewise, whole);
    }

    #[test]
    fn text_passes_and_many_small_values_do_not() {
        let text = Weight::of(format!(r#"{{"text":"{}"}}"#, "a, [b] {c}: ".repeat(75_000)).as_bytes());
        text.check(MAX_PARSED_BYTES).unwrap();
        for dense in ["0,", "{},", "[],", r#"{"a":0},"#, r#""","#] {
            let text = format!("[{}0]", dense.repeat(4 * MIB / dense.len()));
            let refused = Weight::of(text.as_bytes()).check(MAX_PARSED_BYTES).unwrap_err();
            assert!(refused.to_string().contains("raise `max_parsed_bytes`"), "{refused}");
        }
        let table = format!("[{}0]", r#"{"name":"Ada","age":36},"#.repeat(2_000));
        Weight::of(table.as_bytes()).check(MAX_PARSED_BYTES).unwrap();
    }

    #[test]
    fn small_shares_have_a_reserve_and_large_ones_do_not() {
        let budget = MemoryBudget::new(4 * MIB);
        let large = budget.take(3 * MIB).unwrap();
        assert!(budget.take(SMALL + 1).is_none());
        let mut small = budget.take(10 * KIB).unwrap();
        assert!(small.grow(SMALL) && !small.grow(SMALL + 1));
        let many: Vec<_> = std::iter::from_fn(|| budget.take(SMALL)).collect();
        assert_eq!(many.len(), MIB / SMALL - 1);
        drop(large);
        assert!(small.grow(2 * MIB), "{small:?} {budget:?}");
        small.shrink(KIB);
        drop(many);
        assert_eq!(format!("{budget:?}"), "MemoryBudget { left_kib: 4095 }");
    }

    #[test]
    fn rejected_message_is_answered_by_its_id() {
        let of = |text: &str| {
            let (kind, json) = reject(text.as_bytes(), -32600, "too much");
            (kind, serde_json::from_slice::<serde_json::Value>(&json).unwrap())
        };
        let (kind, error) = of(r#"{"method":"a","id":7,"params":[0,0]}"#);
        assert_eq!((kind, &error["id"]), (Kind::Request, &7.into()));
        assert_eq!(error["error"], serde_json::json!({"code": -32600, "message": "too much"}));
        let (kind, error) = of(r#"{"id":"a","result":{"a":[0,0]}}"#);
        assert_eq!((kind, &error["id"]), (Kind::Response, &"a".into()));
        assert_eq!(of(r#"{"method":"a","params":[0,0]}"#).0, Kind::Notification);
        for nobodys in ["[0,0]", "{", r#"{"id":[0,0],"method":"a"}"#, r#"{"id":1,"id":2,"method":"a"}"#] {
            let (kind, error) = of(nobodys);
            assert_eq!((kind, error["id"].is_null()), (Kind::Request, true), "{nobodys}");
        }
    }
}
