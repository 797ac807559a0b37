//! Strict parsing of JSON.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use super::MAX_NUMBER;

/// Deserializes an optional member that must not be `null`.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A value that must be a JSON object. By default, serde accepts an array for a struct.
pub(super) struct Object<T>(pub(super) T);

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

/// An integer from 0 to [`MAX_NUMBER`], in any notation: `10`, `10.0`, `1e1`.
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parses the text, because the JSON parser is imprecise for long numbers with a point.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let number = text.parse().ok().filter(|number| *number <= MAX_NUMBER).or_else(|| with_point(text));
        number
            .map(Self)
            .ok_or_else(|| D::Error::custom(format_args!("expected a whole number from 0 to {MAX_NUMBER}")))
    }
}

/// Parses an integer with a point or an exponent.
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
