//! What stands above an item: its documents, and what it is there for.

use proc_macro2::TokenTree;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

/// The text above an item, without what `include_str!` would bring.
pub(crate) fn docs(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(doc_line).collect();
    lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// The first sentence.
pub(crate) fn summary(docs: &str) -> String {
    sentences(&first_paragraph(docs)).into_iter().next().map(|it| plain(&it)).unwrap_or_default()
}

/// What the documents state as the default.
pub(crate) fn default(docs: &str) -> Option<String> {
    let sentence = sentences(&prose(docs)).into_iter().find(|it| it.starts_with("Default: "))?;
    Some(plain(sentence.trim_start_matches("Default: ").trim_end_matches('.')))
}

/// All of the first paragraph, in one line.
pub(crate) fn paragraph(docs: &str) -> String {
    plain(&first_paragraph(docs))
}

fn first_paragraph(docs: &str) -> String {
    prose(docs.split("\n\n").next().unwrap_or_default())
}

/// What is said before the first example or heading, in one line.
fn prose(docs: &str) -> String {
    let lines = docs.lines().take_while(|line| !line.starts_with("```") && !line.starts_with("# "));
    lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find(". ").map(|at| from + at) {
        // Within brackets a sentence does not end, nor before a small letter.
        let begins = rest[at + 2..].starts_with(|it: char| !it.is_lowercase());
        let inside = rest[..at].matches('(').count() > rest[..at].matches(')').count();
        if begins && !inside {
            found.push(rest[..=at].to_owned());
            rest = &rest[at + 2..];
            from = 0;
        } else {
            from = at + 2;
        }
    }
    if !rest.is_empty() {
        found.push(rest.to_owned());
    }
    found
}

/// Text without links into the documents of a crate: their targets are not there in a book.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, link) = rest.split_at(open);
        plain.push_str(before);
        let code = before.matches('`').count() % 2 == 1;
        let closed = link.find(']').filter(|_| !code);
        let Some(close) = closed else {
            plain.push('[');
            rest = &link[1..];
            continue;
        };
        let (shown, after) = (&link[1..close], &link[close + 1..]);
        let target = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        match target {
            Some((url, after)) if url.starts_with("http") => {
                plain.extend(["[", shown, "](", url, ")"]);
                rest = after;
            }
            Some((_, after)) => {
                plain.push_str(shown);
                rest = after;
            }
            None if shown.starts_with('`') => {
                plain.push_str(shown);
                rest = after;
            }
            None => {
                plain.push_str(&link[..=close]);
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Whether nobody is to see it.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    list(attributes, "doc").iter().any(|it| it.path().is_ident("hidden"))
}

/// Whether it is for tests alone.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    list(attributes, "cfg").iter().any(|it| it.path().is_ident("test") || it.path().is_ident("doctest"))
}

/// Under which conditions it is there, in words: features by their names.
pub(crate) fn conditions(attributes: &[Attribute]) -> Vec<String> {
    list(attributes, "cfg").iter().map(condition).collect()
}

/// Conditions without those that follow from another.
pub(crate) fn necessary(conditions: &[String]) -> Vec<&str> {
    let follows = |it: &&String| {
        let mut one_of = it.split(" or ");
        it.contains(" or ")
            && !it.contains(" and ")
            && one_of.any(|one| conditions.iter().any(|it| it == one))
    };
    conditions.iter().filter(|it| !follows(it)).map(String::as_str).collect()
}

fn condition(meta: &Meta) -> String {
    let parts = |meta: &Meta| -> Vec<String> {
        let Meta::List(list) = meta else { return Vec::new() };
        let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        parts.into_iter().flatten().map(|it| condition(&it)).collect()
    };
    match meta {
        Meta::NameValue(pair) if pair.path.is_ident("feature") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => name.value(),
            _ => String::new(),
        },
        Meta::List(list) if list.path.is_ident("any") => parts(meta).join(" or "),
        Meta::List(list) if list.path.is_ident("all") => parts(meta).join(" and "),
        Meta::List(list) if list.path.is_ident("not") => format!("not {}", parts(meta).join(", ")),
        other => other.path().segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>().join("::"),
    }
}

/// The text that an attribute holds first: `#[error("…")]`.
pub(crate) fn first_text(attributes: &[Attribute], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|it| it.path().is_ident(name))?;
    let Meta::List(list) = &attribute.meta else { return None };
    match list.tokens.clone().into_iter().next()? {
        TokenTree::Literal(literal) => match Lit::new(literal) {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// What is derived for it.
pub(crate) fn derives(attributes: &[Attribute]) -> Vec<String> {
    let traits = list(attributes, "derive");
    let last = |meta: &Meta| meta.path().segments.last().map(|it| it.ident.to_string());
    traits.iter().filter_map(last).collect()
}

/// The attribute `name`, as it is written.
pub(crate) fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|it| it.path().is_ident(name))
}

/// All that attributes of this name list.
fn list(attributes: &[Attribute], name: &str) -> Vec<Meta> {
    let named = attributes.iter().filter(|it| it.path().is_ident(name));
    let parsed = named.filter_map(|it| {
        it.meta.require_list().ok()?.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()
    });
    parsed.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sentence_and_default_are_found() {
        let docs = "How long `a. b` may take (at most. Really). [`Other`](crate::Other) says\nmore. Default: 5 s.\n\nMore.";
        assert_eq!(summary(docs), "How long `a. b` may take (at most. Really).");
        assert_eq!(default(docs).as_deref(), Some("5 s"));
        assert_eq!(default("Sets it."), None);
    }

    #[test]
    fn links_into_a_crate_become_words() {
        let text = "See [`Quota`], [the tour](crate::auth) and [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728); `_meta[\"x\"]`.";
        assert_eq!(
            plain(text),
            "See `Quota`, the tour and [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728); `_meta[\"x\"]`."
        );
    }

    #[test]
    fn conditions_are_told_in_words() {
        let item: syn::ItemFn = syn::parse_quote! {
            #[cfg(all(feature = "http", not(feature = "auth")))]
            #[cfg(any(feature = "a", feature = "b"))]
            pub fn served() {}
        };
        assert_eq!(conditions(&item.attrs), ["http and not auth", "a or b"]);
    }
}
