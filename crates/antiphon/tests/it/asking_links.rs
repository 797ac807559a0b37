//! Questions to open a web page, in clients without URL elicitation.

use antiphon::{
    ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    task::RetryPolicy,
    testing::{Answers, Failed, Revision},
};
use serde_json::{Value, json};

use crate::{
    asking::{apps, form, view_key},
    checked::{Checked, connect_with},
    tasks::quick,
};

const URL: &str = "https://shop.example/pay?order=4711";

#[derive(Deserialize, JsonSchema)]
struct Desk {
    desk: String,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    url: String,
}

async fn pay(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url("Pay 12 euros", URL).await?;
    Ok(format!("agreed: {}, {:?}", visited.agreed, visited.via()))
}

async fn visit(ctx: &Ctx, Page { url }: Page) -> Result<String> {
    Ok(format!("agreed: {}", ctx.elicit_url("Sign in", url).await?.agreed))
}

/// Asks for a desk and for a payment at the same time.
async fn order(ctx: &Ctx, _: ()) -> Result<String> {
    let (desk, paid) = tokio::join!(ctx.elicit::<Desk>("Which desk?"), ctx.elicit_url("Pay 12 euros", URL));
    Ok(format!("desk {}, agreed: {}", desk?.accepted()?.desk, paid?.agreed))
}

