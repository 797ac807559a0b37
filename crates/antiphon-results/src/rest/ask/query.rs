use super::{MAX_SORTS, digits, options, order, strict::Object, too_many_sorts, whole};
use crate::{
    column::ColumnDefinition,
    page::Sort,
    rest::error::ApiError,
    server::PageOptions,
    snapshot::{ExportFormat, Filter, View},
};

/// The query parameters that the routes read. A test compares this list with `openapi.json`.
pub(in crate::rest) const PARAMETERS: [&str; 10] =
    ["columns", "csv_safe", "cursor", "filter", "format", "limit", "link", "offset", "order", "sort"];

/// The known query parameters of a request, as text. Unknown query parameters are ignored, because the authentication
/// can use them.
#[derive(Default)]
pub(in crate::rest) struct Query {
    /// Query parameters and their values, without the parameter `columns`.
    given: Vec<(&'static str, String)>,
    /// All values of the query parameter `columns`, in order.
    columns: Vec<String>,
    /// Name of a query parameter that occurs more than once.
    twice: Option<&'static str>,
}

impl Query {
    pub(in crate::rest) fn read(text: &str) -> Self {
        let mut query = Self::default();
        if text.is_empty() {
            return query;
        }
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let Some(name) = PARAMETERS.into_iter().find(|known| *known == name) else { continue };
            if name == "columns" {
                query.columns.extend(value.split(',').map(str::to_owned));
                continue;
            }
            match query.given.iter_mut().find(|(known, _)| *known == name) {
                Some((_, earlier)) => {
                    query.twice = Some(name);
                    // If the query contains two links, neither link is valid.
                    *earlier = if name == "link" { String::new() } else { value.into_owned() };
                }
                None => query.given.push((name, value.into_owned())),
            }
        }
        query
    }

    /// Returns the token of a signed link.
    pub(in crate::rest) fn link(&self) -> Option<&str> {
        self.get("link")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// Returns the options of `GET /{id}/rows`.
    pub(in crate::rest) fn page(&self) -> Result<PageOptions, ApiError> {
        self.check()?;
        let number = |name: &'static str| {
            self.get(name).map(|text| digits(text).ok_or_else(|| whole(name))).transpose()
        };
        let cursor = self.get("cursor").map(str::to_owned);
        let options = options(number("offset")?, number("limit")?, self.sort()?, cursor)?;
        Ok(options.with_filter(self.filter()?).with_columns(self.columns()?))
    }

    /// Returns the view and the columns that the client wants to export.
    pub(in crate::rest) fn view(&self) -> Result<(View, Vec<String>), ApiError> {
        self.check()?;
        let mut view = View::sorted(self.sort()?);
        view.filter = self.filter()?;
        Ok((view, self.columns()?))
    }

    /// Returns the export format, if the query contains a format.
    pub(in crate::rest) fn format(&self) -> Result<Option<ExportFormat>, ApiError> {
        self.check()?;
        let named = |name: &str| {
            ExportFormat::named(name).ok_or_else(|| {
                ApiError::invalid(format!("`format` must be {}", ExportFormat::one_of(ExportFormat::ALL)))
            })
        };
        self.get("format").map(named).transpose()
    }

    /// Parses the sort columns: `a` with the parameter `order`, or `a,-b`.
    fn sort(&self) -> Result<Vec<Sort>, ApiError> {
        let order = order(self.get("order"))?;
        let Some(text) = self.get("sort") else { return Ok(Vec::new()) };
        if self.get("order").is_some() || !(text.contains(',') || text.starts_with('-')) {
            return Ok(vec![Sort { field: text.to_owned(), order }]);
        }
        let sorts = text.split(',').map(|name| match name.strip_prefix('-') {
            Some(name) => Sort::descending(name),
            None => Sort::ascending(name),
        });
        let sorts: Vec<Sort> = sorts.take(MAX_SORTS + 1).collect();
        if sorts.len() > MAX_SORTS { Err(too_many_sorts()) } else { Ok(sorts) }
    }

    /// Returns the sort if the whole parameter `sort` is the name of one column. So a column name with a comma is not
    /// parsed as a list of columns.
    pub(in crate::rest) fn sort_of(&self, columns: &[ColumnDefinition]) -> Option<Sort> {
        let named = self.get("sort").filter(|text| columns.iter().any(|column| column.name == *text))?;
        Some(Sort { field: named.to_owned(), order: order(self.get("order")).ok()? })
    }

    fn filter(&self) -> Result<Vec<Filter>, ApiError> {
        let Some(text) = self.get("filter") else { return Ok(Vec::new()) };
        let filter: Result<Vec<Object<Filter>>, _> = serde_json::from_str(text);
        let filter = filter.map_err(|error| ApiError::invalid(format!("`filter` is not valid: {error}")))?;
        Ok(filter.into_iter().map(|Object(filter)| filter).collect())
    }

    fn columns(&self) -> Result<Vec<String>, ApiError> {
        if self.columns.iter().any(String::is_empty) {
            return Err(ApiError::invalid(
                "`columns` contains an empty name; separate the names with commas",
            ));
        }
        Ok(self.columns.clone())
    }

    /// Returns whether CSV cells that a spreadsheet would run as a formula are escaped.
    pub(in crate::rest) fn csv_safe(&self) -> Result<bool, ApiError> {
        self.check()?;
        match self.get("csv_safe") {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(ApiError::invalid("`csv_safe` must be `true` or `false`")),
        }
    }

    fn check(&self) -> Result<(), ApiError> {
        match self.twice {
            Some(name) => Err(ApiError::invalid(format!("the parameter `{name}` appears more than once"))),
            None => Ok(()),
        }
    }
}
