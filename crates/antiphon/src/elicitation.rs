//! Types for questions to users: forms, web pages, and their MCP messages.
//!
//! [`Ctx::elicit`](crate::Ctx::elicit), [`Ctx::elicit_url`](crate::Ctx::elicit_url) and similar methods take or return
//! these types.

#[cfg(feature = "http")]
pub use crate::asking::page::AskPage;
pub use crate::{
    asking::AskPolicy,
    ctx::{Elicit, ElicitKey, ElicitUrl, ElicitValue, Elicited, Forward, ParseError, UrlElicited},
    url_elicitation::{
        CONTEXT_META, Channel, ELICITATION_COMPLETE, ElicitationComplete, KEY_META, URL_ELICITATION_REQUIRED,
        UrlElicitation, UrlElicitationRequired,
    },
};
