//! Types for questions to users: forms, web pages, and the corresponding MCP messages.
//!
//! [`Ctx::elicit`](crate::Ctx::elicit) and [`Ctx::elicit_url`](crate::Ctx::elicit_url) return or take the types of this
//! module.

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
