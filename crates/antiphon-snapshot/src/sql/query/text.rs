//! The first check of a query: the text of the query and its tokens.

use antiphon_results::DualResponseError;
use datafusion::sql::sqlparser::{
    dialect::GenericDialect,
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Tokenizer},
};

use crate::engine::refusal::{not_valid, refused, too_deep};

/// The maximum length of a query in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The maximum nesting depth of parentheses in a query.
const MAX_NESTING: usize = 64;
/// The maximum number of tokens in a query.
const MAX_TOKENS: usize = 8_000;

pub(super) fn check_length(sql: &str) -> Result<(), DualResponseError> {
    if sql.len() > MAX_BYTES {
        return Err(refused(
            "too_long",
            format!("the query has {} bytes, and the maximum is {MAX_BYTES}; shorten the query", sql.len()),
        ));
    }
    Ok(())
}

/// Returns the tokens of a single read-only statement.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, DualResponseError> {
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| not_valid(&error.to_string()))?;
    let mut depth = 0_usize;
    let mut ended = false;
    let mut first = None;
    for token in &tokens {
        match &token.token {
            Token::Whitespace(_) | Token::EOF => continue,
            Token::SemiColon => {
                ended |= first.is_some();
                continue;
            }
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        if ended {
            return Err(refused(
                "one_statement",
                "the query has a second statement after the semicolon; send one statement",
            ));
        }
        if depth > MAX_NESTING {
            return Err(too_deep());
        }
        first.get_or_insert(&token.token);
    }
    if tokens.len() > MAX_TOKENS {
        return Err(refused("too_long", "the query has too many tokens; shorten the query"));
    }
    match first {
        None => Err(not_valid("the query is empty")),
        Some(Token::LParen) => Ok(tokens),
        Some(Token::Word(word)) if word.quote_style.is_none() => match word.keyword {
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM => Ok(tokens),
            _ => Err(only_reads()),
        },
        Some(token) => {
            Err(not_valid(&format!("a query cannot begin with `{token}`; begin with SELECT or WITH")))
        }
    }
}

/// Creates the error for a statement that can write.
pub(super) fn only_reads() -> DualResponseError {
    refused("read_only", "queries are read-only; begin with SELECT or WITH, without INTO and FOR UPDATE")
}
