//! The code of `docs/guides/hosts-without-forms.md`.

// ANCHOR: server
use antiphon::{ServerBuilder, elicitation::AskPolicy, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Onboard {
    /// The name of the new colleague.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Which desk?
    desk: String,
}

async fn onboard(ctx: &Ctx, Onboard { name }: Onboard) -> Result<String> {
    let Approval { desk } = ctx.elicit(format!("May {name} start?")).await?.accepted()?;
    Ok(format!("{name} has desk {desk}"))
}

fn onboarding() -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_asking(AskPolicy::default()) // this line is new
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
}
// ANCHOR_END: server

// ANCHOR: page
use antiphon::{auth::Auth, elicitation::AskPage};

/// The user of a browser session. The middleware of your application adds this value to the request.
#[derive(Clone)]
struct User {
    principal: String,
}

fn onboarding_with_a_page(auth: Auth) -> ServerBuilder {
    // The address is the public address of the server.
    let page = AskPage::at("https://mcp.example.com")
        .with_visitor(|parts| parts.extensions.get::<User>().map(|user| user.principal.clone()));
    Server::builder("onboarding", "1.0.0")
        .with_auth(auth)
        .with_asking(AskPolicy::default().with_page(page))
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
}
// ANCHOR_END: page

// ANCHOR: sign_in
use antiphon::auth::{Issuer, OpenIdConnect};

fn onboarding_with_sign_in(client_secret: &str) -> Result<ServerBuilder> {
    let issuer = "https://login.example.com";
    // MCP callers send tokens of the issuer. Visitors of the page sign in there.
    let auth = Auth::builder("https://mcp.example.com/mcp").with_issuer(Issuer::new(issuer)).build()?;
    let sign_in = OpenIdConnect::new(issuer, "onboarding-page", client_secret);
    let page = AskPage::at("https://mcp.example.com").with_sign_in(sign_in);
    Ok(Server::builder("onboarding", "1.0.0")
        .with_auth(auth)
        .with_asking(AskPolicy::default().with_page(page))
        .tool(Tool::new("onboard", "Takes on a colleague", onboard)))
}
// ANCHOR_END: sign_in

// ANCHOR: loopback
fn on_the_machine_of_the_user() -> AskPolicy {
    AskPolicy::default().with_page(AskPage::loopback().open_browser(true))
}
// ANCHOR_END: loopback

// ANCHOR: relay
use antiphon::elicitation::Channel;

#[derive(Deserialize, JsonSchema)]
struct Shirt {
    /// Which size?
    size: String,
}

async fn order_shirt(ctx: &Ctx, _: ()) -> Result<String> {
    let shirt = ctx.elicit::<Shirt>("Which shirt do you want?").relayed().await?.into_answer()?;
    let note = if shirt.via() == Channel::Relay { ", not confirmed" } else { "" };
    Ok(format!("ordered a shirt of size {}{note}", shirt.value.size))
}

fn shop() -> ServerBuilder {
    Server::builder("shop", "1.0.0").with_asking(AskPolicy::default().with_relay(true)).tool(Tool::new(
        "order_shirt",
        "Orders a shirt",
        order_shirt,
    ))
}
// ANCHOR_END: relay

// ANCHOR: policy
use std::time::Duration;

fn policy() -> AskPolicy {
    AskPolicy::default()
        .with_expiry(Duration::from_secs(8 * 3600)) // a question stays open for a working day
        .with_hand_over_after(Duration::from_secs(30)) // a host of ours gives up after 40 seconds
}
// ANCHOR_END: policy

// ANCHOR: test
use antiphon::testing::{Client, Revision};
use serde_json::json;

async fn run_waits_for_the_form(server: &Server) -> Result<()> {
    let apps =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    for revision in Revision::BOTH {
        let mut client = Client::connect_with(server, revision, apps.clone()).await?;
        let waiting = client.call("onboard", json!({"name": "Grace"})).await?;
        assert!(!waiting.is_error() && waiting.text().starts_with("NOT FINISHED"), "{}", waiting.text());
        assert!(waiting.asked.is_empty(), "the client was not asked");

        let task = &waiting.result["structuredContent"]["task"];
        assert_eq!(task["status"], "input_required");
        let cancelled = client.call("task_cancel", json!({"id": task["id"]})).await?;
        assert!(!cancelled.is_error(), "{}", cancelled.text());
    }
    Ok(())
}
// ANCHOR_END: test

#[cfg(test)]
mod tests {
    use antiphon::testing::Answers;

    use super::*;

    #[tokio::test]
    async fn run_waits_for_the_form_in_hosts_without_forms() -> Result<()> {
        run_waits_for_the_form(&onboarding().build()?).await
    }

    #[tokio::test]
    async fn client_with_forms_is_asked_as_before() -> Result<()> {
        let server = Server::builder("onboarding", "1.0.0")
            .with_asking(policy())
            .tool(Tool::new("onboard", "Takes on a colleague", onboard))
            .build()?;
        for revision in Revision::BOTH {
            let answers = Answers::new().accept("approval", json!({"desk": "4"}));
            let mut client = Client::connect(&server, revision).await?.with_answers(answers);
            let talk = client.call("onboard", json!({"name": "Grace"})).await?;
            assert_eq!(talk.text(), "Grace has desk 4");
        }
        Ok(())
    }

    #[tokio::test]
    async fn model_relays_an_answer() -> Result<()> {
        let server = shop().build()?;
        for revision in Revision::BOTH {
            let mut client = Client::connect_with(&server, revision, json!({})).await?;
            let waiting = client.call("order_shirt", json!({})).await?;
            let id = &waiting.result["structuredContent"]["task"]["id"];
            let answers = json!({"shirt": {"action": "accept", "content": {"size": "M"}}});
            let done = client.call("task_answer", json!({"id": id, "answers": answers})).await?;
            assert_eq!(done.text(), "ordered a shirt of size M, not confirmed");
        }
        Ok(())
    }

    #[test]
    fn servers_with_a_page_are_valid() -> Result<()> {
        let auth = Auth::builder("https://mcp.example.com/mcp");
        let auth = auth.with_issuer(Issuer::new("https://login.example.com")).build()?;
        onboarding_with_a_page(auth).build()?;
        onboarding_with_sign_in("from the environment")?.build()?;
        onboarding().with_asking(on_the_machine_of_the_user()).build()?;
        Ok(())
    }
}
