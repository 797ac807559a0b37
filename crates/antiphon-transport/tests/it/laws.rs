//! What every transport does, each a test a transport.

use std::{sync::atomic::Ordering, time::Duration};

use rmcp::{
    ServiceError,
    model::{CallToolRequest, ClientRequest},
    service::PeerRequestOptions,
};
use tokio::time::timeout;

use crate::{
    proxy::Proxy,
    support::{
        Kind, Obliging, Tweaks, call, connect, laws, may_have_been_carried_out, serve, text_of, until,
    },
};

const MOMENT: Duration = Duration::from_secs(10);

async fn tools_are_listed_and_called(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    assert_eq!(client.peer_info().unwrap().server_info.as_ref().unwrap().name, "everything");
    assert_eq!(client.list_all_tools().await.unwrap().len(), 7);
    let result = client.call_tool(call("echo", "line\nline \u{2028} \u{1f600}")).await.unwrap();
    assert_eq!(text_of(&result), "line\nline \u{2028} \u{1f600}");
    client.cancel().await.unwrap();
    until("the server ends the session", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
}

async fn the_request_is_visible_to_the_tool(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    assert_eq!(text_of(&client.call_tool(call("header", "")).await.unwrap()), "hello");
}

async fn a_tool_asks_while_it_is_called(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    for size in ["L", "XL"] {
        assert_eq!(
            text_of(&client.call_tool(call("ask", size)).await.unwrap()),
            format!(r#"{{"size":"{size}"}}"#)
        );
        assert_eq!(text_of(&client.call_tool(call("sample", size)).await.unwrap()), "a model");
    }
}

async fn questions_of_concurrent_calls_do_not_cross(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    let calls = (0..100).map(|number| {
        let client = &client;
        async move {
            let result = client.call_tool(call("ask", number)).await.unwrap();
            assert_eq!(text_of(&result), format!(r#"{{"size":"{number}"}}"#));
        }
    });
    timeout(MOMENT, futures_util::future::join_all(calls)).await.unwrap();
}

async fn notifications_arrive_before_the_result(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let obliging = Obliging::default();
    let client = connect(kind, served.address, obliging.clone()).await;
    let result = client.call_tool(call("progress", "")).await.unwrap();
    assert_eq!(text_of(&result), "done");
    until("three reports", || obliging.progress.load(Ordering::SeqCst) == 3).await;
}

async fn a_large_message_passes_and_a_larger_answer_is_an_error(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    let near = 1024 * 1024 - 300;
    assert_eq!(text_of(&client.call_tool(call("large", near)).await.unwrap()).len(), near);
    assert_eq!(text_of(&client.call_tool(call("echo", "x".repeat(near))).await.unwrap()).len(), near);
    let error = client.call_tool(call("large", 1024 * 1024)).await.unwrap_err();
    assert!(error.to_string().contains("ask for less"), "{error}");
    assert_eq!(text_of(&client.call_tool(call("echo", "still here")).await.unwrap()), "still here");
}

async fn a_thousand_calls_at_once_are_all_answered(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    let calls = (0..1_000).map(|number| {
        let client = &client;
        async move {
            let result = client.call_tool(call("echo", number)).await.unwrap();
            assert_eq!(text_of(&result), number.to_string());
        }
    });
    timeout(MOMENT, futures_util::future::join_all(calls)).await.unwrap();
    assert_eq!(served.stats.calls.load(Ordering::SeqCst), 1_000);
}

async fn requests_past_the_limit_are_refused_and_the_others_answered(kind: Kind) {
    let served = serve(kind, Tweaks { max_open_requests: 4, ..Tweaks::default() }).await;
    let client = connect(kind, served.address, Obliging { silent: true, ..Obliging::default() }).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let peer = client.peer().clone();
        waiting.push(tokio::spawn(async move { peer.call_tool_once(call("ask", "?")).await }));
    }
    until("four calls", || served.stats.calls.load(Ordering::SeqCst) == 4).await;
    let error = timeout(MOMENT, client.call_tool(call("echo", "fifth"))).await.unwrap().unwrap_err();
    let ServiceError::McpError(error) = error else { panic!("{error}") };
    assert_eq!(error.code.0, antiphon_transport::TRANSPORT_ERROR);
    for call in waiting {
        call.abort();
    }
}

async fn a_client_that_vanishes_ends_its_calls(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let client = connect(kind, proxy.address, Obliging { silent: true, ..Obliging::default() }).await;
    let peer = client.peer().clone();
    let asking = tokio::spawn(async move { peer.call_tool_once(call("ask", "?")).await });
    until("the call", || served.stats.calls.load(Ordering::SeqCst) == 1).await;
    proxy.cut();
    let error = timeout(MOMENT, asking).await.unwrap().unwrap().unwrap_err();
    assert!(may_have_been_carried_out(&error) || matches!(error, ServiceError::TransportClosed), "{error:?}");
    until("the tool hears of it", || served.stats.unanswered.load(Ordering::SeqCst) == 1).await;
    until("the session ends", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
}

async fn a_server_that_vanishes_ends_the_calls_to_it(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let client = connect(kind, proxy.address, Obliging::default()).await;
    let peer = client.peer().clone();
    let hanging = tokio::spawn(async move { peer.call_tool_once(call("hang", "")).await });
    until("the call", || served.stats.calls.load(Ordering::SeqCst) == 1).await;
    drop(served);
    proxy.cut();
    let error = timeout(MOMENT, hanging).await.unwrap().unwrap().unwrap_err();
    assert!(may_have_been_carried_out(&error) || matches!(error, ServiceError::TransportClosed), "{error:?}");
}

async fn a_cancelled_call_is_cancelled_in_the_tool(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let client = connect(kind, served.address, Obliging::default()).await;
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call("hang", "")));
    let handle = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    until("the call", || served.stats.calls.load(Ordering::SeqCst) == 1).await;
    handle.cancel(Some("enough".into())).await.unwrap();
    until("the tool hears of it", || served.stats.cancelled.load(Ordering::SeqCst) == 1).await;
    assert_eq!(text_of(&client.call_tool(call("echo", "still here")).await.unwrap()), "still here");
}

async fn connections_past_the_limit_are_turned_away(kind: Kind) {
    let served = serve(kind, Tweaks { max_connections: 1, ..Tweaks::default() }).await;
    let first = connect(kind, served.address, Obliging::default()).await;
    let url = crate::support::address_of(kind, served.address);
    let again = || async {
        match kind {
            Kind::WebSocket => {
                use antiphon_transport::websocket::{WebSocketClient, WebSocketClientConfig};
                WebSocketClient::connect(&url, WebSocketClientConfig::default()).await.map(drop)
            }
            Kind::Sse => {
                use antiphon_transport::sse::{SseClient, SseClientConfig};
                SseClient::connect(&url, SseClientConfig::default()).await.map(drop)
            }
        }
    };
    let error = again().await.unwrap_err();
    assert!(matches!(error, antiphon_transport::Error::Refused { status: 503, .. }), "{error:?}");
    drop(first);
    until("the place is free", || served.stats.ended.load(Ordering::SeqCst) == 1).await;
    for _ in 0..100 {
        if again().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the place stays taken");
}

laws! {
    tools_are_listed_and_called,
    the_request_is_visible_to_the_tool,
    a_tool_asks_while_it_is_called,
    questions_of_concurrent_calls_do_not_cross,
    notifications_arrive_before_the_result,
    a_large_message_passes_and_a_larger_answer_is_an_error,
    a_thousand_calls_at_once_are_all_answered,
    requests_past_the_limit_are_refused_and_the_others_answered,
    a_client_that_vanishes_ends_its_calls,
    a_server_that_vanishes_ends_the_calls_to_it,
    a_cancelled_call_is_cancelled_in_the_tool,
    connections_past_the_limit_are_turned_away,
}
