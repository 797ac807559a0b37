use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

/// The name of one question or step in a run: `scope/name#occurrence`.
///
/// A key contains the scope, the name that the tool's author chose, and the number of the occurrence of this name. The
/// key of the first occurrence has no number. Keys are readable, because clients receive keys in `inputRequests`, and
/// drift errors contain keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Returns the key as text, as it appears in MCP messages.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name that the tool's author chose, without the scope and the numbers of the occurrence and the
    /// attempt.
    pub fn name(&self) -> &str {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        name.split(['#', '~']).next().unwrap_or_default()
    }

    /// Returns whether this key is equal to `scope`, or belongs to a question or step inside the scope at any depth.
    pub fn is_within(&self, scope: &str) -> bool {
        self.0.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the key of another attempt at the question with this key: `key~attempt`.
    #[must_use]
    pub fn attempt(&self, attempt: u32) -> Self {
        Self::from(format!("{}~{attempt}", self.0))
    }

    /// Returns the key text `scope/name`, without the number of an occurrence.
    ///
    /// `/`, `#` and `~` separate the parts of a key, so each of these characters becomes `_` in a name. Control
    /// characters in a name also become `_`. An empty name becomes `_`.
    pub(crate) fn base(scope: &str, name: &str) -> String {
        let mut base = String::with_capacity(scope.len() + name.len() + 1);
        if !scope.is_empty() {
            base.push_str(scope);
            base.push('/');
        }
        if name.is_empty() {
            base.push('_');
        }
        base.extend(name.chars().map(|c| match c {
            '/' | '#' | '~' => '_',
            c if c.is_control() => '_',
            c => c,
        }));
        base
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(Key::from(key))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
