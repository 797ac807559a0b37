//! The files of the web page, compiled into the program.

use axum::{Router, http::header::CONTENT_TYPE, routing::get};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// The path, the content type and the text of each file.
const FILES: [(&str, &str, &str); 15] = [
    ("/", HTML, include_str!("assets/index.html")),
    ("/style.css", STYLE, include_str!("assets/style.css")),
    ("/timeline.css", STYLE, include_str!("assets/timeline.css")),
    ("/icon.svg", IMAGE, include_str!("assets/icon.svg")),
    ("/app.js", SCRIPT, include_str!("assets/app.js")),
    ("/api.js", SCRIPT, include_str!("assets/api.js")),
    ("/asks.js", SCRIPT, include_str!("assets/asks.js")),
    ("/board.js", SCRIPT, include_str!("assets/board.js")),
    ("/components.js", SCRIPT, include_str!("assets/components.js")),
    ("/dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("/form.js", SCRIPT, include_str!("assets/form.js")),
    ("/inspect.js", SCRIPT, include_str!("assets/inspect.js")),
    ("/result.js", SCRIPT, include_str!("assets/result.js")),
    ("/sample.js", SCRIPT, include_str!("assets/sample.js")),
    ("/timeline.js", SCRIPT, include_str!("assets/timeline.js")),
];

/// Creates the router of the files. The files of the web page contain no secrets.
pub(super) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { ([(CONTENT_TYPE, kind)], text) }))
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::target::ProtocolChoice;

    #[test]
    fn page_offers_every_protocol_revision() {
        let (_, _, page) = FILES[0];
        for choice in ProtocolChoice::value_variants() {
            assert!(page.contains(&format!("<option value=\"{}\">", choice.version())), "{choice:?}");
        }
    }
}
