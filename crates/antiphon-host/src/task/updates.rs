//! The states of a task as a stream.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{Stream, stream};
use tokio::sync::mpsc;

use super::{Held, TaskHandle, info::TaskInfo, known::TaskListening, pace::Pace};
use crate::error::Result;

/// The maximum number of stored notifications. If a notification is discarded, the next poll still returns the current
/// state.
const TOLD: usize = 64;

/// The state of the stream that `TaskHandle::updates` returns.
struct Watch {
    handle: TaskHandle,
    pace: Option<Pace>,
    /// The notifications of the server about the task.
    told: mpsc::Receiver<TaskInfo>,
    _listening: Option<TaskListening>,
    /// States that were received but not yet returned, oldest first.
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

    /// Waits until the state may have changed, and stores the new states.
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
        // Notifications that arrived during the poll are older than the result of the poll, so they come first in
        // `learned`.
        while let Ok(info) = self.told.try_recv() {
            self.learned.push_back(info);
        }
        self.learned.push_back(info);
        Ok(())
    }
}
