//! `antiphon seal`.

use antiphon::{
    Server,
    prelude::*,
    seal::SealConfig,
    testing::{Client, Revision},
};
use insta::assert_snapshot;
use serde_json::json;

use crate::ground::Folder;

const KEYS: &str = "3=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[derive(Deserialize, JsonSchema)]
struct Sure {
    #[expect(dead_code, reason = "it is only asked")]
    sure: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Buy {
    #[expect(dead_code, reason = "it is only sealed")]
    item: String,
}

async fn buy(ctx: &Ctx, _: Buy) -> Result<String> {
    let receipt: String = ctx.step("reserve", || async { Ok("receipt-4711".to_owned()) }).await?;
    ctx.elicit::<Sure>("Buy?").await?.accepted()?;
    Ok(receipt)
}

async fn state() -> String {
    let seal = SealConfig::default().with_keys(KEYS.parse().unwrap());
    let tool = Tool::new("buy", "Buys", buy);
    let server = Server::builder("shop", "1").with_seal(seal).tool(tool).build().unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    let params = json!({"name": "buy", "arguments": {"item": "tea"}});
    let asked = client.request("tools/call", params).await.unwrap();
    asked["requestState"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seal_of_a_real_call_is_opened_without_showing_its_values() {
    let (folder, state) = (Folder::new(), state().await);
    let call =
        ["seal", "inspect", &state, "--server", "shop", "--tool", "buy", "--arguments", r#"{"item": "tea"}"#];
    let env = [("ANTIPHON_KEYS", KEYS)];
    let shown = folder.run_with(&call, &env, "").await;
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(lines[0], "format   1, key 3");
    assert!(lines[3].starts_with("run      ") && lines[3].ends_with(", round 1"), "{shown:?}");
    assert_snapshot!(lines[4..].join("\n"), @r#"
    awaits   sure

     KEY      WHAT          OUTCOME  SHAPE
     reserve  step reserve  done     "text of 12 bytes"
    "#);
    assert!(!shown.out.contains("4711"));
    let values = folder.run_with(&[&call[..], &["--values", "--json"]].concat(), &env, "").await.json();
    assert_eq!(values["entries"][0]["value"], "receipt-4711");
    let values = folder.run_with(&[&call[..], &["--json"]].concat(), &env, "").await;
    assert!(!values.out.contains("4711"), "{values:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seal_that_does_not_open_says_what_to_check() {
    let (folder, state) = (Folder::new(), state().await);
    let call = ["seal", "inspect", &state, "--server", "shop", "--tool", "buy"];
    let keyless = folder.run(&call).await;
    assert!(keyless.code == Some(2) && keyless.err.contains("ANTIPHON_KEYS"), "{keyless:?}");
    let other = folder.run(&[&call[..], &["--keys", KEYS]].concat()).await;
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("`--arguments` are those of the call"), "{other:?}");
    let unknown = folder.run(&[&call[..], &["--keys", &KEYS.replacen('3', "4", 1)]].concat()).await;
    assert!(unknown.err.contains("encrypted with key 3"), "{unknown:?}");
    let bad = folder.run(&[&call[..], &["--keys", "secret"]].concat()).await;
    assert!(bad.code == Some(2) && !bad.err.contains("secret"), "{bad:?}");
}
