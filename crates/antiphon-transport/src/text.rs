//! Prepares external text for models and forms: limits the length, and removes line breaks and invisible characters.
//!
//! Only the crates of this workspace use this module.

/// The mark at the end of shortened text.
const CUT: char = '…';

/// Returns at most `limit` characters of `text`, on one line and without control and invisible characters. The second
/// value states whether the text was shortened.
pub fn clean(text: &str, limit: usize) -> (String, bool) {
    let mut clean = String::with_capacity(text.len().min(limit.saturating_mul(4)));
    let mut space = false;
    for (taken, character) in text.chars().filter_map(visible).enumerate() {
        if taken >= limit {
            clean.push(CUT);
            return (clean, true);
        }
        // For a model, several spaces have the same meaning as one space.
        if character != ' ' || !space {
            clean.push(character);
        }
        space = character == ' ';
    }
    (clean, false)
}

/// Returns a space for a line break, `None` for an invisible character, and any other character unchanged. Invisible
/// characters can hide text from users. Invisible characters are control characters, marks that change the writing
/// direction, joiners, and tag characters.
fn visible(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' | '\u{85}' => Some(' '),
        _ if character.is_control() => None,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => None,
        _ => Some(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_removes_characters_that_cannot_be_seen() {
        let hidden = "a\u{0}b\u{1b}[31mc\u{202e}d\u{200b}e\u{e0041}f\r\n\tg";
        assert_eq!(clean(hidden, 100), ("ab[31mcdef g".into(), false));
    }

    #[test]
    fn clean_shortens_at_a_character() {
        assert_eq!(clean("äöü", 3), ("äöü".into(), false));
        assert_eq!(clean("äöüß", 3), ("äöü…".into(), true));
        assert_eq!(clean("anything", 0), ("…".into(), true));
        assert_eq!(clean("anything", usize::MAX), ("anything".into(), false));
    }
}
