//! Reads rows from a body of JSON lines while the body arrives.

use std::{io::BufRead, mem, str};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use http::StatusCode;

use super::{
    error::{DualResponseClientError, Result},
    exchange::{complete, failed, length},
    fetch::{FetchBody, FetchResponse},
    parsed::Inner,
};
use crate::{error::BoxError, rows::Rows};

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 16 << 20;

/// A reader that splits a body into rows without parsing the rows. A row is taken directly from the received piece of
/// the body. If a row spans two received pieces, its parts are joined first.
pub(super) struct Lines {
    body: FetchBody,
    status: StatusCode,
    announced: Option<u64>,
    came: u64,
    /// Received bytes that are not split into rows yet.
    piece: Bytes,
    /// Start of a row whose end has not arrived.
    begun: Vec<u8>,
    ended: bool,
}

impl Lines {
    pub(super) fn new(answer: FetchResponse) -> Result<Self> {
        if !answer.framed {
            let message = "the response has neither a length nor chunked encoding, so the client cannot check that the response is complete";
            return Err(DualResponseClientError::answer(answer.status.as_u16(), message));
        }
        Ok(Self {
            announced: length(&answer),
            status: answer.status,
            body: answer.body,
            came: 0,
            piece: Bytes::new(),
            begun: Vec::new(),
            ended: false,
        })
    }

    /// Returns up to `size` rows. Returns fewer than `size` rows at the end of the body, or if the rows reach the
    /// maximum size of a page. Reads no more of the body than necessary.
    pub(super) async fn batch(&mut self, inner: &Inner, size: usize) -> Result<Rows> {
        let mut rows = Rows::new();
        loop {
            self.cut(&mut rows, size, inner.setup.max_body)?;
            if rows.len() == size || rows.bytes() >= inner.setup.max_body || self.ended {
                return Ok(rows);
            }
            match inner.within(async { Ok(self.body.next().await) }).await? {
                Some(piece) => {
                    self.piece = piece
                        .map_err(|error| failed("the connection was lost during the response", error))?;
                    self.came += self.piece.len() as u64;
                }
                None => self.end(&mut rows)?,
            }
        }
    }

    /// Reads rows from the received bytes, until no complete row is left or `rows` has `size` rows.
    fn cut(&mut self, rows: &mut Rows, size: usize, bytes: usize) -> Result<()> {
        while rows.len() < size && rows.bytes() < bytes && !self.piece.is_empty() {
            let mut rest = &self.piece[..];
            let length = rest.skip_until(b'\n').unwrap_or(self.piece.len());
            if self.begun.len() + length > MAX_LINE {
                let message = format!("a row is longer than {MAX_LINE} bytes");
                return Err(DualResponseClientError::TooLarge(message));
            }
            let line = &self.piece[..length];
            if !line.ends_with(b"\n") {
                self.begun.extend_from_slice(line);
            } else if self.begun.is_empty() {
                push(rows, line)?;
            } else {
                self.begun.extend_from_slice(line);
                push(rows, &mem::take(&mut self.begun))?;
            }
            self.piece.advance(length);
        }
        Ok(())
    }

    /// Handles the end of the body. The last line needs no line break, but all announced bytes must have arrived.
    fn end(&mut self, rows: &mut Rows) -> Result<()> {
        self.ended = true;
        complete(self.status, self.announced, self.came)?;
        push(rows, &mem::take(&mut self.begun))
    }
}

fn push(rows: &mut Rows, line: &[u8]) -> Result<()> {
    let line = str::from_utf8(line).map_err(|error| wrong(error.into()))?;
    if line.trim_ascii_end().is_empty() {
        return Ok(());
    }
    rows.push_json(line).map_err(|error| wrong(error.into()))
}

/// Creates the error for an invalid row.
pub(super) fn wrong(error: BoxError) -> DualResponseClientError {
    DualResponseClientError::broken("the response contains an invalid row", error)
}
