//! What requests ask for, read strictly: what is not understood is refused, and never guessed at.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use super::error::ApiError;
use crate::{
    link::{LinkOptions, Scope},
    page::{Order, Sort},
    server::{Life, PageOptions},
};

/// The greatest number that every JSON reader reads as it is: 2^53 - 1.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// What `POST /{id}` asks for.
pub(super) fn page(body: &[u8]) -> Result<PageOptions, ApiError> {
    let PageAsk { offset, limit, sort, cursor } = read(body)?;
    let sort = match sort {
        Some(Object(SortAsk { field, order: by })) => Some(Sort { field, order: order(by.as_deref())? }),
        None => None,
    };
    options(offset.map(|Whole(offset)| offset), limit.map(|Whole(limit)| limit), sort, cursor)
}

/// What `PUT /{id}` asks for.
pub(super) fn life(body: &[u8]) -> Result<Life, ApiError> {
    match read(body)? {
        LifeAsk { pinned: Some(_), expires_in: Some(_) } => {
            Err(ApiError::invalid("give `pinned` or `expires_in`, not both"))
        }
        LifeAsk { expires_in: Some(Whole(0)), .. } => {
            Err(ApiError::invalid("`expires_in` must be at least 1"))
        }
        LifeAsk { expires_in: Some(Whole(seconds)), .. } => Ok(Life::For(Duration::from_secs(seconds))),
        LifeAsk { pinned: Some(false), .. } => Ok(Life::Own),
        LifeAsk { .. } => Ok(Life::Pinned),
    }
}

/// What `POST /{id}/links` asks for.
pub(super) fn link(body: &[u8]) -> Result<LinkOptions, ApiError> {
    let LinkAsk { scopes, expires_in } = read(body)?;
    let mut options = LinkOptions::default();
    if let Some(scopes) = scopes {
        let scopes = scopes.iter().map(|scope| match &**scope {
            "read" => Ok(Scope::Read),
            "pin" => Ok(Scope::Pin),
            "delete" => Ok(Scope::Delete),
            _ => Err(ApiError::invalid("`scopes` may have `read`, `pin` and `delete`")),
        });
        options = options.with_scopes(scopes.collect::<Result<Vec<_>, _>>()?);
    }
    match expires_in {
        Some(Whole(0)) => Err(ApiError::invalid("`expires_in` must be at least 1")),
        Some(Whole(seconds)) => Ok(options.with_life(Duration::from_secs(seconds))),
        None => Ok(options),
    }
}

/// What the query of a request says, as text. Names that are not ours are not looked at: they may be for whoever
/// says who is calling.
#[derive(Default)]
pub(super) struct Query {
    pub(super) link: Option<String>,
    offset: Option<String>,
    limit: Option<String>,
    sort: Option<String>,
    order: Option<String>,
    cursor: Option<String>,
    csv_safe: Option<String>,
    /// A name that is there more than once.
    twice: Option<&'static str>,
}

impl Query {
    pub(super) fn read(text: &str) -> Self {
        let mut query = Self::default();
        if text.is_empty() {
            return query;
        }
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let (name, place) = match &*name {
                "link" => ("link", &mut query.link),
                "offset" => ("offset", &mut query.offset),
                "limit" => ("limit", &mut query.limit),
                "sort" => ("sort", &mut query.sort),
                "order" => ("order", &mut query.order),
                "cursor" => ("cursor", &mut query.cursor),
                "csv_safe" => ("csv_safe", &mut query.csv_safe),
                _ => continue,
            };
            if place.is_some() {
                query.twice = Some(name);
            }
            *place = Some(value.into_owned());
        }
        if query.twice == Some("link") {
            // Of two links none is the one that decides.
            query.link = Some(String::new());
        }
        query
    }

    /// Which rows `GET /{id}/rows` asks for.
    pub(super) fn page(&self) -> Result<PageOptions, ApiError> {
        self.check()?;
        let number = |name: &'static str, text: &Option<String>| {
            text.as_deref().map(|text| digits(text).ok_or_else(|| whole(name))).transpose()
        };
        let order = order(self.order.as_deref())?;
        let sort = self.sort.clone().map(|field| Sort { field, order });
        options(number("offset", &self.offset)?, number("limit", &self.limit)?, sort, self.cursor.clone())
    }

    /// Whether cells of CSV that a spreadsheet would run are made harmless.
    pub(super) fn csv_safe(&self) -> Result<bool, ApiError> {
        self.check()?;
        match self.csv_safe.as_deref() {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(ApiError::invalid("`csv_safe` must be `true` or `false`")),
        }
    }

    fn check(&self) -> Result<(), ApiError> {
        match self.twice {
            Some(name) => Err(ApiError::invalid(format!("`{name}` is there more than once"))),
            None => Ok(()),
        }
    }
}

