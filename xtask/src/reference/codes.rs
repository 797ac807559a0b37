//! The JSON-RPC codes we send. What they are for is written here; that none is missing, the sources say.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::source::item::text;
use crate::source::tree::Tree;

/// The names that sources call it by, the code, and when it is sent.
const CODES: [(&[&str], i32, &str); 12] = [
    (&["PARSE_ERROR"], -32700, "The message is not JSON."),
    (
        &["INVALID_REQUEST", "invalid_request"],
        -32600,
        "The JSON is not a valid message. Or the caller lacks a scope, which `data.scope` names.",
    ),
    (
        &["METHOD_NOT_FOUND", "method_not_found"],
        -32601,
        "The method is not supported. A host returns this for capabilities that it has not declared.",
    ),
    (
        &["INVALID_PARAMS", "invalid_params"],
        -32602,
        "The parameters are invalid: an unknown tool, prompt, task or cursor, a `requestState` that cannot be opened, invalid arguments of a prompt.",
    ),
    (&["INTERNAL_ERROR", "internal_error"], -32603, "An internal error. The server's log has the details."),
    (
        &["TOO_MUCH", "TRANSPORT_ERROR"],
        -32000,
        "Rejected because of a limit. `data` names the limit and has the time to wait. From a transport: too many requests are open on one connection, or the connection was lost and the outcome of the request is unknown.",
    ),
    (&["NOT_FOUND", "RESOURCE_NOT_FOUND", "resource_not_found"], -32002, "The resource does not exist."),
    (
        &["HEADER_MISMATCH"],
        -32020,
        "On 2026-07-28, the headers and the body of a request differ. A host then lists the tools again and repeats the call once.",
    ),
    (
        &["MISSING_REQUIRED_CLIENT_CAPABILITY", "missing_required_client_capability"],
        -32021,
        "On 2026-07-28, the tool needs a capability that the client has not declared. `data.requiredCapabilities` names it.",
    ),
    (
        &["UNSUPPORTED_PROTOCOL_VERSION", "unsupported_protocol_version"],
        -32022,
        "The server does not support the protocol revision of the request. `data.supported` lists the supported ones.",
    ),
    (
        &["URL_ELICITATION_REQUIRED", "PAGES_REQUIRED"],
        -32042,
        "On 2025-11-25, the user must visit web pages first. `data.elicitations` lists them. A host shows them and calls again.",
    ),
    (&["REFUSED"], -1, "A host's response to a sampling request that the user rejected."),
];

/// What makes an error without saying which.
const OPEN: [&str; 1] = ["new"];

/// The part of the page about codes.
pub(super) fn section(trees: &[&Tree]) -> Result<String> {
    let known: BTreeSet<&str> =
        CODES.iter().flat_map(|(names, ..)| names.iter().copied()).chain(OPEN).collect();
    let used: BTreeSet<String> = trees.iter().flat_map(|tree| used(tree)).collect();
    let unknown: Vec<&str> = used.iter().map(String::as_str).filter(|it| !known.contains(it)).collect();
    ensure!(
        unknown.is_empty(),
        "say in xtask/src/reference/codes.rs when these are sent: {}",
        unknown.join(", ")
    );
    let mut page = String::from(
        "\n## JSON-RPC codes\n\nAn error of a tool is a result with `isError`, which the model reads. All other errors have one of these codes.\n\n| code | meaning |\n|---|---|\n",
    );
    for (names, code, when) in CODES {
        ensure!(
            names.iter().any(|name| used.contains(*name)),
            "nobody sends {code} any more; take it out of xtask/src/reference/codes.rs"
        );
        writeln!(page, "| `{code}` | {when} |")?;
    }
    Ok(page)
}

/// The names by which a crate makes errors, and its own codes.
fn used(tree: &Tree) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (_, item) in tree.items() {
        let source = text(item);
        if let syn::Item::Const(it) = item
            && text(&it.ty) == "i32"
            && text(&it.expr).starts_with('-')
        {
            used.insert(it.ident.to_string());
        }
        let name = |after: &str| -> String {
            after.chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
        };
        // There is another type of this name, whose variants are no constants.
        let codes = source.split("ErrorCode::").skip(1).map(name);
        used.extend(codes.filter(|it| !it.contains(|it: char| it.is_lowercase())));
        used.extend(source.split("ErrorData::").skip(1).map(name));
    }
    used.retain(|it| !it.is_empty());
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_which_nothing_is_said_is_refused() {
        let tree = Tree::of_text(
            "const STRANGE: i32 = -32099;\nfn a() { ErrorData::invalid_params(ErrorCode::Other) }",
        );
        assert_eq!(used(&tree).into_iter().collect::<Vec<_>>(), ["STRANGE", "invalid_params"]);
        assert!(section(&[&tree]).unwrap_err().to_string().contains("STRANGE"));
    }
}
