//! A client for the operator routes of a server.

use anyhow::{Context as _, Result, bail};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;

use crate::exit::Unreachable;

pub(super) struct Endpoint {
    client: Client,
    base: String,
    token: String,
}

impl Endpoint {
    pub(super) fn new(url: &str, token: Option<String>) -> Result<Self> {
        let token =
            token.context("the operator token is missing; set ANTIPHON_OPERATORS_TOKEN, or pass --token")?;
        Ok(Self { client: Client::new(), base: url.trim_end_matches('/').to_owned(), token })
    }

    pub(super) async fn list(
        &self,
        status: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Value> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(status.map(|status| ("status", status.to_owned())));
        query.extend(after.map(|after| ("after", after.to_owned())));
        let request = self.request(Method::GET, "runs").query(&query);
        self.send(request).await?.context("the server has no operator routes at this address")
    }

    pub(super) async fn inspect(&self, run: &str) -> Result<Option<Value>> {
        self.send(self.request(Method::GET, &format!("runs/{run}"))).await
    }

    /// Requests the operator action `what`, such as a retry, for the run `run`. Returns the result of the action.
    /// Returns `None` if the run `run` does not exist.
    pub(super) async fn change(&self, run: &str, what: &str) -> Result<Option<String>> {
        let answer = self.send(self.request(Method::POST, &format!("runs/{run}/{what}"))).await?;
        Ok(answer.as_ref().map(result))
    }

    pub(super) async fn purge(&self, run: &str) -> Result<Option<String>> {
        Ok(self.send(self.request(Method::DELETE, &format!("runs/{run}"))).await?.as_ref().map(result))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/{path}", self.base)).bearer_auth(&self.token)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Option<Value>> {
        let response = request.send().await.map_err(|error| {
            let Self { base, .. } = self;
            let problem = anyhow::Error::from(error.without_url());
            Unreachable(format!(
                "{base} cannot be reached: {problem:#}; check that the operator routes are at this address"
            ))
        })?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED => Err(Unreachable("the server rejected the token".into()).into()),
            status if status.is_success() => {
                Ok(Some(response.json().await.context("the server's response is not JSON")?))
            }
            status => {
                let said = response.json::<Value>().await.unwrap_or_default();
                bail!(
                    "{}",
                    said["error"]
                        .as_str()
                        .map_or_else(|| format!("the server returned {status}"), ToOwned::to_owned)
                )
            }
        }
    }
}

fn result(answer: &Value) -> String {
    answer["result"].as_str().unwrap_or_default().to_owned()
}
