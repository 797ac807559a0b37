//! What is not shown of a server: passwords, keys and tokens in its address or its command.

/// What stands in their place.
const HIDDEN: &str = "***";

/// A URL without its password and the values of its query, where keys often are.
pub(crate) fn in_url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    if url.password().is_none() && url.username().is_empty() && names.is_empty() {
        return text.to_owned();
    }
    // A lone user name is often a token.
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

/// A text that names a URL, without what is secret in that URL.
pub(crate) fn in_text(text: &str, url: &str) -> String {
    text.replace(url, &in_url(url))
}

/// The arguments of a program, without those that are secrets by the name of their flag.
pub(crate) fn in_arguments(arguments: &[String]) -> Vec<String> {
    let mut follows = false;
    let mut shown = Vec::new();
    for argument in arguments {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (argument.as_str(), None),
        };
        let is_flag = flag.starts_with('-');
        // `-e TOKEN=…` and `TOKEN=…` are as secret as `--token=…`.
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
    }
}