fn options(
    offset: Option<u64>,
    limit: Option<u64>,
    sort: Option<Sort>,
    cursor: Option<String>,
) -> Result<PageOptions, ApiError> {
    if limit == Some(0) {
        return Err(ApiError::invalid("`limit` must be at least 1"));
    }
    let mut options = PageOptions::default().with_sort(sort).with_cursor(cursor);
    options.offset = offset.unwrap_or(0);
    options.limit = limit;
    Ok(options)
}

fn order(text: Option<&str>) -> Result<Order, ApiError> {
    match text {
        None | Some("asc") => Ok(Order::Asc),
        Some("desc") => Ok(Order::Desc),
        Some(_) => Err(ApiError::invalid("the order must be `asc` or `desc`")),
    }
}

fn whole(name: &str) -> ApiError {
    ApiError::invalid(format!("`{name}` must be a whole number from 0 to {MAX_NUMBER}"))
}

/// A whole number in a query: digits, and no more after a point than zeros.
fn digits(text: &str) -> Option<u64> {
    let (digits, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let zeros = !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    let number = (all_digits && zeros).then(|| digits.parse().ok()).flatten();
    number.filter(|number| *number <= MAX_NUMBER)
}

/// Reads a body; one that is empty asks for nothing in particular.
fn read<'de, T: Deserialize<'de> + Default>(body: &'de [u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(asked)| asked).map_err(|error| ApiError::invalid(format!("the body is wrong: {error}")))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageAsk {
    #[serde(default, deserialize_with = "given")]
    offset: Option<Whole>,
    #[serde(default, deserialize_with = "given")]
    limit: Option<Whole>,
    // Programs that have neither yet write `null`. An `offset` of `null` is where a last page leads, and begins
    // nothing.
    #[serde(default)]
    sort: Option<Object<SortAsk>>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SortAsk {
    field: String,
    #[serde(default, deserialize_with = "given")]
    order: Option<Cow<'static, str>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LifeAsk {
    #[serde(default, deserialize_with = "given")]
    pinned: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    expires_in: Option<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkAsk {
    #[serde(default, deserialize_with = "given")]
    scopes: Option<Vec<Cow<'static, str>>>,
    #[serde(default, deserialize_with = "given")]
    expires_in: Option<Whole>,
}

/// What may be left out, and is not `null` where it is there.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Something that is written as an object. Left to itself serde reads a struct from an array too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// A whole number from 0 to [`MAX_NUMBER`], however it is written: `10`, `10.0`, `1e1`.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // From its text: the JSON reader is a little wrong about long numbers with a point.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let number = text.parse().ok().filter(|number| *number <= MAX_NUMBER).or_else(|| with_point(text));
        number
            .map(Self)
            .ok_or_else(|| D::Error::custom(format_args!("expected a whole number from 0 to {MAX_NUMBER}")))
    }
}

/// A whole number that is written with a point, or with an exponent.
fn with_point(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "the greatest is the last that loses nothing")]
    let fits = number.fract() == 0.0 && (0.0..=MAX_NUMBER as f64).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, not negative and not too great"
    )]
    fits.then_some(number as u64)
}
