//! Hides passwords, keys and tokens in the address or the command of a server.

/// The replacement for a secret.
const HIDDEN: &str = "***";

/// Hides the password of a URL, and the values in its query string. The values in a query string often contain keys.
pub(crate) fn in_url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    if url.password().is_none() && url.username().is_empty() && names.is_empty() {
        return text.to_owned();
    }
    // A user name without a password is often a token.
    let hidden = match (url.password().is_some(), url.username().is_empty()) {
        (true, _) => url.set_password(Some(HIDDEN)),
        (false, false) => url.set_username(HIDDEN),
        (false, true) => Ok(()),
    };
    if hidden.is_err() {
        return HIDDEN.to_owned();
    }
    if !names.is_empty() {
        url.query_pairs_mut().clear().extend_pairs(names.iter().map(|name| (name, HIDDEN)));
    }
    url.into()
}

/// Hides the secrets of `url` in a text that contains this URL.
pub(crate) fn in_text(text: &str, url: &str) -> String {
    text.replace(url, &in_url(url))
}

/// Hides secrets in the output of a program: in URLs, after `Bearer`, and after names that indicate a secret. A name is
/// a flag such as `--token`, or a JSON key.
pub(crate) fn in_output(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<String> = in_pairs(line).split(' ').map(in_word).collect();
        after_bearer(in_arguments(&words)).join(" ")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Hides the values of JSON pairs (`"name": "value"`) whose name indicates a secret. The pairs can be inside any other
/// text.
fn in_pairs(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        let (name, after) = rest.split_at(quote + 1);
        shown.push_str(name);
        rest = after;
        // If a colon and another quote follow, the previous quote ends the name. In JSON inside JSON, quotes are
        // written as `\"`.
        let Some(value) = after.trim_start().strip_prefix(':').map(str::trim_start) else { continue };
        let (value, is_escaped) = match value.strip_prefix('\\') {
            Some(value) => (value, true),
            None => (value, false),
        };
        let Some(value) = value.strip_prefix('"') else { continue };
        let name = &name[..quote];
        if is_secret(name) {
            shown.push_str(&after[..after.len() - value.len()]);
            shown.push_str(HIDDEN);
            // A value without an end was truncated, so the whole rest is hidden.
            rest = &value[end_of_value(value, is_escaped)..];
        }
    }
    shown + rest
}

/// Returns the end of a JSON string: the position before its closing quote. If the closing quote is escaped, returns
/// the position before its backslash.
fn end_of_value(value: &str, is_escaped: bool) -> usize {
    if is_escaped {
        return value.find("\\\"").unwrap_or(value.len());
    }
    let mut is_literal = false;
    value
        .find(|c: char| {
            let ends = c == '"' && !is_literal;
            is_literal = c == '\\' && !is_literal;
            ends
        })
        .unwrap_or(value.len())
}

/// Hides the words after `Bearer`.
fn after_bearer(words: Vec<String>) -> Vec<String> {
    let mut follows = false;
    let hide = |word: String| {
        if word.is_empty() {
            return word;
        }
        let is_hidden = follows;
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        follows = name.to_ascii_lowercase().ends_with("bearer");
        if is_hidden { HIDDEN.to_owned() } else { word }
    };
    words.into_iter().map(hide).collect()
}

/// Hides the secrets in a URL. The URL can be in quotes, or be followed by a colon.
fn in_word(word: &str) -> String {
    let url = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
    if url.contains("://") { word.replace(url, &in_url(url)) } else { word.to_owned() }
}

/// Hides the values of a program's arguments whose name indicates a secret, such as `--token`.
pub(crate) fn in_arguments(arguments: &[String]) -> Vec<String> {
    let mut follows = false;
    let mut shown = Vec::new();
    for argument in arguments {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (argument.as_str(), None),
        };
        // Errors quote the output of programs in backticks.
        let is_flag = flag.trim_start_matches('`').starts_with('-');
        // The values in `-e TOKEN=…` and `TOKEN=…` are also secrets, like the value in `--token=…`.
        let secret = is_secret(flag) && (is_flag || value.is_some());
        shown.push(match value {
            _ if follows && !is_flag => HIDDEN.to_owned(),
            Some(_) if secret && !argument.contains("://") => format!("{flag}={HIDDEN}"),
            _ if argument.contains("://") => in_url(argument),
            _ => argument.clone(),
        });
        let header = matches!(flag, "--header" | "-H");
        follows = is_flag && (is_secret(flag) || header) && value.is_none();
    }
    shown
}

fn is_secret(flag: &str) -> bool {
    let flag = flag.to_ascii_lowercase();
    ["token", "key", "secret", "password", "passwd", "credential", "auth"]
        .iter()
        .any(|word| flag.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_keys_are_hidden_and_nothing_else() {
        assert_eq!(in_url("https://example.com/mcp"), "https://example.com/mcp");
        assert_eq!(
            in_url("https://ada:pw@example.com/mcp?api_key=abc"),
            "https://ada:***@example.com/mcp?api_key=***"
        );
        let arguments =
            ["-y", "server", "--api-key", "abc", "--token=abc", "--port", "80"].map(str::to_owned);
        assert_eq!(
            in_arguments(&arguments),
            ["-y", "server", "--api-key", "***", "--token=***", "--port", "80"]
        );
        let arguments = [
            "-e",
            "GITHUB_TOKEN=ghp",
            "-H",
            "Authorization: Bearer x",
            "postgresql://u:pw@h/db",
            "https://x/?key=1",
        ];
        assert_eq!(
            in_arguments(&arguments.map(str::to_owned)),
            ["-e", "GITHUB_TOKEN=***", "-H", "***", "postgresql://u:***@h/db", "https://x/?key=***"]
        );
        assert_eq!(in_url("https://ghp_token@example.com/"), "https://***@example.com/");
        assert_eq!(in_output("wrote `--token abc`; more"), "wrote `--token *** more");
    }

    #[test]
    fn json_pairs_and_bearer_tokens_are_hidden_in_output() {
        for (text, expected) in [
            (r#"{"api_key": "abc def", "port": "80"}"#, r#"{"api_key": "***", "port": "80"}"#),
            (r#"{"token":"a\"b\\","name":"Ada"}"#, r#"{"token":"***","name":"Ada"}"#),
            (r#"a 5" disk, "password" : "pw", more"#, r#"a 5" disk, "password" : "***", more"#),
            (r#""{\"secret\":\"abc\",\"a\":1}""#, r#""{\"secret\":\"***\",\"a\":1}""#),
            (r#"{"token":"abc d…"#, r#"{"token":"***"#),
            (r#"{"name":"token","text":"key"}"#, r#"{"name":"token","text":"key"}"#),
            (r#"{"token":null,"keys":3}"#, r#"{"token":null,"keys":3}"#),
            ("sent Authorization: Bearer abc to it", "sent Authorization: Bearer *** to it"),
            ("bearer  abc", "bearer  ***"),
            (r#"{"x":"Bearer abc"}"#, r#"{"x":"Bearer ***"#),
            ("the server listens", "the server listens"),
        ] {
            assert_eq!(in_output(text), expected, "{text}");
        }
    }
}
