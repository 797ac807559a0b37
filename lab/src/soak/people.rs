//! Who calls.

use fastrand::Rng;
use sha2::{Digest as _, Sha256};

/// Somebody with a key.
#[derive(Debug)]
pub(super) struct Person {
    pub(super) name: &'static str,
    pub(super) key: String,
}

/// Those who behave, and one who does not.
#[derive(Debug)]
pub(super) struct People {
    guests: Vec<Person>,
    pub(super) glutton: Person,
}

const GUESTS: [&str; 8] = ["ada", "ben", "cleo", "dan", "eve", "finn", "gail", "hugo"];

impl People {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut person = |name| Person { name, key: format!("{:032x}{:032x}", rng.u128(..), rng.u128(..)) };
        Self { glutton: person("glutton"), guests: GUESTS.map(person).into() }
    }

    /// Somebody.
    pub(super) fn one(&self, rng: &mut Rng) -> &Person {
        &self.guests[rng.usize(..self.guests.len())]
    }

    /// Somebody else.
    pub(super) fn other(&self, than: &Person, rng: &mut Rng) -> &Person {
        let others: Vec<&Person> = self.guests.iter().filter(|it| it.name != than.name).collect();
        others[rng.usize(..others.len())]
    }

    /// What the program is told of them: no key is in it.
    pub(super) fn hashes(&self) -> String {
        let hash = |person: &Person| {
            let digest = Sha256::digest(person.key.as_bytes());
            let digits: String =
                digest.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
            format!("{}={digits}", person.name)
        };
        self.guests.iter().chain([&self.glutton]).map(hash).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_their_own_other_and_no_key_is_told() {
        let mut rng = Rng::with_seed(1);
        let people = People::draw(&mut rng);
        for _ in 0..100 {
            let one = people.one(&mut rng);
            assert_ne!(people.other(one, &mut rng).name, one.name);
            assert!(!people.hashes().contains(&one.key));
        }
    }
}
