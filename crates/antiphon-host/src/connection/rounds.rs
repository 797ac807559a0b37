//! Drives a request to its end: rounds of questions, and pages to visit first.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Answer, Connection, Options, parse};
use crate::{
    error::{Error, Result},
    event::{Round, trace_in},
    page::{PAGES_REQUIRED, Page},
};

/// How often pages are visited for one request: a server that wants them again and again is not
/// going to be satisfied.
const VISITS: u32 = 3;

/// The error code of a request whose headers do not say what its body says. It was not carried out.
const HEADER_MISMATCH: i32 = -32020;

impl Connection {
    /// Makes a request and answers what it asks until it is done.
    pub(super) async fn converse<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
        options: &Options,
    ) -> Result<T> {
        parse(method, self.conclude(method, params, options).await?.value)
    }

    /// The same, and the answer as it is: that of a tool may be a task.
    pub(crate) async fn conclude(&self, method: &str, params: Value, options: &Options) -> Result<Answer> {
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
                    problem: "the server wants input, and says neither which nor from where to go on".into(),
                });
            }
            retry = params.clone();
            if let Some(state) = state {
                retry["requestState"] = state.clone();
            }
            if requests.is_empty() {
                // It only wants to be asked again. Not at once, or two programs talk each other hot.
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

    /// Makes a request whose arguments may have to travel in headers as well. Which do is in the
    /// tool's schema, and the transport knows those of tools that were listed over it.
    async fn send_with_headers(&self, method: &str, params: Value, options: &Options) -> Result<Answer> {
        let again = (method == "tools/call").then(|| params.clone());
        match (self.ask(method, params, options).await, again) {
            (Err(Error::Server { code: HEADER_MISMATCH, .. }), Some(params)) => {
                self.tools().await?;
                self.ask(method, params, options).await
            }
            (answered, _) => answered,
        }
    }

    /// Answers the questions of a round, several at a time.
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

    /// Sends the person to pages, and waits until the server says that the visits are over. Says
    /// whether they agreed to go and it did.
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

/// There are no errors among the answers of a round: what cannot be answered ends the call.
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
