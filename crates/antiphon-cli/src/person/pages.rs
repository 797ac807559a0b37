//! Opens web pages that a server asks the user to visit.

use std::process::{Command, Stdio};

use antiphon_host::{BoxFuture, Page, PageHandler};
use url::Url;

use super::{Person, prompt::pick, terminal::Asked};
use crate::print::clean;

/// A handler that shows the URL of a web page, and opens the web page if the user agrees.
pub(super) struct Opening(pub(super) Person);

const OPEN: &str = "open it in the browser";
const MYSELF: &str = "I open it myself";
const DECLINE: &str = "decline";

impl PageHandler for Opening {
    fn open(&self, page: Page) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Self(person) = self;
            let message = clean(page.message.trim());
            let url = match openable(&page.url) {
                Ok(url) => url,
                Err(why) => {
                    person.terminal().screen.line(&format!("declined a web page of the server: {why}"));
                    person.decline();
                    return false;
                }
            };
            if !person.is_present() {
                person.miss(format!(
                    "not answered, so declined: the server asks you to open a web page; no user is present to agree\n  {message}\n  {url}"
                ));
                return false;
            }
            let server = person.server().to_owned();
            let agreed = person.terminal().ask(move || {
                eprintln!("\n{server} sends you to a page:\n{message}\n{}", shown(&url));
                pick("Go there?", vec![OPEN, MYSELF, DECLINE]).map(|answer| match answer {
                    OPEN => {
                        if !browse(&url) {
                            eprintln!("no browser was found; open the address yourself");
                        }
                        true
                    }
                    MYSELF => true,
                    _ => false,
                })
            });
            let agreed = matches!(agreed.await, Asked::Answered(true));
            if !agreed {
                person.decline();
            }
            agreed
        })
    }
}

/// Parses a URL. Rejects URLs whose scheme is not `http` or `https`.
fn openable(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a valid URL: {error}"))?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => Ok(url),
        ("http" | "https", None) => Err(format!("`{url}` has no host")),
        (scheme, _) => Err(format!("the URL scheme `{scheme}` is not supported, only http and https: {url}")),
    }
}

/// Returns the URL, its host on a separate line, and warnings. A parsed URL is ASCII, so the URL cannot contain
/// lookalike characters.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let mut lines = vec![format!("  {url}"), format!("  host: {host}")];
    if url.scheme() != "https" && !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
        lines.push("  warning: not https; others may read and change what you send there".into());
    }
    if host.split('.').any(|label| label.starts_with("xn--")) {
        lines.push(
            "  warning: the name has letters of other scripts, which can look like another name".into(),
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        lines.push("  warning: what stands before the @ is no host".into());
    }
    lines.join("\n")
}

/// Opens a URL with the platform's opener, without a shell.
fn browse(url: &Url) -> bool {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut command = Command::new(opener);
    command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_web_are_opened() {
        for wrong in ["file:///etc/passwd", "javascript:alert(1)", "ssh://host", "nonsense", "--help"] {
            assert!(openable(wrong).is_err(), "{wrong}");
        }
        assert!(openable("https://example.com/sign-in?a=b").is_ok());
    }

    #[test]
    fn what_to_beware_of_is_said() {
        let shown = |text: &str| shown(&openable(text).unwrap());
        insta::assert_snapshot!(shown("https://example.com/a?b=c"), @r"
        https://example.com/a?b=c
        host: example.com
        ");
        insta::assert_snapshot!(shown("http://ex\u{430}mple.com/"), @r"
        http://xn--exmple-4nf.com/
        host: xn--exmple-4nf.com
        warning: not https; others may read and change what you send there
        warning: the name has letters of other scripts, which can look like another name
        ");
        assert!(shown("https://example.com@evil.example/").contains("no host"));
        assert!(!shown("http://localhost:3000/").contains("warning"));
        assert!(!shown("https://example.com/\u{202e}moc").contains('\u{202e}'));
    }
}
