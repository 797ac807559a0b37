//! Validates project names.

/// Names that a crate cannot have: Rust keywords, folders of Cargo, and existing crates.
const TAKEN: &[&str] = &[
    "abstract",
    "antiphon",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "serde_json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Returns an error if `name` is not a valid crate name.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let Some(first) = name.chars().next() else {
        return Err("the name of the project is missing; write for example `antiphon new hello`".to_owned());
    };
    if !first.is_ascii_alphabetic() {
        return Err(format!("`{name}` is not a valid crate name: it must begin with a letter"));
    }
    let bad = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if let Some(bad) = name.chars().find(|c| bad(*c)) {
        return Err(format!(
            "`{name}` is not a valid crate name: it contains `{}`; use letters, digits, `-` and `_`",
            bad.escape_debug()
        ));
    }
    if TAKEN.contains(&name.replace('-', "_").as_str()) || name.len() > 64 {
        return Err(format!("`{name}` is not a valid crate name: it is reserved in Rust, or is too long"));
    }
    Ok(())
}

/// Returns an error if `owner` cannot be a GitHub account.
pub(crate) fn check_owner(owner: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if owner.is_empty() || !owner.chars().all(is_good) {
        let owner = owner.escape_debug();
        return Err(format!("`{owner}` is not a GitHub account; use letters, digits and `-`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_crate_names_are_refused_with_the_reason() {
        assert_eq!(check("my-server_2"), Ok(()));
        for (name, part) in [
            ("", "antiphon new hello"),
            ("2fast", "begin with a letter"),
            ("a b", "it contains ` `"),
            ("ünder", "begin with a letter"),
            ("async", "reserved in Rust"),
            ("serde-json", "reserved in Rust"),
        ] {
            let error = check(name).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn owner_is_a_github_account() {
        assert_eq!(check_owner("ada-1"), Ok(()));
        for owner in ["", "ada/x", "@ada", "a b"] {
            assert!(check_owner(owner).is_err(), "{owner}");
        }
    }
}
