//! The routes of the answer page on which visitors sign in with OpenID Connect.

use std::sync::Arc;

use antiphon_http::auth::{Identity, SignInError};
use axum::{
    Router,
    extract::{Path, Request, State},
    http::{StatusCode, header},
    response::{AppendHeaders, Html, IntoResponse, Response},
    routing::get,
};

use super::auth_of;
use crate::{
    asking::page::{
        Admission,
        html::{self, Given, Step},
    },
    base::now_millis,
    server::http::ask_page::{AllPages, Link, Pages, Refusal, is_prefetch},
};

/// Returns the routes on which visitors sign in.
pub(in crate::server::http) fn routes() -> Router<Arc<Pages>> {
    Router::new().route("/ask/{token}/sign-in", get(begin)).route("/ask/callback", get(end))
}

/// Redirects the browser to the provider.
async fn begin(
    State(pages): AllPages,
    Path(Link { token }): Path<Link>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let named = pages.named(&token)?;
    let admission = pages.site.admission(&named, &parts);
    let again = match admission {
        Admission::Admitted => return Ok(see_other(pages.address(&token, ""))),
        Admission::Denied => return Err(Refusal::NotFound),
        Admission::Unknown => false,
        Admission::Other => true,
    };
    if is_prefetch(&parts.headers) {
        return Ok(pages.landing(&token, admission));
    }
    Ok(match pages.site.begin_sign_in(&token, again, now_millis()).await {
        Ok((provider, cookie)) => {
            (AppendHeaders([(header::SET_COOKIE, cookie)]), see_other(provider)).into_response()
        }
        Err(error) => failed(&error, &pages.address(&token, "/sign-in")),
    })
}

/// Completes a sign-in, after the provider has redirected the browser to this route.
async fn end(State(pages): AllPages, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let given = Given::parse(parts.uri.query().unwrap_or_default().as_bytes()).unwrap_or_default();
    let state = given.get("state").unwrap_or_default();
    let Some(begun) = pages.site.begun(&parts.headers, state, now_millis()) else {
        return page(
            StatusCode::BAD_REQUEST,
            "The sign-in has expired",
            "It took too long, or it was started in another browser. Open the link from the chat again.",
            None,
        );
    };
    let user = pages.site.finish_sign_in(&begun, &given).await;
    // The address comes from the token in the encrypted cookie, so the redirect always leads to this answer page.
    let response = match user.and_then(|user| principal(&pages, user)) {
        Ok(principal) => {
            let session = pages.site.set_session(&principal, now_millis());
            let landing = see_other(pages.address(&begun.link, ""));
            (AppendHeaders([(header::SET_COOKIE, session)]), landing).into_response()
        }
        Err(error) => failed(&error, &pages.address(&begun.link, "/sign-in")),
    };
    // The cookie is removed even if the sign-in failed, because a sign-in accepts only one response.
    (AppendHeaders([(header::SET_COOKIE, pages.site.end_sign_in())]), response).into_response()
}

/// Returns the principal of a user who has signed in. A caller who sends a token of this user has the same principal.
fn principal(pages: &Pages, user: Identity) -> Result<String, SignInError> {
    let auth = auth_of(pages.service.auth.as_ref()).filter(|_| !pages.site.names_principals());
    let user = match auth {
        Some(auth) => auth.map_principal(user).map_err(|_| SignInError::Unknown)?,
        None => user,
    };
    Ok(user.principal().to_owned())
}

/// Returns the web page for a failed sign-in. `again` is the address at which the visitor can try again.
fn failed(error: &SignInError, again: &str) -> Response {
    tracing::warn!(%error, "a visitor could not sign in on the web page with questions");
    let (status, title, text) = match error {
        SignInError::Unavailable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "You cannot sign in now",
            "The sign-in server does not respond as expected. Try again later. If the problem stays, tell the operator of this server.",
        ),
        SignInError::Rejected(_) => (
            StatusCode::FORBIDDEN,
            "The sign-in failed",
            "The sign-in server rejected it. Try again. If the problem stays, tell the operator of this server.",
        ),
        SignInError::Unknown => (
            StatusCode::FORBIDDEN,
            "Your account is not known here",
            "You have signed in, but this server does not know your account. Sign in with the account that you use in the chat.",
        ),
        _ => (
            StatusCode::FORBIDDEN,
            "The sign-in failed",
            "The response of the sign-in server is not valid. Try again. If the problem stays, tell the operator of this server.",
        ),
    };
    page(status, title, text, Some(Step::SignIn(again)))
}

fn page(status: StatusCode, title: &str, text: &str, step: Option<Step<'_>>) -> Response {
    (status, Html(html::message(title, text, step))).into_response()
}

fn see_other(address: String) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}
