//! Providers that cannot be set up, and why.

use std::time::Duration;

use antiphon_llm::{
    Error,
    providers::{ProviderConfig, StructuredOutput},
};

use crate::support::Kind;

fn refused(kind: Kind, config: ProviderConfig) -> String {
    match kind.open(config) {
        Err(Error::Config(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_missing_is_named() {
    let nothing = ProviderConfig::local();
    assert_eq!(refused(Kind::Chat, nothing.clone()), "`OpenAi` needs a model; name one with `with_model`");
    let model = nothing.with_model("m");
    for (kind, what) in [
        (Kind::Chat, "`OpenAi` needs a key; give it one with `with_key`"),
        (Kind::Responses, "`OpenAiResponses` needs a key; give it one with `with_key`"),
        (Kind::Anthropic, "`Anthropic` needs a key; give it one with `with_key`"),
        (Kind::Gemini, "`Gemini` needs a key; give it one with `with_key`"),
        (Kind::Compatible, "`OpenAiCompatible` needs an address; set `with_base_url`"),
    ] {
        assert_eq!(refused(kind, model.clone()), what);
    }
    assert!(Kind::Ollama.open(model).is_ok());
}

#[test]
fn what_makes_no_sense_is_said() {
    let config = ProviderConfig::new("key").with_model("m");
    for (config, what) in [
        (config.clone().with_model("m"), "`OpenAi` has the model `m` twice"),
        (config.clone().with_model(" "), "`OpenAi` has a model without a name"),
        (
            config.clone().with_key("key\n"),
            "`OpenAi` has a key with characters no header can carry; look for a line break",
        ),
        (
            config.clone().with_base_url("llm.example.com/v1"),
            "`OpenAi` has an address that does not begin with `http://` or `https://`",
        ),
        (
            config.clone().with_base_url("https://me:pass@llm.example.com"),
            "`OpenAi` has an address that has a password in it; use `with_key`, which is kept out of logs",
        ),
        (config.clone().with_timeout(Duration::ZERO), "`OpenAi` has a timeout of zero"),
        (config.clone().with_max_tokens(0), "`OpenAi` may not write a single token"),
        (config.clone().with_proxy("::"), "the address of the proxy is not a valid URL"),
    ] {
        assert_eq!(refused(Kind::Chat, config), what);
    }
    assert_eq!(
        refused(Kind::Ollama, config.clone().with_structured_output(StructuredOutput::ForcedTool)),
        "`Ollama` cannot be made to call a tool; choose another `StructuredOutput`"
    );
    assert_eq!(
        refused(Kind::Anthropic, config.with_structured_output(StructuredOutput::JsonMode)),
        "`Anthropic` promises no JSON without a schema; choose another `StructuredOutput`"
    );
}

#[test]
fn neither_the_key_nor_the_proxy_is_shown() {
    let config = ProviderConfig::new("sk-1").with_model("m").with_proxy("http://me:pass@proxy.example.com");
    let model = Kind::Chat.open(config.clone()).unwrap();
    for shown in [format!("{config:?}"), format!("{config:#?}"), format!("{model:?}")] {
        assert!(!shown.contains("sk-1") && !shown.contains("pass"), "{shown}");
    }
}
