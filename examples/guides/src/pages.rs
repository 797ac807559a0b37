//! What `docs/guides/url-elicitation.md` shows beside `examples/payment_page`.

use antiphon::{Server, elicitation::UrlElicitation, prelude::*};

/// The tokens of users. A real one is a table in a database.
struct Tokens(tokio::sync::RwLock<std::collections::BTreeMap<String, String>>);

impl Tokens {
    async fn of(&self, user: &str) -> Option<String> {
        self.0.read().await.get(user).cloned()
    }

    async fn store(&self, user: &str, token: String) {
        self.0.write().await.insert(user.to_owned(), token);
    }
}

// ANCHOR: required
async fn repositories(ctx: &Ctx, _: ()) -> Result<String> {
    let user = ctx.principal().unwrap_or("anonymous");
    let Some(token) = ctx.state::<Tokens>()?.of(user).await else {
        // You choose the ID. Use one that cannot be guessed, and store its user.
        let id = "3f1c0e6a-sign-in";
        let url = format!("https://app.example/authorize?state={id}");
        return Err(Error::url_elicitation_required([UrlElicitation::new(id, url, "Sign in to the forge")]));
    };
    Ok(format!("repositories, read with a token of {} bytes", token.len()))
}
// ANCHOR_END: required

// ANCHOR: callback
async fn callback(server: &Server, tokens: &Tokens, user: &str, state: String, token: String) {
    tokens.store(user, token).await;
    server.elicitation_complete(state);
}
// ANCHOR_END: callback
