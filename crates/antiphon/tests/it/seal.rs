//! What a client holds for the server, and what it can do with it: nothing.

use std::time::Duration;

use antiphon::{
    ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    testing::Revision,
};
use serde_json::{Value, json};

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Pay {
    amount: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

async fn pay(ctx: &Ctx, pay: Pay) -> Result<String> {
    let secret: String = ctx.step("secret", || async { Ok("s3cr3t".to_owned()) }).await?;
    let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
    Ok(format!("{} {sure} {secret}", pay.amount))
}

fn server(seal: SealConfig) -> ServerBuilder {
    Server::builder("pay", "1.0.0").with_seal(seal).tool(Tool::new("pay", "Pays", pay)).tool(Tool::new(
        "pay_twice",
        "Pays",
        pay,
    ))
}

fn keys() -> SealConfig {
    SealConfig::default().with_keys(KeyRing::new(1, [1; 32]))
}

async fn first_round(server: &Server) -> Result<String> {
    let mut client = connect(server, Revision::V2026_07_28).await?;
    let reply = client.request("tools/call", json!({"name": "pay", "arguments": {"amount": 5}})).await?;
    assert_eq!(reply["resultType"], "input_required");
    Ok(reply["requestState"].as_str().unwrap().to_owned())
}

fn retry(state: &str) -> Value {
    json!({
        "name": "pay",
        "arguments": {"amount": 5},
        "requestState": state,
        "inputResponses": {"sure": {"action": "accept", "content": {"sure": true}}},
    })
}

/// The bytes of the server's answer, with the id taken out.
async fn bytes(server: &Server, params: Value) -> Result<String> {
    let mut client = connect(server, Revision::V2026_07_28).await?;
    let _ = client.request("tools/call", params).await;
    let mut message = client.frames().last().expect("an answer").message.clone();
    message["id"] = Value::Null;
    Ok(message.to_string())
}

#[tokio::test]
async fn an_honest_retry_is_answered_anywhere() -> Result<()> {
    let state = first_round(&server(keys()).build()?).await?;
    let elsewhere = server(keys()).build()?;
    assert!(bytes(&elsewhere, retry(&state)).await?.contains("5 true s3cr3t"));
    Ok(())
}

#[tokio::test]
async fn arguments_may_come_in_another_order() -> Result<()> {
    #[derive(Deserialize, JsonSchema)]
    struct Two {
        a: u32,
        b: Value,
    }
    async fn two(ctx: &Ctx, two: Two) -> Result<String> {
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        Ok(format!("{} {}", two.a, two.b["x"]))
    }
    let server = Server::builder("two", "1.0.0").tool(Tool::new("two", "Takes two", two)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let first = client
        .request("tools/call", json!({"name": "two", "arguments": {"a": 1, "b": {"x": 1, "y": 2}}}))
        .await?;
    let answer = json!({"sure": {"action": "accept", "content": {"sure": true}}});
    let state = first["requestState"].as_str().unwrap();
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"two","arguments":{{"b":{{"y":2,"x":1}},"a":1}},"requestState":"{state}","inputResponses":{answer},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}},"io.modelcontextprotocol/clientInfo":{{"name":"t","version":"1"}}}}}}}}"#
    );
    let reply = client.send_raw(&line).await?;
    assert_eq!(reply["result"]["content"][0]["text"], "1 1", "{reply}");
    Ok(())
}

#[tokio::test]
async fn the_client_cannot_read_what_it_holds() -> Result<()> {
    let state = first_round(&server(keys()).build()?).await?;
    assert!(!state.contains("s3cr3t"));
    let plain = keys().with_compression(false);
    let long = first_round(&server(plain).build()?).await?;
    assert!(!long.contains("s3cr3t") && !long.contains("c2VjcjN0"));
    Ok(())
}

