//! The JSON of a page. A server sends the counts and positions of a page next to the rows, as the specification
//! requires, or in a nested object.

use serde::Deserialize;

/// The JSON of a page. `WirePage` does not use `flatten`, because serde cannot read `RawValue` rows through `flatten`.
#[derive(Deserialize)]
pub(super) struct WirePage<T> {
    data: Vec<T>,
    total_count: Option<u64>,
    returned_count: Option<u64>,
    offset: Option<u64>,
    skip: Option<u64>,
    has_next: Option<bool>,
    next_offset: Option<u64>,
    pagination: Option<Paging>,
}

/// The counts and positions of a page, which are all optional.
#[derive(Default, Deserialize)]
pub(super) struct Paging {
    #[serde(alias = "total")]
    pub(super) total_count: Option<u64>,
    pub(super) returned_count: Option<u64>,
    pub(super) offset: Option<u64>,
    skip: Option<u64>,
    #[serde(alias = "has_more")]
    pub(super) has_next: Option<bool>,
    pub(super) next_offset: Option<u64>,
}

impl<T> WirePage<T> {
    /// Returns the rows, and the counts and positions from the page or from the nested object.
    pub(super) fn into_parts(self) -> (Vec<T>, Paging) {
        let nested = self.pagination.unwrap_or_default();
        let paging = Paging {
            total_count: self.total_count.or(nested.total_count),
            returned_count: self.returned_count.or(nested.returned_count),
            offset: self.offset.or(self.skip).or(nested.offset).or(nested.skip),
            skip: None,
            has_next: self.has_next.or(nested.has_next),
            next_offset: self.next_offset.or(nested.next_offset),
        };
        (self.data, paging)
    }
}
