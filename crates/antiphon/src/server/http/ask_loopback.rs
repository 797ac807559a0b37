//! The answer page on the user's own machine, for servers over stdio.

use std::{
    io,
    net::{Ipv4Addr, TcpListener as StdListener},
    process::{Command, Stdio},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use antiphon_http::{ServeConfig, serve};
use axum::Router;
use tokio::{net::TcpListener, runtime::Handle};

use super::{Shared, ask_page};
use crate::{
    asking::page::{Base, Listener, Named},
    base::{lock, now_millis},
    task::Tasks,
};

/// The interval at which the server checks whether a task still needs the answer page.
const CHECK: Duration = Duration::from_secs(2);

/// How long the answer page stays available after the task has ended, in milliseconds. During this time, the browser
/// loads the last page.
const GRACE: u64 = 5000;

/// How long requests in flight can continue after no task needs the answer page any more.
const DRAIN: Duration = Duration::from_secs(1);

/// The maximum number of connections to the answer page. The browsers of one user open fewer connections.
const CONNECTIONS: usize = 64;

/// Adds the answer page on this machine, if the server's configuration contains an answer page on this machine.
pub(in crate::server) fn begin(shared: &Arc<Shared>) {
    let site = shared.service.asking.as_ref().and_then(|asking| asking.site.as_ref());
    if let Some(site) = site.filter(|site| site.base().is_none()) {
        // The reference is weak, because the server owns the listener.
        site.set_listener(Box::new(Loopback { shared: Arc::downgrade(shared), listening: Arc::default() }));
    }
}

/// The answer page at a random port of this machine. The server listens only while a task waits.
struct Loopback {
    shared: Weak<Shared>,
    listening: Arc<Mutex<Option<Listening>>>,
}

struct Listening {
    origin: String,
    /// The tasks that have links. A task no longer needs the answer page when the link of the task has expired.
    tasks: Vec<Named>,
}

impl Listener for Loopback {
    fn listen(&self, task: &Named) -> io::Result<String> {
        let mut listening = lock(&self.listening);
        if let Some(listening) = &mut *listening {
            listening.tasks.retain(|known| known.task != task.task);
            listening.tasks.push(task.clone());
            return Ok(listening.origin.clone());
        }
        let stopped = || io::Error::other("the answer page is no longer available: the server has stopped");
        let shared = self.shared.upgrade().ok_or_else(stopped)?;
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let origin = format!("http://{}", listener.local_addr()?);
        let routes = ask_page::routes(&shared.service, &Base::loopback(origin.clone()));
        runtime.spawn(listen(listener, routes, shared, Arc::clone(&self.listening)));
        *listening = Some(Listening { origin: origin.clone(), tasks: vec![task.clone()] });
        Ok(origin)
    }

    fn open(&self, link: &str) -> io::Result<()> {
        let mut browser = browser(link).spawn()?;
        // This code must wait for the browser process, because an ended process otherwise stays in the list of
        // processes. A separate thread waits, so that the wait does not delay the end of the server.
        std::thread::spawn(move || browser.wait());
        Ok(())
    }
}

/// Serves the answer page until no task needs the page, or until the server shuts down.
async fn listen(
    listener: StdListener,
    routes: Router,
    shared: Arc<Shared>,
    listening: Arc<Mutex<Option<Listening>>>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "the web page with questions cannot listen on this machine");
            *lock(&listening) = None;
            return;
        }
    };
    let Some(tasks) = &shared.service.tasks else { return };
    let end = async {
        tokio::select! {
            () = is_not_needed(tasks, &listening) => {}
            () = shared.drain.draining.cancelled() => *lock(&listening) = None,
        }
    };
    let config = ServeConfig::default().with_max_connections(CONNECTIONS).with_drain(DRAIN);
    serve(listener, routes, config, end).await;
}

/// Completes when no task needs the answer page. Before this function completes, the function also removes the address
/// of the page.
async fn is_not_needed(tasks: &Arc<Tasks>, listening: &Mutex<Option<Listening>>) {
    loop {
        tokio::time::sleep(CHECK).await;
        let known: Vec<Named> =
            lock(listening).as_ref().map(|listening| listening.tasks.clone()).unwrap_or_default();
        let mut ended = Vec::new();
        for task in known {
            let is_over = match tasks.get(&task.owner, &task.task).await {
                Ok(found) => found.is_none_or(|view| view.status.is_final()),
                Err(_) => false,
            };
            if is_over {
                ended.push(task.task);
            }
        }
        let now = now_millis();
        let mut listening = lock(listening);
        let Some(open) = &mut *listening else { return };
        for task in open.tasks.iter_mut().filter(|task| ended.contains(&task.task)) {
            task.expires = task.expires.min(now + GRACE);
        }
        open.tasks.retain(|task| task.expires > now);
        if open.tasks.is_empty() {
            *listening = None;
            return;
        }
    }
}

/// Returns the command that opens a link in the user's browser.
fn browser(link: &str) -> Command {
    let (program, arguments): (_, &[&str]) = if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else if cfg!(target_os = "macos") {
        ("open", &[])
    } else {
        ("xdg-open", &[])
    };
    let mut command = Command::new(program);
    // The browser must not write to standard output, because this process sends MCP messages over standard output.
    command.args(arguments).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_gets_the_link_as_one_argument() {
        let link = "http://127.0.0.1:1/ask/a-b_c";
        let command = browser(link);
        assert_eq!(command.get_args().last().and_then(|argument| argument.to_str()), Some(link));
        let program = command.get_program().to_str().unwrap();
        assert!(["rundll32", "open", "xdg-open"].contains(&program), "{program}");
    }
}
