//! Parses the options that filter and sort the rows of a set.

use antiphon_results::{ColumnDefinition, Order, Sort, snapshot};
use clap::Args;
use serde_json::{Value, json};

use super::filter::Filter;
use crate::exit::Misused;

/// The maximum number of sort columns.
const MOST_SORTS: usize = 4;

/// The filters and the sort order of the rows.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct View {
    /// Sort by these columns, the first one first. `-name` or `name:desc` sorts in descending order.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', value_parser = sort, allow_hyphen_values = true)]
    sort: Vec<Sort>,
    /// Keep only rows that match: `amount>=100`, `name~college`, `state in (NJ, NY)`, `closed is null`. Can be given
    /// more than once.
    #[arg(long, value_name = "CONDITION", value_parser = Filter::parse)]
    filter: Vec<Filter>,
}

impl View {
    pub(crate) fn sort(&self) -> &[Sort] {
        &self.sort
    }

    /// Returns `true` if the view has no filter and so contains all rows of the set.
    pub(crate) fn is_all(&self) -> bool {
        self.filter.is_empty()
    }

    /// Returns whether the view has filters or several sort columns. Early servers do not support filters or several
    /// sort columns.
    pub(crate) fn is_rich(&self) -> bool {
        !self.filter.is_empty() || self.sort.len() > 1
    }

    /// Validates the view before a request is sent.
    pub(crate) fn check(&self) -> Result<(), Misused> {
        match self.sort.len() {
            0..=MOST_SORTS => Ok(()),
            _ => Err(Misused(format!("rows can be sorted by {MOST_SORTS} columns at most"))),
        }
    }

    /// Converts the view to a request body. Options that are not set are omitted.
    pub(crate) fn body(&self, columns: &[ColumnDefinition]) -> Result<Value, Misused> {
        let mut body = json!({});
        match &*self.sort {
            [] => {}
            // All servers support this form of the request with one sort column.
            [sort] => body["sort"] = json!(sort),
            sorts => body["sort"] = json!(sorts),
        }
        if !self.filter.is_empty() {
            body["filter"] = json!(self.filters(columns)?);
        }
        Ok(body)
    }

    /// Converts the view to query parameters. Options that are not set are omitted.
    pub(crate) fn query(&self, columns: &[ColumnDefinition]) -> Result<Vec<(&'static str, String)>, Misused> {
        let mut query = Vec::new();
        if !self.sort.is_empty() {
            let names = self.sort.iter().map(|sort| match sort.order {
                Order::Desc => format!("-{}", sort.field),
                Order::Asc => sort.field.clone(),
            });
            query.push(("sort", names.collect::<Vec<_>>().join(",")));
        }
        if !self.filter.is_empty() {
            query.push(("filter", json!(self.filters(columns)?).to_string()));
        }
        Ok(query)
    }

    /// Returns the text of the spinner while the server works.
    pub(crate) fn waiting(&self) -> &'static str {
        match (self.sort.is_empty(), self.filter.is_empty()) {
            (false, _) => "being sorted…",
            (true, false) => "being filtered…",
            (true, true) => "still being written…",
        }
    }

    /// Returns the filters. The value of each filter has the type of its column.
    pub(crate) fn filters(&self, columns: &[ColumnDefinition]) -> Result<Vec<snapshot::Filter>, Misused> {
        self.filter.iter().map(|filter| filter.typed(columns).map_err(Misused)).collect()
    }
}

fn sort(text: &str) -> Result<Sort, String> {
    let named = |field: &str, sort: fn(String) -> Sort| match field {
        "" => Err("name a column".to_owned()),
        field => Ok(sort(field.to_owned())),
    };
    match text.rsplit_once(':') {
        Some((field, "desc")) => named(field, Sort::descending),
        Some((field, "asc")) => named(field, Sort::ascending),
        Some((_, order)) => Err(format!("`{order}` is not a sort order; write `asc` or `desc`")),
        None => match text.strip_prefix('-') {
            Some(field) => named(field, Sort::descending),
            None => named(text, Sort::ascending),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sorts: &[&str], filters: &[&str]) -> View {
        View {
            sort: sorts.iter().map(|text| sort(text).unwrap()).collect(),
            filter: filters.iter().map(|text| Filter::parse(text).unwrap()).collect(),
        }
    }

    #[test]
    fn one_sort_is_said_as_every_server_understands_it() {
        assert_eq!(
            view(&["-size"], &[]).body(&[]).unwrap(),
            json!({"sort": {"field": "size", "order": "desc"}})
        );
        assert_eq!(view(&[], &[]).body(&[]).unwrap(), json!({}));
        let both = view(&["a", "b:desc"], &["a=1"]);
        assert_eq!(
            both.body(&[]).unwrap(),
            json!({
                "sort": [{"field": "a", "order": "asc"}, {"field": "b", "order": "desc"}],
                "filter": [{"column": "a", "op": "eq", "value": 1}],
            })
        );
        assert_eq!(
            both.query(&[]).unwrap(),
            [("sort", "a,-b".to_owned()), ("filter", r#"[{"column":"a","op":"eq","value":1}]"#.to_owned())]
        );
    }

    #[test]
    fn sorts_without_a_column_and_too_many_are_refused() {
        for wrong in ["", "-", ":desc", "id:up"] {
            assert!(sort(wrong).is_err(), "{wrong}");
        }
        assert!(view(&["a", "b", "c", "d", "e"], &[]).check().is_err());
        assert_eq!(sort("-b:asc").unwrap(), Sort::ascending("-b"));
    }
}
