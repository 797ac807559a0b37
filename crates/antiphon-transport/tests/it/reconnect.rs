//! A server that is lost, and found, or not.

use std::{sync::atomic::Ordering, time::Duration};

use antiphon_transport::{
    Reconnect,
    websocket::{WebSocketClient, WebSocketClientConfig},
};
use rmcp::service::QuitReason;
use tokio::time::timeout;

use crate::{
    proxy::Proxy,
    support::{
        Kind, Obliging, Tweaks, address_of, call, connect_with, laws, may_have_been_carried_out, serve,
        text_of, until,
    },
};

const MOMENT: Duration = Duration::from_secs(10);

fn soon() -> Reconnect {
    Reconnect::default().with_delays(Duration::from_millis(20), Duration::from_millis(100))
}

async fn open_calls_fail_as_what_they_are_and_later_ones_pass(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let client = connect_with(kind, proxy.address, Obliging::default(), Some(soon())).await;
    let peer = client.peer().clone();
    let hanging = tokio::spawn(async move { peer.call_tool_once(call("hang", "")).await });
    until("the call", || served.stats.calls.load(Ordering::SeqCst) == 1).await;
    proxy.cut();
    let error = timeout(MOMENT, hanging).await.unwrap().unwrap().unwrap_err();
    assert!(may_have_been_carried_out(&error), "{error:?}");
    // A call that could not be sent ends before the stream of events does, and one made in between is lost, too.
    until("a new connection is a new session", || served.stats.served.load(Ordering::SeqCst) == 2).await;
    let result = timeout(MOMENT, client.call_tool(call("ask", "L"))).await.unwrap().unwrap();
    assert_eq!(text_of(&result), r#"{"size":"L"}"#);
}

async fn calls_made_while_the_server_is_away_wait_for_it(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let patient = soon().with_attempts(100);
    let client = connect_with(kind, proxy.address, Obliging::default(), Some(patient)).await;
    proxy.set_down(true);
    proxy.cut();
    until("the server is looked for", || proxy.refused() > 0).await;
    let waiting = client.call_tool(call("echo", "patience"));
    let open = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.set_down(false);
    };
    let (result, ()) = timeout(MOMENT, async { tokio::join!(waiting, open) }).await.unwrap();
    assert_eq!(text_of(&result.unwrap()), "patience");
}

async fn an_answer_to_a_lost_question_is_not_taken_for_another(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let obliging = Obliging::default();
    let client = connect_with(kind, proxy.address, obliging.clone(), Some(soon())).await;
    let peer = client.peer().clone();
    let lost = tokio::spawn(async move { peer.call_tool_once(call("ask", "late")).await });
    until("the question", || obliging.asked.load(Ordering::SeqCst) == 1).await;
    proxy.cut();
    assert!(timeout(MOMENT, lost).await.unwrap().unwrap().is_err());
    until("the question is withdrawn", || obliging.withdrawn.load(Ordering::SeqCst) == 1).await;
    // The server counts its questions from the start again, so this one has the same id.
    let asking = client.call_tool(call("ask", "later"));
    let answering = async {
        until("the second question", || obliging.asked.load(Ordering::SeqCst) == 2).await;
        obliging.late.notify_one();
        for _ in 0..10 {
            client.call_tool(call("echo", "meanwhile")).await.unwrap();
        }
        obliging.later.notify_one();
    };
    let (result, ()) = timeout(MOMENT, Box::pin(async { tokio::join!(asking, answering) })).await.unwrap();
    assert_eq!(text_of(&result.unwrap()), r#"{"size":"later"}"#);
}

async fn a_server_that_stays_lost_ends_the_client(kind: Kind) {
    let served = serve(kind, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let client = connect_with(kind, proxy.address, Obliging::default(), Some(soon().with_attempts(3))).await;
    proxy.set_down(true);
    proxy.cut();
    let reason = timeout(MOMENT, client.waiting()).await.unwrap().unwrap();
    assert!(matches!(reason, QuitReason::Closed), "{reason:?}");
}

laws! {
    open_calls_fail_as_what_they_are_and_later_ones_pass,
    calls_made_while_the_server_is_away_wait_for_it,
    an_answer_to_a_lost_question_is_not_taken_for_another,
    a_server_that_stays_lost_ends_the_client,
}

#[tokio::test]
async fn whoever_cares_is_told_of_a_new_connection() {
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let proxy = Proxy::to(served.address).await;
    let url = address_of(Kind::WebSocket, proxy.address);
    let config = WebSocketClientConfig::default().with_reconnect(soon());
    let connection = WebSocketClient::connect(&url, config).await.unwrap();
    let mut connections = connection.connections();
    let client = rmcp::serve_client(Obliging::default(), connection).await.unwrap();
    assert_eq!(*connections.borrow_and_update(), 1);
    proxy.cut();
    timeout(MOMENT, connections.changed()).await.unwrap().unwrap();
    assert_eq!(*connections.borrow(), 2);
    drop(client);
}
