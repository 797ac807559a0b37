//! Finds text that is not an MCP message on the standard output of a server program.
//!
//! The SDK discards lines that are not MCP messages, and reports no error. If a tool prints text without a line break,
//! the SDK also discards the response that follows on the same line.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A line on the standard output of a server program that is not an MCP message.
///
/// The standard output of a server is only for MCP messages. The host ignores lines that are not MCP messages. A server
/// must write its logs to standard error.
///
/// The host rejects a program that writes more than 16 MiB of other text before its first response. The host also
/// rejects a program that repeats its input as output. If the host rejects a program,
/// [`Error::Connect`](crate::Error::Connect) contains the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayOutput {
    line: String,
}

impl StrayOutput {
    /// Returns the line without control characters. A line of more than 200 characters is cut and ends with `…`.
    pub fn line(&self) -> &str {
        &self.line
    }
}

impl fmt::Display for StrayOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the program wrote a line to standard output that is not an MCP message: `{}`; \
             a server must write logs to standard error",
            self.line
        )
    }
}

impl std::error::Error for StrayOutput {}

#[cfg(feature = "process")]
type Listener = Arc<dyn Fn(&StrayOutput) + Send + Sync>;

/// The stray output that the server program of one connection has written. A clone of `Strays` is a handle to the
/// same output.
#[derive(Clone, Default)]
pub(crate) struct Strays {
    #[cfg(feature = "process")]
    listener: Option<Listener>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// The first stray line of the current program.
    first: Option<StrayOutput>,
    /// The last stray line of the current program.
    last: Option<StrayOutput>,
    /// The number of stray lines of all programs of the connection.
    lines: u64,
    #[cfg(feature = "process")]
    not_a_server: Option<NotAServer>,
}

impl Strays {
    /// Returns a copy for another connection, with the same listener.
    pub(crate) fn fresh(&self) -> Self {
        let mut fresh = self.clone();
        fresh.seen = Arc::default();
        fresh
    }

    /// Returns the first stray line of the current program.
    pub(crate) fn first(&self) -> Option<StrayOutput> {
        self.lock().first.clone()
    }

    /// Returns how many stray lines were read until now, for [`since`](Self::since).
    pub(crate) fn lines(&self) -> u64 {
        self.lock().lines
    }

    /// Returns the last stray line, if the line was read after [`lines`](Self::lines) returned `lines`.
    pub(crate) fn since(&self, lines: u64) -> Option<StrayOutput> {
        let seen = self.lock();
        seen.last.clone().filter(|_| seen.lines > lines)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "process")]
pub(crate) use self::program::{Inspected, NotAServer};

#[cfg(feature = "process")]
mod program {
    use std::{
        io,
        pin::Pin,
        sync::Arc,
        task::{Context, Poll, ready},
    };

    use serde::{Deserialize, de::IgnoredAny};
    use tokio::io::{AsyncRead, ReadBuf};

    use super::{Seen, StrayOutput, Strays};

    /// The maximum number of characters of a reported line.
    const SHOWN: usize = 200;

    /// How many bytes of a line are kept to examine the line.
    const KEPT: usize = 8 * 1024;

    /// The maximum number of bytes of stray output before the first response of a program. A program that writes more
    /// bytes than this limit is not an MCP server.
    const MOST: usize = 16 * 1024 * 1024;

    impl StrayOutput {
        pub(super) fn new(line: &[u8]) -> Self {
            let text = String::from_utf8_lossy(line);
            let mut shown = text.trim().chars().filter(|c| !c.is_control());
            let mut line: String = shown.by_ref().take(SHOWN).collect();
            if shown.next().is_some() {
                line.push('…');
            }
            Self { line }
        }
    }

    impl Strays {
        pub(crate) fn new(listener: impl Fn(&StrayOutput) + Send + Sync + 'static) -> Self {
            Self { listener: Some(Arc::new(listener)), ..Self::default() }
        }

        /// Removes the recorded output of the previous program when the host starts a new program.
        pub(crate) fn begin(&self) {
            let mut seen = self.lock();
            *seen = Seen { lines: seen.lines, ..Seen::default() };
        }

        /// Returns the reason why the program cannot be an MCP server, if its output shows such a reason.
        pub(crate) fn not_a_server(&self) -> Option<NotAServer> {
            self.lock().not_a_server.clone()
        }

        /// Records a stray line. Only the first stray line of a program is reported to the listener.
        pub(super) fn tell(&self, stray: &StrayOutput) {
            {
                let mut seen = self.lock();
                seen.lines += 1;
                seen.last = Some(stray.clone());
                if seen.first.is_some() {
                    return;
                }
                seen.first = Some(stray.clone());
            }
            // The line can contain secrets or the result of a tool.
            tracing::warn!(
                "a server program wrote a line to standard output that is not an MCP message; \
                 a server must write logs to standard error; the log level `debug` shows the line"
            );
            tracing::debug!(line = stray.line(), "the line that is not an MCP message");
            if let Some(listener) = &self.listener {
                listener(stray);
            }
        }

