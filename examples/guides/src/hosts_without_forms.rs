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

// ANCHOR: loopback
fn on_the_machine_of_the_user() -> AskPolicy {
    AskPolicy::default().with_page(AskPage::loopback().open_browser(true))
}
// ANCHOR_END: loopback

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
    use antiphon::{auth::Issuer, testing::Answers};

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

    #[test]
    fn servers_with_a_page_are_valid() -> Result<()> {
        let auth = Auth::builder("https://mcp.example.com/mcp");
        let auth = auth.with_issuer(Issuer::new("https://login.example.com")).build()?;
        onboarding_with_a_page(auth).build()?;
        onboarding().with_asking(on_the_machine_of_the_user()).build()?;
        Ok(())
    }
}
