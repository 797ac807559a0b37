//! How a task comes along, as a stream.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{Stream, stream};
use tokio::sync::mpsc;

use super::{Held, TaskHandle, info::TaskInfo, known::TaskListening, pace::Pace};
use crate::error::Result;

/// More than this is not kept of what a server tells and nobody takes. What is missed is seen at the
/// next look.
const TOLD: usize = 64;

/// Somebody who watches a task.
struct Watch {
    handle: TaskHandle,
    pace: Option<Pace>,
    /// What the server tells by itself.
    told: mpsc::Receiver<TaskInfo>,
    _listening: Option<TaskListening>,
    /// What was learned and not yet handed on, oldest first.
    learned: VecDeque<TaskInfo>,
    last: Option<TaskInfo>,
    over: bool,
}

pub(super) fn updates(handle: TaskHandle) -> impl Stream<Item = Result<TaskInfo>> + Send + use<> {
    let (tell, told) = mpsc::channel(TOLD);
    let tasks = handle.connection.answering().events.tasks();
    let (pace, listening) = match &handle.held {
        Held::Task(task) => {
            let listener = Arc::new(move |info: &TaskInfo| drop(tell.try_send(info.clone())));
            let pace = Pace::new(tasks, &task.id, handle.connection.limits());
            (Some(pace), Some(tasks.listen(&task.id, listener)))
        }
        Held::Result(_) => (None, None),
    };
    let watch = Watch {
        handle,
        pace,
        told,
        _listening: listening,
        learned: VecDeque::new(),
        last: None,
        over: false,
    };
    stream::unfold(watch, |mut watch| async move { watch.next().await.map(|item| (item, watch)) })
}

impl Watch {
    async fn next(&mut self) -> Option<Result<TaskInfo>> {
        while !self.over {
            if let Some(info) = self.learned.pop_front() {
                if self.last.as_ref().is_some_and(|last| last.is_same(&info) && last.trace == info.trace) {
                    continue;
                }
                self.over = info.status.is_finished();
                self.last = Some(info.clone());
                return Some(Ok(info));
            }
            if let Err(error) = self.learn().await {
                self.over = true;
                return Some(Err(error));
            }
        }
        None
    }

    /// Waits until there may be something to learn, and learns it.
    async fn learn(&mut self) -> Result<()> {
        if let (Some(last), Some(pace)) = (&self.last, &mut self.pace) {
            tokio::select! {
                biased;
                Some(info) = self.told.recv() => {
                    self.learned.push_back(info);
                    return Ok(());
                }
                () = pace.rest(last) => {}
            }
        }
        let info = self.handle.status().await?;
        // What was told while it was looked at was told before.
        while let Ok(info) = self.told.try_recv() {
            self.learned.push_back(info);
        }
        self.learned.push_back(info);
        Ok(())
    }
}
