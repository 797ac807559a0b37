//! Names of tools, and names of the arguments of tools.

use std::collections::BTreeSet;

use crate::document::Found;

/// The maximum length of a name, in characters. The APIs of all large model providers accept names of this length.
pub(crate) const MAX_NAME: usize = 64;

/// Returns a unique tool name for each of the operations, in the order of `operations`.
///
/// The tool names depend on all operations of the document. So the name of a tool does not change if you select other
/// operations.
pub(crate) fn tools(operations: &[Found<'_>]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    operations
        .iter()
        .map(|found| {
            let base = found.text("operationId").map(snake_case).filter(|name| !name.is_empty());
            let base = base.unwrap_or_else(|| of_path(found));
            let name = if base.len() > MAX_NAME || taken.contains(&base) {
                with_suffix(&base, &found.title(), &taken)
            } else {
                base
            };
            taken.insert(name.clone());
            name
        })
        .collect()
}

/// Returns a name that consists of the method and the path, for example `get_pets_by_pet_id`.
fn of_path(found: &Found<'_>) -> String {
    let mut words = vec![found.method.to_owned()];
    for segment in found.path.split('/').filter(|segment| !segment.is_empty()) {
        if segment.starts_with('{') {
            words.push("by".to_owned());
        }
        words.push(snake_case(segment));
    }
    words.retain(|word| !word.is_empty());
    words.join("_")
}

/// Shortens a name and adds a hash of the operation. Because of the hash, the name is unique, and does not depend on
/// the order of the operations.
fn with_suffix(base: &str, identity: &str, taken: &BTreeSet<String>) -> String {
    let mut hash = hash(identity);
    loop {
        let suffix = format!("_{:06x}", hash & 0x00ff_ffff);
        let cut = base.len().min(MAX_NAME - suffix.len());
        let name = format!("{}{suffix}", base[..cut].trim_end_matches('_'));
        if !taken.contains(&name) {
            return name;
        }
        hash = hash.wrapping_add(1);
    }
}

/// Returns the FNV-1a hash of a text. The hash function must never change, because the names of tools depend on the
/// hashes.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Converts a text into `snake_case` with ASCII letters, digits and underscores.
pub(crate) fn snake_case(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut name = String::with_capacity(text.len() + 8);
    for (at, &character) in characters.iter().enumerate() {
        if !character.is_ascii_alphanumeric() {
            if !name.ends_with('_') {
                name.push('_');
            }
            continue;
        }
        if character.is_ascii_uppercase() {
            let before = at.checked_sub(1).map(|before| characters[before]);
            let after_lower = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
            let ends_acronym = before.is_some_and(|it| it.is_ascii_uppercase())
                && characters.get(at + 1).is_some_and(char::is_ascii_lowercase);
            if (after_lower || ends_acronym) && !name.ends_with('_') {
                name.push('_');
            }
        }
        name.push(character.to_ascii_lowercase());
    }
    let name = name.trim_matches('_');
    // Some model providers require a letter at the start.
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("op_{name}")
    } else {
        name.to_owned()
    }
}

/// Returns the name of an argument for a parameter. Model providers accept letters, digits, `_`, `-` and `.` in the
/// names of arguments.
pub(crate) fn argument(wire: &str, place: &str, taken: &BTreeSet<String>) -> String {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    let mut name: String =
        wire.chars().map(|character| if is_allowed(character) { character } else { '_' }).collect();
    name.truncate(MAX_NAME - 16);
    let name = match name.trim_matches('_') {
        "" => "argument",
        _ if name == wire => wire,
        trimmed => trimmed,
    };
    if !taken.contains(name) {
        return name.to_owned();
    }
    let second = format!("{name}_{place}");
    if !taken.contains(&second) {
        return second;
    }
    let mut numbered = (2_u32..).map(|number| format!("{second}_{number}"));
    numbered.find(|name| !taken.contains(name)).unwrap_or(second)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    #[test]
    fn operation_ids_become_snake_case() {
        for (id, name) in [
            ("listPets", "list_pets"),
            ("repos/list-for-org", "repos_list_for_org"),
            ("listCoreV1NamespacedPod", "list_core_v1_namespaced_pod"),
            ("getHTTPStatus", "get_http_status"),
            ("GetURL", "get_url"),
            ("__x__", "x"),
            ("2fa.enable", "op_2fa_enable"),
            ("größe", "gr_e"),
        ] {
            assert_eq!(snake_case(id), name, "{id}");
        }
    }

    #[test]
    fn names_are_unique_short_and_independent_of_a_selection() {
        let long = "a".repeat(100);
        let document = json!({"openapi": "3.0.0", "paths": {
            "/a": {"get": {"operationId": "get it"}, "post": {"operationId": "getIt"}, "put": {"operationId": long}},
            "/pets/{petId}": {"delete": {}},
            "/": {"get": {"operationId": "!!!"}},
        }});
        let document = Document::new(document).unwrap();
        let names = tools(&document.operations());
        assert_eq!(names[0], "get_it");
        assert!(names[1].starts_with("get_it_") && names[1].len() == "get_it_".len() + 6, "{names:?}");
        assert_eq!(names[2].len(), MAX_NAME);
        assert_eq!(names[3], "delete_pets_by_pet_id");
        assert_eq!(names[4], "get");
        assert_eq!(names, tools(&document.operations()));
    }

    #[test]
    fn arguments_have_names_that_providers_accept() {
        let mut taken = BTreeSet::new();
        for (wire, name) in [
            ("id", "id"),
            ("id", "id_query"),
            ("filter[name]", "filter_name"),
            ("$top", "top"),
            ("$$", "argument"),
        ] {
            let found = argument(wire, "query", &taken);
            assert_eq!(found, name);
            taken.insert(found);
        }
    }
}
