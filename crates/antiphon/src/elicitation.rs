//! Types for questions to users: forms, web pages, and the corresponding MCP messages.
//!
//! [`Ctx::elicit`](crate::Ctx::elicit) and [`Ctx::elicit_url`](crate::Ctx::elicit_url) return or take the types of this
//! module.

pub use crate::{
    ctx::{Elicit, ElicitKey, ElicitUrl, ElicitValue, Elicited, ParseError, UrlElicited},
    url_elicitation::{
        CONTEXT_META, ELICITATION_COMPLETE, ElicitationComplete, KEY_META, URL_ELICITATION_REQUIRED,
        UrlElicitation, UrlElicitationRequired,
    },
};