#[tokio::test]
async fn every_failure_to_open_a_seal_has_the_same_bytes() -> Result<()> {
    let here = server(keys()).build()?;
    let state = first_round(&here).await?;
    let expired = {
        let seal = keys().with_ttl(Duration::from_millis(1)).with_skew(Duration::ZERO);
        let server = server(seal.clone()).build()?;
        let state = first_round(&server).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        bytes(&server, retry(&state)).await?
    };
    assert_eq!(
        serde_json::from_str::<Value>(&expired)?,
        json!({"error": {"code": -32602, "message": "Invalid or expired requestState"}, "id": null, "jsonrpc": "2.0"})
    );
    let mut failures = vec![("expired", expired.clone())];
    for position in [0, 1, 2, 5, 30, 40, state.len() - 1] {
        let mut tampered = state.clone().into_bytes();
        tampered[position] = if tampered[position] == b'A' { b'B' } else { b'A' };
        failures.push(("tampered", bytes(&here, retry(&String::from_utf8(tampered)?)).await?));
    }
    failures.push(("cut", bytes(&here, retry(&state[..state.len() - 4])).await?));
    failures.push(("empty", bytes(&here, retry("")).await?));
    failures.push(("not base64", bytes(&here, retry("!!!")).await?));
    failures.push(("too long", bytes(&here, retry(&"A".repeat(70_000))).await?));
    let mut other_tool = retry(&state);
    other_tool["name"] = "pay_twice".into();
    failures.push(("foreign tool", bytes(&here, other_tool).await?));
    let mut other_arguments = retry(&state);
    other_arguments["arguments"]["amount"] = 500.into();
    failures.push(("foreign arguments", bytes(&here, other_arguments).await?));
    let wrong_key = server(SealConfig::default().with_keys(KeyRing::new(1, [2; 32]))).build()?;
    failures.push(("wrong key", bytes(&wrong_key, retry(&state)).await?));
    let unknown_key = server(SealConfig::default().with_keys(KeyRing::new(9, [1; 32]))).build()?;
    failures.push(("unknown key", bytes(&unknown_key, retry(&state)).await?));
    let elsewhere = server(keys().with_audience("another")).build()?;
    failures.push(("foreign audience", bytes(&elsewhere, retry(&state)).await?));
    for (what, failure) in failures {
        assert_eq!(failure, expired, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_is_rotated_without_losing_a_run() -> Result<()> {
    let old = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
    let staged = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]).with_decryption_key(2, [2; 32]));
    let new = SealConfig::default().with_keys(KeyRing::new(2, [2; 32]).with_decryption_key(1, [1; 32]));
    let by_old = first_round(&server(old).build()?).await?;
    let by_new = first_round(&server(new.clone()).build()?).await?;
    for (state, seal) in [(&by_old, staged.clone()), (&by_old, new), (&by_new, staged)] {
        assert!(bytes(&server(seal).build()?, retry(state)).await?.contains("5 true s3cr3t"));
    }
    Ok(())
}

#[tokio::test]
async fn a_run_too_large_to_travel_names_what_makes_it_so() -> Result<()> {
    async fn large(ctx: &Ctx, _: ()) -> Result<String> {
        let noise: Vec<u64> = ctx
            .step("noise", || async {
                Ok((0..20_000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect())
            })
            .await?;
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        Ok(noise.len().to_string())
    }
    let server = Server::builder("large", "1.0.0").tool(Tool::new("large", "Is large", large)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("large", json!({})).await?;
    assert!(talk.is_error());
    let text = talk.text();
    assert!(
        text.contains("its largest entries are `noise` (")
            && text.contains("raise `SealConfig::with_max_bytes`"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn fifty_answers_fit_into_four_kilobytes() -> Result<()> {
    async fn many(ctx: &Ctx, _: ()) -> Result<String> {
        for n in 0..5 {
            let asks = (0..10).map(|m| ctx.elicit::<Answer>(format!("What about item {}?", n * 10 + m)));
            let answers = futures(asks.collect()).await;
            for answer in answers {
                answer?.accepted()?;
            }
        }
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        Ok("done".into())
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its size matters")]
    struct Answer {
        choice: String,
        note: String,
    }
    /// Awaits all of them, polling each: what `join_all` does, without the crate.
    async fn futures<T>(asks: Vec<antiphon::elicitation::Elicit<'_, T>>) -> Vec<Result<Elicited<T>>>
    where
        T: serde::de::DeserializeOwned,
    {
        let mut asks: Vec<_> = asks.into_iter().map(|ask| (Box::pin(ask), None)).collect();
        std::future::poll_fn(|cx| {
            for (ask, answer) in asks.iter_mut().filter(|(_, answer)| answer.is_none()) {
                if let std::task::Poll::Ready(ready) = ask.as_mut().poll(cx) {
                    *answer = Some(ready);
                }
            }
            if asks.iter().all(|(_, answer)| answer.is_some()) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        asks.into_iter().filter_map(|(_, answer)| answer).collect()
    }
    let server = Server::builder("many", "1.0.0").tool(Tool::new("many", "Asks a lot", many)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let mut params = json!({"name": "many", "arguments": {}});
    let mut answered = 0;
    loop {
        let reply = client.request("tools/call", params.clone()).await?;
        let state = reply["requestState"].as_str().unwrap();
        if answered == 50 {
            assert!(state.len() < 4096, "{} bytes", state.len());
            return Ok(());
        }
        params["requestState"] = state.into();
        params["inputResponses"] = json!({});
        for key in reply["inputRequests"].as_object().unwrap().keys() {
            answered += 1;
            let content = json!({"choice": format!("variant {}", answered * 7919 % 97), "note": format!("seen on day {answered} by reader {}", answered * 31 % 13)});
            params["inputResponses"][key] = json!({"action": "accept", "content": content});
        }
    }
}