fn builder(policy: AskPolicy) -> ServerBuilder {
    Server::builder("shop", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(policy)
        .tool(Tool::new("pay", "Buys an item", pay))
        .tool(Tool::new("visit", "Opens a page", visit))
        .tool(Tool::new("order", "Orders a desk", order))
}

/// Calls a tool that waits, and returns the ID of its task. The model must not receive the link.
async fn park(client: &mut Checked, tool: &str) -> Result<String> {
    let talk = client.call(tool, json!({})).await?;
    assert!(talk.text().starts_with("NOT FINISHED") && talk.asked.is_empty(), "{}", talk.text());
    assert!(talk.text().contains("asks the user to open a web page"), "{}", talk.text());
    let id = talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned();
    let shown = client.call("task_question", json!({"id": id})).await?;
    let later = client.call("task_result", json!({"id": id, "wait": 0})).await?;
    for result in [talk.result, shown.result, later.result] {
        assert!(!result.to_string().contains("shop.example"), "{result}");
    }
    Ok(id)
}

/// Answers in the form, and returns the text of the result.
async fn answer(client: &mut Checked, id: &str, responses: Value) -> Result<String> {
    let view = view_key(client).await?;
    let open = form(client, "ask_open", json!({"view": view, "id": id})).await?;
    let arguments = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": responses});
    let done = form(client, "ask_answer", arguments).await?;
    assert_eq!(done["status"], "completed", "{done}");
    Ok(client.call("task_result", json!({"id": id})).await?.text())
}

#[tokio::test]
async fn link_waits_for_the_form_and_the_model_does_not_get_it() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    let mut forms_and_apps = apps();
    forms_and_apps["elicitation"] = json!({"form": {}});
    for revision in Revision::BOTH {
        for capabilities in [apps(), forms_and_apps.clone()] {
            for (action, agreed) in [("accept", true), ("decline", false), ("cancel", false)] {
                let mut client = connect_with(&server, revision, capabilities.clone()).await?;
                let id = park(&mut client, "pay").await?;
                let view = view_key(&mut client).await?;
                let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
                let question = json!({"message": "Pay 12 euros", "url": URL, "host": "shop.example"});
                assert_eq!(open["questions"], json!({"url": question}), "{revision:?}");
                let answered = answer(&mut client, &id, json!({"url": {"action": action}})).await?;
                assert_eq!(answered, format!("agreed: {agreed}, App"), "{revision:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn form_asks_for_values_and_for_a_link_at_the_same_time() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, apps()).await?;
        let id = park(&mut client, "order").await?;
        let responses = json!({
            "desk": {"action": "accept", "content": {"desk": "4"}}, "url": {"action": "accept"},
        });
        assert_eq!(answer(&mut client, &id, responses).await?, "desk 4, agreed: true", "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn unsafe_link_is_not_shown() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, apps()).await?;
        for url in [
            "http://shop.example/pay",
            "javascript:alert(1)",
            "data:text/html,pay",
            "https://bank.example@shop.example/",
            "pay",
        ] {
            let talk = client.call("visit", json!({"url": url})).await?;
            let begins = "the link of a question cannot be shown to the user: ";
            assert!(talk.is_error() && talk.text().starts_with(begins), "{url}: {}", talk.text());
            assert!(!talk.text().contains("shop.example"), "{url}: {}", talk.text());
        }
        // A page on the user's machine is safe without TLS.
        let talk = client.call("visit", json!({"url": "http://127.0.0.1:8000/sign-in"})).await?;
        assert!(talk.text().starts_with("NOT FINISHED"), "{}", talk.text());
    }
    Ok(())
}

#[tokio::test]
async fn client_with_url_elicitation_opens_the_link_itself() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    let mut capabilities = apps();
    capabilities["elicitation"] = json!({"form": {}, "url": {}});
    for revision in Revision::BOTH {
        let answers = Answers::new().raw("url", json!({"action": "accept"}));
        let mut client = connect_with(&server, revision, capabilities.clone()).await?.answering(answers);
        let talk = client.call("pay", json!({})).await?;
        let expected = ("agreed: true, Client", vec!["url"]);
        assert_eq!((talk.text().as_str(), talk.keys()), expected, "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn client_that_shows_no_links_gets_an_error_if_there_is_no_other_channel() -> Result<()> {
    let server = builder(AskPolicy::default().with_relay(true)).build()?;
    for capabilities in [json!({}), json!({"elicitation": {"form": {}}})] {
        let mut client = connect_with(&server, Revision::V2025_11_25, capabilities.clone()).await?;
        let talk = client.call("pay", json!({})).await?;
        assert!(talk.is_error() && talk.text().starts_with("URL elicitation mode"), "{}", talk.text());
        let mut client = connect_with(&server, Revision::V2026_07_28, capabilities).await?;
        let error = client.call("pay", json!({})).await.unwrap_err();
        let failed = error.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap();
        assert_eq!(failed.code, -32021, "{failed}");
    }
    Ok(())
}

#[cfg(feature = "http")]
mod on_the_page {
    use antiphon::{elicitation::AskPage, http::HttpConfig};
    use axum::{Router, body::Body};
    use http::{Request, StatusCode, header};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post_with;

    const BASE: &str = "https://mcp.example.com";

    /// Calls a tool as a client that declares `capabilities`.
    async fn call(app: &Router, capabilities: Value, tool: &str, arguments: Value) -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let request = post_with(Revision::V2026_07_28, "tools/call", params, capabilities);
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        Ok(answer["result"].clone())
    }

    /// Submits a form of the page. Returns the status, the cookie and the body of the response.
    async fn post(app: &Router, path: &str, cookie: &str, body: String) -> (StatusCode, String, String) {
        let request = Request::post(path)
            .header("host", "mcp.example.com")
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("cookie", cookie);
        let response = app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let cookie = parts.headers.get(header::SET_COOKIE).map(|cookie| cookie.to_str().unwrap());
        let cookie = cookie.unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        (parts.status, cookie, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn link_is_on_the_page_and_not_in_the_conversation() -> Result<()> {
        let policy = AskPolicy::default().with_page(AskPage::at(BASE));
        let app = builder(policy).build()?.router(HttpConfig::default());
        // A client that shows forms cannot show links, either.
        for capabilities in [json!({}), json!({"elicitation": {"form": {}}})] {
            for (action, expected) in [("accept", "agreed: true, Page"), ("decline", "agreed: false, Page")] {
                let waiting = call(&app, capabilities.clone(), "pay", json!({})).await?;
                assert!(!waiting.to_string().contains("shop.example"), "{waiting}");
                let about = waiting["structuredContent"]["about"].as_str().unwrap();
                let (_, path) = about.split_once(&format!("Show the user this link: {BASE}")).unwrap();
                let path = path.split_whitespace().next().unwrap();
                let (status, cookie, page) = post(&app, &format!("{path}/open"), "", String::new()).await;
                assert_eq!(status, StatusCode::OK, "{page}");
                let link = format!("<a class=\"main\" href=\"{URL}\" target=\"_blank\"");
                assert!(page.contains(&link) && page.contains("<strong>shop.example</strong>"), "{page}");
                let (_, token) = page.split_once("name=\"form\" value=\"").unwrap();
                let token = token.split('"').next().unwrap();
                let body = format!("form={token}&action={action}");
                let (status, _, page) = post(&app, path, &cookie, body).await;
                assert_eq!(status, StatusCode::SEE_OTHER, "{page}");
                let id = &waiting["structuredContent"]["task"]["id"];
                let result = call(&app, capabilities.clone(), "task_result", json!({"id": id})).await?;
                assert_eq!(result["content"][0]["text"], expected);
            }
        }
        Ok(())
    }
}
