use std::fmt;

use antiphon_llm::{Reply, Request};
use serde::de::DeserializeOwned;

use super::{
    Sample,
    mode::{Asked, GuaranteedSchema, Mode, Read, Wrong, sealed},
    sampled::SampledSchema,
};
use crate::error::{Result, SampleMethod};

impl<'a, T> Sample<'a, GuaranteedSchema<T>> {
    /// Sets a validation rule that a schema cannot express for the data in the model's reply. For example, the rule can
    /// check that the chosen cell of a board is free.
    ///
    /// If the rule rejects the data, the server asks the model again. The new request contains the model's invalid
    /// reply and the reason why the rule rejected the data.
    ///
    /// # Replay
    ///
    /// Each time the run resumes, the rule checks the same data again. The rule must return the same result each time.
    /// So the rule must not use external state, for example a database or the current time.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct Move { cell: usize }
    /// async fn pick(ctx: &Ctx, free: Vec<usize>) -> Result<String> {
    ///     let reply = ctx
    ///         .sample_schema::<Move>(format!("Pick one of {free:?}."))
    ///         .check(|Move { cell }| {
    ///             if free.contains(cell) { Ok(()) } else { Err(format!("cell {cell} is taken")) }
    ///         })
    ///         .await?;
    ///     Ok(format!("cell {}", reply.parsed.cell))
    /// }
    /// ```
    pub fn check<F>(self, check: F) -> Sample<'a, CheckedSchema<T, F>>
    where
        F: Fn(&T) -> Result<(), String>,
    {
        self.map_mode(|schema| CheckedSchema { schema, check })
    }
}

impl<T, F> Sample<'_, CheckedSchema<T, F>> {
    /// Sets how often the server asks the model again after an invalid reply. Default: 2, so the model has three
    /// attempts.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }
}

/// The mode for a request to which the model replies with data that your own rule validates. After an invalid reply,
/// the server asks the model again.
pub struct CheckedSchema<T, F> {
    schema: GuaranteedSchema<T>,
    check: F,
}

impl<T, F> sealed::Sealed for CheckedSchema<T, F> {}

impl<T, F> Mode for CheckedSchema<T, F>
where
    T: DeserializeOwned,
    F: Fn(&T) -> Result<(), String>,
{
    type Output = SampledSchema<T>;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        self.schema.prepare(request)
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<Self::Output> {
        let sampled = match self.schema.read(asked, reply, id) {
            Read::Done(sampled) => sampled,
            wrong @ Read::Wrong(_) => return wrong,
        };
        match (self.check)(&sampled.parsed) {
            Ok(()) => Read::Done(sampled),
            Err(problem) => {
                let SampledSchema { reply, exchange, parsed: _ } = sampled;
                let (method, problems) = (SampleMethod::SampleSchema, vec![problem]);
                Read::Wrong(Box::new(Wrong { method, reply, shown: exchange.response, problems }))
            }
        }
    }
}

impl<T: fmt::Debug, F> fmt::Debug for CheckedSchema<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedSchema").field("schema", &self.schema).finish_non_exhaustive()
    }
}
