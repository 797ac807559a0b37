//! A test client that behaves like a host.

use std::time::Duration;

use antiphon::{
    prelude::*,
    testing::{Answers, Client, HostProfile, Revision},
};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Desk {
    desk: String,
}

#[derive(Deserialize, JsonSchema)]
struct Floor {
    floor: u32,
}

async fn desk(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Desk>("Which desk?").await?.accepted()?.desk)
}

async fn floor(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Floor>("Which floor?").await?.accepted()?.floor.to_string())
}

fn server() -> Server {
    Server::builder("desks", "1.0.0")
        .tool(Tool::new("desk", "Asks for a desk", desk))
        .tool(Tool::new("floor", "Asks for a floor", floor))
        .build()
        .unwrap()
}

fn answers() -> Answers {
    Answers::new().accept("desk", json!({"desk": "4"})).accept("floor", json!({"floor": 2}))
}

#[tokio::test]
async fn host_that_shows_forms_uses_the_scripted_answers() -> Result<()> {
    for revision in Revision::BOTH {
        for host in [HostProfile::VsCode, HostProfile::Cursor, HostProfile::Goose, HostProfile::Generic] {
            let mut client = Client::connect_as(&server(), revision, host).await?.with_answers(answers());
            assert_eq!(client.call("floor", json!({})).await?.text(), "2", "{host:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn host_that_does_not_show_a_form_ignores_the_scripted_answers() -> Result<()> {
    for revision in Revision::BOTH {
        for host in [HostProfile::Declining, HostProfile::AcceptingEmpty] {
            let mut client = Client::connect_as(&server(), revision, host).await?.with_answers(answers());
            let talk = client.call("desk", json!({})).await?;
            assert!(talk.is_error() && !talk.asked.is_empty(), "{host:?}: {}", talk.text());
        }
        let codex = Client::connect_as(&server(), revision, HostProfile::Codex).await?;
        let mut codex = codex.with_answers(answers());
        assert_eq!(codex.call("desk", json!({})).await?.text(), "4");
        assert!(codex.call("floor", json!({})).await?.is_error());
    }
    Ok(())
}

#[tokio::test]
async fn host_that_does_not_answer_cancels_the_call_after_its_limit() -> Result<()> {
    for revision in Revision::BOTH {
        let client = Client::connect_as(&server(), revision, HostProfile::Hanging).await?;
        let mut client = client.with_answers(answers()).with_limit(Duration::from_millis(200));
        client.call("desk", json!({})).await.unwrap_err();
    }
    Ok(())
}

#[tokio::test]
async fn host_without_forms_is_not_asked() -> Result<()> {
    let mut client = Client::connect_as(&server(), Revision::V2025_11_25, HostProfile::Zed).await?;
    let talk = client.call("desk", json!({})).await?;
    assert!(talk.is_error() && talk.asked.is_empty(), "{}", talk.text());
    Ok(())
}
