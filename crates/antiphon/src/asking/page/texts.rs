//! Creates the texts that tell a model how the user reaches the answer page. Most of these texts contain a link. This
//! module also opens the user's browser.

use std::io;

use super::{Site, links::Named};
use crate::{
    asking::{Asking, forms},
    base::{lock, millis, now_millis},
    task::TaskView,
};

/// Serves the answer page on this machine, and opens links in the user's browser.
pub(crate) trait Listener: Send + Sync {
    /// Starts to serve the answer page on a local port, until the task has ended or the link has expired. Returns the
    /// origin of the answer page.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen on a port.
    fn listen(&self, task: &Named) -> io::Result<String>;

    /// Opens a link in the user's browser.
    ///
    /// # Errors
    ///
    /// Returns an error if the browser cannot be opened.
    fn open(&self, link: &str) -> io::Result<()>;
}

/// When the server has recorded this number of links that it opened in the browser, the server removes the expired
/// records.
const OPENED: usize = 1024;

impl Site {
    /// Returns a text that tells a model how the user reaches the questions of a task. If the settings require a
    /// browser, this method opens the browser once for each set of questions. If `again` is true, this method opens the
    /// browser again.
    fn step(&self, view: &TaskView, again: bool) -> String {
        let step =
            if self.page.opens_browser { self.start_browser(view, again) } else { self.show_link(view) };
        step.unwrap_or_else(|error| {
            tracing::warn!(%error, "the web page with a question could not be shown; check that the server can listen on 127.0.0.1 and start a browser");
            "The server cannot show the web page with the question now. Tell the user so.".to_owned()
        })
    }

    fn show_link(&self, view: &TaskView) -> io::Result<String> {
        let (link, _) = self.link(view)?;
        let signs_in = view.owner.number().is_some() && !self.page.bearer_links;
        let there = if signs_in { "They sign in and answer there." } else { "They answer there." };
        Ok(format!(
            "Show the user this link: {link} {there} Do not open the link yourself. \
             The link expires soon: `task_result` returns a new link."
        ))
    }

    fn start_browser(&self, view: &TaskView, again: bool) -> io::Result<String> {
        let questions: Vec<_> = forms(view).map(|(key, _)| key.as_str()).collect();
        let questions = format!("{} {}", view.id, questions.join(" "));
        let now = now_millis();
        let is_open = lock(&self.opened).get(&questions).is_some_and(|end| *end > now);
        if again || !is_open {
            let (link, end) = self.link(view)?;
            self.listener()?.open(&link)?;
            let mut opened = lock(&self.opened);
            if opened.len() >= OPENED {
                opened.retain(|_, end| *end > now);
            }
            opened.insert(questions, end);
        }
        Ok("The question is open in the user's web browser. They answer there.".to_owned())
    }

    /// Creates a link to the questions of a task. Returns the link, and the time at which the link expires.
    fn link(&self, view: &TaskView) -> io::Result<(String, u64)> {
        let end = now_millis().saturating_add(millis(self.page.life));
        let expires = view.questions_end.map_or(end, |questions_end| questions_end.min(end));
        let named = Named { task: view.id.clone(), owner: view.owner.clone(), expires };
        let place = match &self.base {
            Some(base) => format!("{}{}", base.origin, base.path),
            None => self.listener()?.listen(&named)?,
        };
        Ok((format!("{place}/ask/{}", self.token(&named)), expires))
    }

    fn listener(&self) -> io::Result<&dyn Listener> {
        let unbuilt = || io::Error::other("the answer page has no server: call `ServerBuilder::build` first");
        let listener = self.listener.get().ok_or_else(unbuilt)?;
        Ok(&**listener)
    }
}

impl Asking {
    /// Returns a text that tells a model how the user reaches the answer page. Returns `None` if users cannot answer
    /// the questions of the task on the answer page.
    pub(in crate::asking) fn page_step(&self, view: &TaskView, again: bool) -> Option<String> {
        let site = self.site.as_ref().filter(|_| view.channels.page)?;
        Some(site.step(view, again))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        asking::{
            page::{
                AskPage,
                tests::{at, site, with_users},
            },
            waiting::tests::waits,
        },
        run::Channels,
        task::Tasks,
    };

    fn view(principal: Option<&str>) -> TaskView {
        let channels = Channels { page: true, ..Channels::default() };
        let questions_end = Some(now_millis() + 60_000);
        TaskView { owner: Tasks::owner(principal), questions_end, ..waits("May they start?", channels) }
    }

    #[test]
    fn model_receives_a_link_that_expires_with_the_question() {
        let site = site(&with_users(at()));
        let view = view(Some("ada"));
        let text = site.step(&view, false);
        let (before, rest) = text.split_once("https://mcp.example.com/ask/").unwrap();
        assert_eq!(before, "Show the user this link: ");
        let (token, rest) = rest.split_once(' ').unwrap();
        assert!(rest.starts_with("They sign in and answer there."), "{rest}");
        let named = site.named(token, now_millis()).unwrap();
        assert_eq!((named.task, named.owner), (view.id, view.owner));
        assert_eq!(Some(named.expires), view.questions_end);
    }

    /// A listener that counts how often the test calls each method.
    #[derive(Default)]
    struct Fake {
        starts: Arc<AtomicUsize>,
        is_broken: bool,
    }

    impl Listener for Fake {
        fn listen(&self, _: &Named) -> io::Result<String> {
            Ok("http://127.0.0.1:1".to_owned())
        }

        fn open(&self, link: &str) -> io::Result<()> {
            assert!(link.starts_with("http://127.0.0.1:1/ask/"), "{link}");
            self.starts.fetch_add(1, Ordering::Relaxed);
            if self.is_broken { Err(io::Error::other("no browser was found")) } else { Ok(()) }
        }
    }

    #[test]
    fn browser_is_started_once_for_each_question_and_the_model_receives_no_link() {
        let (site, fake) = (site(&AskPage::loopback().open_browser(true)), Fake::default());
        let starts = Arc::clone(&fake.starts);
        site.set_listener(Box::new(fake));
        let mut view = view(None);
        let text = site.step(&view, false);
        assert_eq!(text, "The question is open in the user's web browser. They answer there.");
        assert_eq!(site.step(&view, false), text);
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        site.step(&view, true);
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        let question = view.asks.remove("approval").unwrap();
        view.asks.insert("approval@2".to_owned(), question);
        site.step(&view, false);
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn browser_that_does_not_start_is_reported_without_the_link_and_tried_again() {
        let site = site(&AskPage::loopback().open_browser(true));
        let fake = Fake { is_broken: true, ..Fake::default() };
        let starts = Arc::clone(&fake.starts);
        site.set_listener(Box::new(fake));
        for tries in 1..=2 {
            let text = site.step(&view(None), false);
            assert!(text.starts_with("The server cannot show") && !text.contains("http"), "{text}");
            assert_eq!(starts.load(Ordering::Relaxed), tries);
        }
    }

    #[test]
    fn page_on_this_machine_gives_its_link_if_it_does_not_start_a_browser() {
        let site = site(&AskPage::loopback());
        site.set_listener(Box::new(Fake::default()));
        let text = site.step(&view(None), false);
        assert!(text.starts_with("Show the user this link: http://127.0.0.1:1/ask/"), "{text}");
        assert!(text.contains(" They answer there. Do not open the link yourself."), "{text}");
    }
}
