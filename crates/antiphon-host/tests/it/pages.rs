//! Pages to visit: by elicitation, and before a call (`-32042`).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon::{elicitation::UrlElicitation, prelude::*};
use antiphon_host::{Error as HostError, Host, HostLimits, Lifecycle, Page};
use serde_json::json;

use crate::support::{BOTH, endpoint};

#[tokio::test]
async fn a_page_is_opened_if_the_person_agrees() {
    async fn sign_in(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(format!("agreed: {}", ctx.elicit_url("Sign in", "https://example.com/auth").await?.agreed))
    }
    let server = Server::builder("s", "1").tool(Tool::new("sign_in", "Signs in", sign_in)).build().unwrap();
    for lifecycle in BOTH {
        for agrees in [true, false] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let pages = Arc::clone(&seen);
            let host = Host::builder("h", "1")
                .with_lifecycle(lifecycle)
                .with_pages(move |page: Page| {
                    pages.lock().unwrap().push(page.url);
                    std::future::ready(agrees)
                })
                .build();
            let connection = host.connect(endpoint(&server)).await.unwrap();
            let result = connection.call("sign_in", json!({})).await.unwrap();
            assert_eq!(result.content[0].as_text().unwrap().text, format!("agreed: {agrees}"));
            assert_eq!(*seen.lock().unwrap(), ["https://example.com/auth"]);
        }
    }
}

/// Wants a page visited before it works; the visit is over when the tool `finish` is called.
fn guarded() -> Server {
    async fn guarded(ctx: &Ctx, _: ()) -> Result<String> {
        if ctx.state::<Arc<AtomicBool>>()?.load(Ordering::SeqCst) {
            return Ok("come in".into());
        }
        let page =
            UrlElicitation::new("test-elicitation-123", "https://example.com/auth", "Authorization required");
        Err(Error::url_elicitation_required([page]))
    }
    async fn finish(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.state::<Arc<AtomicBool>>()?.store(true, Ordering::SeqCst);
        ctx.elicitation_complete("unknown");
        ctx.elicitation_complete("test-elicitation-123");
        Ok("done".into())
    }
    Server::builder("s", "1")
        .with_state(Arc::new(AtomicBool::new(false)))
        .tool(Tool::new("guarded", "Is guarded", guarded))
        .tool(Tool::new("finish", "Ends the visit", finish))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_call_that_wants_a_page_first_is_made_again_when_the_visit_is_over() {
    let connection = Arc::new(tokio::sync::OnceCell::<antiphon_host::Connection>::new());
    let calling = Arc::clone(&connection);
    let host = Host::builder("h", "1")
        .with_lifecycle(Lifecycle::Legacy)
        .with_pages(move |page: Page| {
            assert_eq!(page.message, "Authorization required");
            assert_eq!(page.elicitation_id.as_deref(), Some("test-elicitation-123"));
            let calling = Arc::clone(&calling);
            // The page, in another window: when the person is done, the server hears of it.
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                calling.get().unwrap().call("finish", json!({})).await.unwrap();
            });
            std::future::ready(true)
        })
        .build();
    let connected = host.connect(endpoint(&guarded())).await.unwrap();
    connection.set(connected.clone()).unwrap();
    let result = connected.call("guarded", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, "come in");
}

#[tokio::test]
async fn a_person_who_will_not_go_is_told_what_was_wanted() {
    for (agrees, limits) in [
        (false, HostLimits::default()),
        (true, HostLimits::default().with_page_timeout(Duration::from_millis(20))),
    ] {
        let host = Host::builder("h", "1")
            .with_lifecycle(Lifecycle::Legacy)
            .with_limits(limits)
            .with_pages(move |_: Page| std::future::ready(agrees))
            .build();
        let connection = host.connect(endpoint(&guarded())).await.unwrap();
        let error = connection.call("guarded", json!({})).await.unwrap_err();
        assert_eq!(error.code(), Some(-32042));
        let HostError::PagesRequired(pages) = error else { panic!("{error}") };
        assert_eq!(pages[0].url, "https://example.com/auth");
    }
}
