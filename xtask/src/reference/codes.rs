//! The JSON-RPC codes we send. What they are for is written here; that none is missing, the sources say.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::source::item::text;
use crate::source::tree::Tree;

/// The names that sources call it by, the code, and when it is sent.
const CODES: [(&[&str], i32, &str); 12] = [
    (&["PARSE_ERROR"], -32700, "What came is not JSON."),
    (
        &["INVALID_REQUEST", "invalid_request"],
        -32600,
        "It is JSON and no message; or the caller may not do this, and `data.scope` says what it takes.",
    ),
    (
        &["METHOD_NOT_FOUND", "method_not_found"],
        -32601,
        "Nobody serves this method; a host answers so to what it has not declared.",
    ),
    (
        &["INVALID_PARAMS", "invalid_params"],
        -32602,
        "The parameters do not fit: an unknown tool, prompt, task or cursor, a `requestState` that cannot be opened, arguments that are none.",
    ),
    (&["INTERNAL_ERROR", "internal_error"], -32603, "The server is at fault; its log says more."),
    (
        &["TOO_MUCH", "TRANSPORT_ERROR"],
        -32000,
        "Refused because of a limit: `data` says which, and when to come again. From a transport: too many requests are open on one connection; or it was lost, and the request may have been carried out.",
    ),
    (&["NOT_FOUND", "RESOURCE_NOT_FOUND", "resource_not_found"], -32002, "There is no such resource."),
    (
        &["HEADER_MISMATCH"],
        -32020,
        "The headers and the body of a request disagree, on 2026-07-28. A host that is told so asks for the tools again and calls once more.",
    ),
    (
        &["MISSING_REQUIRED_CLIENT_CAPABILITY", "missing_required_client_capability"],
        -32021,
        "The tool would have to ask what the client has not declared, on 2026-07-28: `data.requiredCapabilities` names it.",
    ),
    (
        &["UNSUPPORTED_PROTOCOL_VERSION", "unsupported_protocol_version"],
        -32022,
        "The request is of a revision that is not spoken here: `data.supported` has those that are.",
    ),
    (
        &["URL_ELICITATION_REQUIRED", "PAGES_REQUIRED"],
        -32042,
        "The person must visit pages first, on 2025-11-25: `data.elicitations` names them. A host shows them and calls again.",
    ),
    (&["REFUSED"], -1, "A host's answer to a sample that was refused."),
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
        "\n## JSON-RPC codes\n\nErrors of a tool are answers with `isError`, for the model to read. These are the ones that are not.\n\n| code | when |\n|---|---|\n",
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
