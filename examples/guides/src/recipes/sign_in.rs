//! A sign-in at an OAuth page.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

/// A placeholder for a table of tokens, by elicitation ID. With several replicas, use a database.
#[derive(Clone, Default)]
struct SignIns(Arc<Mutex<BTreeMap<String, watch::Sender<bool>>>>);

impl SignIns {
    fn open(&self, id: &str) -> watch::Receiver<bool> {
        let mut sign_ins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sign_ins.entry(id.to_owned()).or_insert_with(|| watch::channel(false).0).subscribe()
    }

    async fn wait(&self, id: &str) -> Result<()> {
        self.open(id).wait_for(|is_signed_in| *is_signed_in).await?;
        Ok(())
    }

    /// Exchanges the code for a token, and stores the token.
    async fn store(&self, id: &str, _code: &str) {
        tokio::task::yield_now().await;
        let mut sign_ins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sign_ins.entry(id.to_owned()).or_insert_with(|| watch::channel(false).0).send_replace(true);
    }

    async fn repositories(&self, _id: &str) -> Result<Vec<String>> {
        tokio::task::yield_now().await;
        Ok(vec!["atlas".into(), "hermes".into()])
    }
}

// ANCHOR: recipe
use antiphon::prelude::*;
use url::Url;

async fn repositories(ctx: &Ctx, State(sign_ins): State<SignIns>, _: ()) -> Result<String> {
    let visit = ctx.elicit_url_with("Sign in to the forge", authorize_url);
    let id = visit.id();
    if !visit.await?.agreed {
        return Ok("You did not sign in.".into());
    }
    // The step does not return the token, because the journal contains the results of steps.
    ctx.step("sign in", || sign_ins.wait(&id)).await?;
    let names = ctx.step("list", || sign_ins.repositories(&id)).await?;
    Ok(names.join(", "))
}

/// The page of the authorization server. Its `state` is the elicitation's ID.
fn authorize_url(id: &str) -> String {
    let query = [("response_type", "code"), ("client_id", "my-client"), ("state", id)];
    Url::parse_with_params("https://forge.example/authorize", query).map(String::from).unwrap_or_default()
}

/// Call this in the route of your redirect URI, with the `state` and the `code` of the request.
async fn signed_in(server: &Server, sign_ins: &SignIns, state: String, code: &str) {
    sign_ins.store(&state, code).await; // first: the tool continues at once
    server.elicitation_complete(state);
}
// ANCHOR_END: recipe

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn tool_continues_after_the_sign_in() -> Result<()> {
        for revision in Revision::BOTH {
            let sign_ins = SignIns::default();
            let tool = Tool::new("repositories", "Lists your repositories", repositories);
            let server = Server::builder("forge", "1.0.0").with_state(sign_ins.clone()).tool(tool).build()?;
            let page = server.clone();
            let answers = Answers::new().otherwise(move |question| {
                let url = Url::parse(question.params["url"].as_str()?).ok()?;
                let state = url.query_pairs().find(|(name, _)| name == "state")?.1.into_owned();
                let (page, sign_ins) = (page.clone(), sign_ins.clone());
                tokio::spawn(async move { signed_in(&page, &sign_ins, state, "code").await });
                Some(json!({"action": "accept"}))
            });
            let mut client = Client::connect(&server, revision).await?.with_answers(answers);
            assert_eq!(client.call("repositories", json!({})).await?.text(), "atlas, hermes");
        }
        Ok(())
    }
}
