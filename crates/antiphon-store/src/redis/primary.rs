use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use redis::{
    Cmd, ErrorKind, PushKind, RedisError, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use super::dial::{Dialer, OnPush};

/// The connection that operations share, to a single server or to the primary that Sentinel names.
///
/// A lost connection is opened again when the next command needs a connection. `ConnectionManager` of the client
/// library also opens a lost connection again, but only to one fixed address. The errors of `ConnectionManager` do not
/// show whether a command failed because no connection could be opened.
#[derive(Clone)]
pub(super) struct Primary {
    inner: Arc<Inner>,
}

struct Inner {
    dialer: Dialer,
    open: Mutex<Option<Open>>,
    /// The error of the last attempt to connect. The lock is held during an attempt to connect.
    failure: tokio::sync::Mutex<Option<RedisError>>,
    /// The number of attempts to connect that have ended.
    attempts: AtomicU64,
}

/// An open connection.
#[derive(Clone)]
pub(super) struct Open {
    connection: MultiplexedConnection,
    lost: Arc<AtomicBool>,
}

impl Primary {
    pub(super) async fn connect(dialer: Dialer) -> RedisResult<Self> {
        let inner = Inner {
            dialer,
            open: Mutex::default(),
            failure: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
        };
        let primary = Self { inner: Arc::new(inner) };
        primary.connection().await?;
        Ok(primary)
    }

    /// Returns the open connection, or opens a connection. If `connection` returns an error, no command was sent.
    pub(super) async fn connection(&self) -> RedisResult<Open> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let attempts = self.inner.attempts.load(Ordering::Acquire);
        let mut failure = self.inner.failure.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        // While this call waited for the lock, another call tried to connect and failed. This call returns the error
        // of the other call, so that many waiting calls do not try one after the other.
        if let Some(error) =
            failure.as_ref().filter(|_| self.inner.attempts.load(Ordering::Acquire) != attempts)
        {
            return Err(error.clone());
        }
        let opened = self.dial().await;
        *failure = opened.as_ref().err().cloned();
        *self.state() = opened.as_ref().ok().cloned();
        self.inner.attempts.fetch_add(1, Ordering::Release);
        opened
    }

    async fn dial(&self) -> RedisResult<Open> {
        let lost = Arc::new(AtomicBool::new(false));
        let on_push: OnPush = {
            let lost = Arc::clone(&lost);
            Arc::new(move |push| {
                if push.kind == PushKind::Disconnection {
                    lost.store(true, Ordering::Release);
                }
            })
        };
        let connection = self.inner.dialer.dial_node(None, Some(on_push)).await?;
        Ok(Open { connection, lost })
    }

    fn current(&self) -> Option<Open> {
        self.state().as_ref().filter(|open| !open.lost.load(Ordering::Acquire)).cloned()
    }

    fn state(&self) -> MutexGuard<'_, Option<Open>> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    pub(super) async fn query(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = cmd.query_async(&mut self.connection).await;
        if answer.as_ref().is_err_and(leads_elsewhere) {
            self.lost.store(true, Ordering::Release);
        }
        answer
    }
}

/// Returns `true` if the connection is lost, or if the server of the connection is not the primary.
fn leads_elsewhere(error: &RedisError) -> bool {
    let kind = error.kind();
    error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || matches!(kind, ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}