        fn give_up(&self, why: NotAServer) {
            self.lock().not_a_server = Some(why);
        }
    }

    /// The reason why a program cannot be an MCP server.
    #[derive(Clone, Debug, thiserror::Error)]
    pub(crate) enum NotAServer {
        #[error(
            "the program is not an MCP server: it sent the host's own request back; check the command, \
             and do not start it in a terminal that echoes its input"
        )]
        Echo,
        #[error(
            "the program is not an MCP server: it writes other text to standard output, \
             which begins with `{0}`; check the command"
        )]
        Noise(String),
    }

    /// The standard output of a program. `Inspected` reports the stray lines of the program. The stream of output ends
    /// if the program is not an MCP server.
    pub(crate) struct Inspected<R> {
        stream: R,
        strays: Strays,
        /// The incomplete line, up to `KEPT` bytes.
        line: Vec<u8>,
        /// Whether the program has sent a response.
        answered: bool,
        /// How many bytes of stray output were read before the first response.
        stray_bytes: usize,
    }

    impl<R> Inspected<R> {
        pub(crate) fn new(stream: R, strays: Strays) -> Self {
            Self { stream, strays, line: Vec::new(), answered: false, stray_bytes: 0 }
        }

        /// Examines the lines in `bytes`. Returns whether the program can be an MCP server.
        fn inspect(&mut self, bytes: &[u8]) -> bool {
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let room = KEPT - self.line.len();
                self.line.extend_from_slice(&piece[..piece.len().min(room)]);
                if !self.answered && !may_be_message(content(&self.line)) {
                    self.stray_bytes += piece.len();
                }
                if piece.ends_with(b"\n") {
                    self.end_line();
                }
            }
            if !self.answered && self.stray_bytes > MOST {
                // If the first stray line has no line break yet, it is not recorded. So record it now.
                if self.strays.first().is_none() {
                    self.strays.tell(&StrayOutput::new(&self.line));
                }
                let first = self.strays.first().map(|stray| stray.line).unwrap_or_default();
                self.strays.give_up(NotAServer::Noise(first));
            }
            self.strays.not_a_server().is_none()
        }

        fn end_line(&mut self) {
            match kind(&self.line, self.answered) {
                Kind::Stray => self.strays.tell(&StrayOutput::new(content(&self.line))),
                Kind::Echo => self.strays.give_up(NotAServer::Echo),
                Kind::Response => self.answered = true,
                Kind::Other => {}
            }
            self.line.clear();
        }

        /// Examines the last line, which possibly has no line break.
        fn end(&mut self) {
            let line = content(&self.line);
            // An incomplete message of a program that stopped is not stray output.
            if line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_err() {
                self.line.clear();
            } else {
                self.end_line();
            }
        }
    }

    impl<R: AsyncRead + Unpin> AsyncRead for Inspected<R> {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let this = self.get_mut();
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
            let read = &buf.filled()[before..];
            if read.is_empty() && before < buf.capacity() {
                this.end();
            } else if !this.inspect(read) {
                // If no bytes are added to the buffer, the reader treats the stream as ended.
                buf.set_filled(before);
            }
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        /// The line is not a message.
        Stray,
        /// The line is a request of the host.
        Echo,
        /// The line is the first response of the program.
        Response,
        /// The line is a message of another kind, or is empty.
        Other,
    }

    /// Classifies a line by its first `KEPT` bytes.
    fn kind(line: &[u8], answered: bool) -> Kind {
        #[derive(Deserialize)]
        struct Head {
            method: Option<String>,
        }

        let is_cut = line.len() >= KEPT;
        let line = content(line);
        if line.is_empty() {
            return Kind::Other;
        }
        // Every message has the key `jsonrpc`. In a long message, this key can be after the known part.
        let has_key = is_cut || line.windows(9).any(|part| part == br#""jsonrpc""#);
        if !may_be_message(line) || !has_key {
            return Kind::Stray;
        }
        if answered {
            return Kind::Other;
        }
        match serde_json::from_slice(line) {
            // Only hosts send these requests, so the program has repeated its input as output.
            Ok(Head { method: Some(method) }) if matches!(&*method, "server/discover" | "initialize") => {
                Kind::Echo
            }
            Ok(Head { method: None }) => Kind::Response,
            Err(_) if is_cut => Kind::Response,
            Ok(_) | Err(_) => Kind::Other,
        }
    }

    /// Returns a line without a byte order mark and without the surrounding white space.
    fn content(line: &[u8]) -> &[u8] {
        line.strip_prefix(b"\xEF\xBB\xBF".as_slice()).unwrap_or(line).trim_ascii()
    }

    /// Returns whether a line, or its first part, is empty or begins like JSON.
    fn may_be_message(line: &[u8]) -> bool {
        matches!(line.first(), None | Some(b'{' | b'['))
    }

    #[cfg(test)]
    mod tests {
        use tokio::io::AsyncReadExt as _;

        use super::*;

        #[test]
        fn lines_are_classified() {
            for (line, answered, expected) in [
                ("Listening on port 80", true, Kind::Stray),
                ("[INFO] starting", true, Kind::Stray),
                ("{ name: \"Ada\" }", false, Kind::Stray),
                (r#"{"level":"info"}"#, true, Kind::Stray),
                (r#"working... {"jsonrpc":"2.0","id":1,"result":{}}"#, true, Kind::Stray),
                ("", false, Kind::Other),
                ("  \r", false, Kind::Other),
                (r#"{"jsonrpc":"2.0","id":0,"method":"server/discover"}"#, false, Kind::Echo),
                (r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#, true, Kind::Other),
                (r#"{"jsonrpc":"2.0","method":"notifications/message"}"#, false, Kind::Other),
                (
                    r#"{"id":0,"error":{"code":1,"message":"server/discover"},"jsonrpc":"2.0"}"#,
                    false,
                    Kind::Response,
                ),
                ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}", false, Kind::Response),
            ] {
                assert_eq!(kind(line.as_bytes(), answered), expected, "{line}");
            }
            let long = format!(r#"{{"id":0,"result":"{}","jsonrpc":"2.0"}}"#, "a".repeat(KEPT));
            assert_eq!(kind(&long.as_bytes()[..KEPT], false), Kind::Response);
        }

        #[test]
        fn a_long_line_is_cut_and_loses_its_control_characters() {
            assert_eq!(StrayOutput::new(b"\x1b[31mred\x07 alert \n").line(), "[31mred alert");
            let long = StrayOutput::new("ä".repeat(SHOWN + 1).as_bytes());
            assert_eq!(long.line(), "ä".repeat(SHOWN) + "…");
            assert_eq!(StrayOutput::new("ä".repeat(SHOWN).as_bytes()).line(), "ä".repeat(SHOWN));
        }

        async fn read(output: &[u8]) -> (Vec<u8>, Strays) {
            let strays = Strays::default();
            let mut read = Vec::new();
            Inspected::new(output, strays.clone()).read_to_end(&mut read).await.unwrap();
            (read, strays)
        }

        #[tokio::test]
        async fn bytes_stay_as_they_are_and_a_last_line_counts() {
            let output = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n\nhello";
            let (read, strays) = read(output).await;
            assert_eq!(read, output);
            assert_eq!(strays.first().unwrap().line(), "hello");
            assert!(strays.not_a_server().is_none());
        }

        #[tokio::test]
        async fn a_message_that_is_cut_at_the_end_is_not_stray() {
            for (output, expected) in [
                (r#"{"jsonrpc":"2.0","id":0,"resu"#, None),
                (r#"{"id":0,"result""#, None),
                (r#"{"level":"info"}"#, Some(r#"{"level":"info"}"#)),
                ("[INFO] stopping", Some("[INFO] stopping")),
            ] {
                let (_, strays) = read(output.as_bytes()).await;
                assert_eq!(strays.first().as_ref().map(StrayOutput::line), expected, "{output}");
            }
        }

        #[test]
        fn the_last_line_since_a_moment_is_known() {
            let strays = Strays::default();
            strays.tell(&StrayOutput::new(b"banner"));
            let lines = strays.lines();
            assert_eq!(strays.since(lines), None);
            strays.tell(&StrayOutput::new(b"working"));
            assert_eq!(strays.since(lines).unwrap().line(), "working");
            assert_eq!(strays.first().unwrap().line(), "banner");
            // The number of stray lines continues to grow when the host starts another program.
            strays.begin();
            assert_eq!(strays.since(lines), None);
            strays.tell(&StrayOutput::new(b"again"));
            assert_eq!(strays.since(lines).unwrap().line(), "again");
        }

        #[tokio::test]
        async fn noise_without_a_line_break_ends_the_stream() {
            let (read, strays) = read(&vec![b'y'; 3 * MOST]).await;
            assert!(read.len() <= 2 * MOST, "{}", read.len());
            let Some(NotAServer::Noise(first)) = strays.not_a_server() else { panic!("the stream ended") };
            assert!(first.starts_with("yyy"), "{first}");
        }
    }
}
