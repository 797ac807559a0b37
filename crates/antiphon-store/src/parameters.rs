//! Parameters of backend URLs.

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::error::{Error, Result};

/// The parameters in the query of a URL. Each engine removes its own parameters from a `Parameters`.
pub(crate) struct Parameters {
    base: String,
    fragment: String,
    /// The names of the parameters, and their values as written in the URL.
    pairs: Vec<(String, String)>,
}

impl Parameters {
    pub(crate) fn of(url: &str) -> Self {
        let (url, fragment) = match url.split_once('#') {
            Some((url, fragment)) => (url, format!("#{fragment}")),
            None => (url, String::new()),
        };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        Self { base: base.to_owned(), fragment, pairs }
    }

    /// Removes all parameters with the name `name`, and returns their values.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        self.pairs.extract_if(.., |(found, _)| found == name).map(|(_, value)| decoded(&value)).collect()
    }

    /// Removes the parameter `name`, and returns its value. If `name` occurs several times, returns the last value.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.all(name).pop()
    }

    /// Parses and returns the value of the parameter `name`.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>> {
        let parse = |text: String| {
            text.parse()
                .map_err(|error| problem(format!("the parameter `{name}` of the URL is not valid: {error}")))
        };
        self.text(name).map(parse).transpose()
    }

    /// Returns the value of the parameter `name` as a duration. The value in the URL is a number of seconds.
    pub(crate) fn seconds(&mut self, name: &str) -> Result<Option<Duration>> {
        let duration = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|error| {
                problem(format!("the parameter `{name}` of the URL is not a number of seconds: {error}"))
            })
        };
        self.parsed(name)?.map(duration).transpose()
    }

    /// Reads the file whose path is the value of the parameter `name`.
    #[cfg(any(test, feature = "nats", all(feature = "redis", feature = "tls")))]
    pub(crate) fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let read = |path: String| {
            std::fs::read(&path)
                .map_err(|error| problem(format!("`{path}` (parameter `{name}` of the URL): {error}")))
        };
        self.text(name).map(read).transpose()
    }

    /// Reads the certificate and the private key of the client, if the URL names both files.
    #[cfg(any(feature = "nats", all(feature = "redis", feature = "tls")))]
    pub(crate) fn client_certificate(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match (self.file("sslcert")?, self.file("sslkey")?) {
            (Some(pem), Some(key)) => Ok(Some((pem, key))),
            (None, None) => Ok(None),
            _ => Err(problem(
                "the URL has only one of the parameters `sslcert` and `sslkey`; add the other".into(),
            )),
        }
    }

    /// Returns the URL with the parameters that were not removed.
    pub(crate) fn url(&self) -> String {
        let rest: Vec<_> = self.pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if rest.is_empty() { "" } else { "?" };
        format!("{}{mark}{}{}", self.base, rest.join("&"), self.fragment)
    }

    /// Returns an error if the URL still has a parameter that is not in `allowed`. The error contains the text `known`.
    #[cfg(any(feature = "nats", feature = "redis"))]
    pub(crate) fn reject_others(&self, allowed: &[&str], known: &str) -> Result<()> {
        let Some((name, _)) = self.pairs.iter().find(|(name, _)| !allowed.contains(&name.as_str())) else {
            return Ok(());
        };
        // A password that contains `?` and is not percent-encoded ends up here, and must not be shown.
        if name.bytes().any(|byte| !byte.is_ascii_lowercase() && byte != b'_') {
            return Err(problem(format!(
                "the URL has a parameter that is not valid; use {known}, and write `?` in a password as `%3F`"
            )));
        }
        Err(problem(format!("the parameter `{name}` of the URL is unknown; use one of: {known}")))
    }
}

fn problem(problem: String) -> Error {
    Error::Config { problem }
}

/// Decodes the percent-encoded bytes of a text. All other bytes stay unchanged.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(value) = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(value);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Error, Parameters, decoded};

    #[test]
    fn taken_parameters_leave_the_url() {
        let mut found = Parameters::of("redis://h/0?protocol=resp3&node=a%3A1&timeout=1.5&node=b:2#insecure");
        assert_eq!(found.all("node"), ["a:1", "b:2"]);
        assert_eq!(found.seconds("timeout").unwrap(), Some(Duration::from_millis(1500)));
        assert_eq!(found.parsed::<u16>("buckets").unwrap(), None);
        assert_eq!(found.url(), "redis://h/0?protocol=resp3#insecure");
        let unchanged = "postgres://u:p%40@h/db";
        assert_eq!(Parameters::of(unchanged).url(), unchanged);
    }

    #[test]
    fn values_that_are_not_valid_are_named() {
        let mut found = Parameters::of("nats://h?replicas=many&timeout=-1&sslcert=/no/such/file");
        for error in [
            found.parsed::<usize>("replicas").unwrap_err(),
            found.seconds("timeout").unwrap_err(),
            found.file("sslcert").unwrap_err(),
        ] {
            assert!(matches!(&error, Error::Config { problem } if problem.contains("of the URL")), "{error}");
        }
    }

    #[test]
    fn text_that_is_not_percent_encoded_stays() {
        assert_eq!(decoded("%zz%4"), "%zz%4");
        assert_eq!(decoded("p%3Aw"), "p:w");
    }
}
