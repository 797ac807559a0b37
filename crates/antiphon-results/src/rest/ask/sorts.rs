//! Parses one or several sort columns.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{
    MAX_SORTS,
    strict::{Object, given},
};
use crate::page::{Order, Sort};

/// One sort column as an object, or several sort columns as an array of objects.
pub(super) struct Sorts(pub(super) Vec<Sort>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SortAsk {
    field: String,
    #[serde(default, deserialize_with = "given")]
    order: Option<Cow<'static, str>>,
}

impl SortAsk {
    fn sort<E: serde::de::Error>(self) -> Result<Sort, E> {
        let order = match self.order.as_deref() {
            None | Some("asc") => Order::Asc,
            Some("desc") => Order::Desc,
            Some(_) => return Err(E::custom("`order` must be `asc` or `desc`")),
        };
        Ok(Sort { field: self.field, order })
    }
}

impl<'de> Deserialize<'de> for Sorts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Sorts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or an array of objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Sorts, A::Error> {
                let asked = SortAsk::deserialize(MapAccessDeserializer::new(members))?;
                Ok(Sorts(vec![asked.sort()?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Sorts, A::Error> {
                let mut sorts = Vec::new();
                while let Some(Object(asked)) = items.next_element::<Object<SortAsk>>()? {
                    if sorts.len() == MAX_SORTS {
                        return Err(A::Error::custom(format_args!(
                            "`sort` has more than {MAX_SORTS} columns"
                        )));
                    }
                    sorts.push(asked.sort()?);
                }
                Ok(Sorts(sorts))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}
