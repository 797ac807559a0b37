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
    assert_eq!(
        refused(Kind::Chat, nothing.clone()),
        "the provider `OpenAi` needs a model; add one with `with_model`"
    );
    let model = nothing.with_model("m");
    for (kind, what) in [
        (Kind::Chat, "the provider `OpenAi` needs an API key; set it with `with_key`"),
        (Kind::Responses, "the provider `OpenAiResponses` needs an API key; set it with `with_key`"),
        (Kind::Anthropic, "the provider `Anthropic` needs an API key; set it with `with_key`"),
        (Kind::Gemini, "the provider `Gemini` needs an API key; set it with `with_key`"),
        (Kind::Compatible, "the provider `OpenAiCompatible` needs a base URL; set it with `with_base_url`"),
    ] {
        assert_eq!(refused(kind, model.clone()), what);
    }
    assert!(Kind::Ollama.open(model).is_ok());
}

#[test]
fn what_makes_no_sense_is_said() {
    let config = ProviderConfig::new("key").with_model("m");
    for (config, what) in [
        (
            config.clone().with_model("m"),
            "the provider `OpenAi` has the model `m` twice; add each model once",
        ),
        (config.clone().with_model(" "), "the provider `OpenAi` has a model with an empty name"),
        (
            config.clone().with_key("key\n"),
            "the provider `OpenAi` has an API key with invalid characters; look for a line break",
        ),
        (
            config.clone().with_base_url("llm.example.com/v1"),
            "the provider `OpenAi` has a base URL that does not begin with `http://` or `https://`",
        ),
        (
            config.clone().with_base_url("https://me:pass@llm.example.com"),
            "the provider `OpenAi` has a base URL that contains a password; use `with_key`, which is not logged",
        ),
        (
            config.clone().with_timeout(Duration::ZERO),
            "the provider `OpenAi` has a timeout of 0; set a longer one with `with_timeout`",
        ),
        (
            config.clone().with_max_tokens(0),
            "the provider `OpenAi` has a limit of 0 output tokens; raise `with_max_tokens`",
        ),
        (config.clone().with_proxy("::"), "the address of the proxy is not a valid URL"),
    ] {
        assert_eq!(refused(Kind::Chat, config), what);
    }
    assert_eq!(
        refused(Kind::Ollama, config.clone().with_structured_output(StructuredOutput::ForcedTool)),
        "the provider `Ollama` cannot be forced to call a tool; choose another `StructuredOutput`"
    );
    assert_eq!(
        refused(Kind::Anthropic, config.with_structured_output(StructuredOutput::JsonMode)),
        "the provider `Anthropic` does not support JSON mode; choose another `StructuredOutput`"
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
