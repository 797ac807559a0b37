//! Repeats a request until the request is complete: answers the questions of each round, and opens required web pages.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Answer, Connection, Options, parse};
use crate::{
    error::{Error, Result},
    event::{Round, trace_in},
    form::BoxFuture,
    page::{PAGES_REQUIRED, Page},
};

/// The maximum number of times that web pages are opened for one request. If the server still requires the pages after
/// this number of visits, further visits do not help.
const VISITS: u32 = 3;

/// The error code for a request whose headers contradict its body. If a server responds with this error code, the
/// server did not execute the request.
const HEADER_MISMATCH: i32 = -32020;

impl Connection {
    /// Sends a request, and answers the questions of the server until the request is complete.
    pub(super) async fn converse<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
        options: &Options,
    ) -> Result<T> {
        parse(method, self.conclude(method, params, options).await?.value)
    }

    /// Works like `converse`, but returns the raw response, because the response of a tool can be a task.
    pub(crate) fn conclude<'a>(
        &'a self,
        method: &'a str,
        params: Value,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(self.conclude_with_visits(method, params, options))
    }

    async fn conclude_with_visits(&self, method: &str, params: Value, options: &Options) -> Result<Answer> {
        let mut visits = 0;
        loop {
            match self.rounds(method, &params, options).await {
                Err(Error::Server { code: PAGES_REQUIRED, data, .. }) => {
                    let pages = pages_in(data.as_ref());
                    visits += 1;
                    if visits > VISITS || !self.visit(&pages).await {
                        return Err(Error::PagesRequired(pages));
                    }
                }
                answered => return answered,
            }
        }
    }

    async fn rounds(&self, method: &str, params: &Value, options: &Options) -> Result<Answer> {
        let limits = &self.inner.limits;
        let mut retry = params.clone();
        let mut empty_rounds = 0;
        for number in 1..=limits.rounds {
            let mut answer = self.send_with_headers(method, retry, options).await?;
            if let Some(listener) = &options.rounds {
                let asks = answer.value["inputRequests"].as_object().into_iter().flatten();
                let asks = asks.map(|(key, _)| key.clone()).collect();
                listener(Round { number, asks, trace: trace_in(&answer.value) });
            }
            let result = &mut answer.value;
            if result["resultType"] != "input_required" {
                return Ok(answer);
            }
            let requests = match result["inputRequests"].take() {
                Value::Object(requests) => requests,
                _ => Map::new(),
            };
            let state = result.get("requestState").filter(|state| state.is_string());
            if requests.is_empty() && state.is_none() {
                return Err(Error::Malformed {
                    method: method.to_owned(),
                    problem:
                        "the result is `input_required`, but has neither `inputRequests` nor `requestState`"
                            .into(),
                });
            }
            retry = params.clone();
            if let Some(state) = state {
                retry["requestState"] = state.clone();
            }
            if requests.is_empty() {
                // The server has asked no question and only requests a retry. Wait before the retry, so that the two
                // programs do not exchange requests in a busy loop.
                let wait = Duration::from_millis(50 << empty_rounds.min(3)).min(Duration::from_millis(250));
                empty_rounds += 1;
                tokio::time::sleep(wait).await;
                continue;
            }
            empty_rounds = 0;
            retry["inputResponses"] = Value::Object(self.answer_all(requests).await?);
        }
        Err(Error::Rounds(limits.rounds))
    }

    /// Sends a request. If required, the transport repeats some arguments in HTTP headers. The schema of a tool defines
    /// which arguments the transport repeats in headers. The transport has the schema of a tool only if the transport
    /// was used to list the tool.
    pub(crate) async fn send_with_headers(
        &self,
        method: &str,
        params: Value,
        options: &Options,
    ) -> Result<Answer> {
        let again = (method == "tools/call").then(|| params.clone());
        match (self.ask(method, params, options).await, again) {
            (Err(Error::Server { code: HEADER_MISMATCH, .. }), Some(params)) => {
                self.tools().await?;
                self.ask(method, params, options).await
            }
            (answered, _) => answered,
        }
    }

    /// Answers the questions of a round. The host answers several questions of a round at the same time.
    async fn answer_all(&self, requests: Map<String, Value>) -> Result<Map<String, Value>> {
        let answering = &self.inner.answering;
        let answers = requests.into_iter().map(|(key, request)| async move {
            let method = request["method"].as_str().unwrap_or_default();
            let answer = answering.answer(method, &request["params"], Some(&key)).await;
            (key, answer)
        });
        let mut answers = stream::iter(answers).buffer_unordered(self.inner.limits.concurrent_asks.max(1));
        let mut given = Map::new();
        while let Some((key, answer)) = answers.next().await {
            given.insert(key, answer.map_err(refused)?);
        }
        Ok(given)
    }

    /// Opens web pages for the user, and waits until the server reports the end of each visit. Returns `true` if the
    /// user agreed to all visits and the server reported the end of all visits.
    async fn visit(&self, pages: &[Page]) -> bool {
        let answering = &self.inner.answering;
        let Some(handler) = answering.pages.as_ref().filter(|_| !pages.is_empty()) else { return false };
        for page in pages {
            let over = page.elicitation_id.as_ref().map(|id| answering.visits.begin(id));
            if !handler.open(page.clone()).await {
                if let Some(id) = &page.elicitation_id {
                    answering.visits.forget(id);
                }
                return false;
            }
            let Some(mut over) = over else { continue };
            let waited =
                tokio::time::timeout(self.inner.limits.page_timeout, over.wait_for(|over| *over)).await;
            if !matches!(waited, Ok(Ok(_))) {
                return false;
            }
        }
        true
    }
}

/// Converts an error that a handler returned instead of an answer. The answers of a round cannot contain errors, so the
/// error ends the call.
fn refused(error: ErrorData) -> Error {
    Error::Server { code: error.code.0, message: error.message.into_owned(), data: error.data }
}

fn pages_in(data: Option<&Value>) -> Vec<Page> {
    let pages = data.and_then(|data| data["elicitations"].as_array()).into_iter().flatten();
    pages.filter_map(Page::read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_are_read_from_the_errors_data() {
        let data = json!({"elicitations": [
            {"mode": "url", "message": "Sign in", "url": "https://example.com/auth", "elicitationId": "1"},
            {"mode": "form", "message": "not a page"},
        ]});
        let pages = pages_in(Some(&data));
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].elicitation_id.as_deref(), Some("1"));
    }
}
