//! The store behind the programs' backs: what an accident, a failover or an operator can do to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::project;
use crate::services::{Backend, postgres_program};

/// The space that `examples/deployed` uses.
const SPACE: &str = "onboarding";

/// Where a task record says its format: behind the number of its write.
const FORMAT_BYTE: usize = 16;

/// A way into the store beside the programs.
#[derive(Debug, Clone)]
pub(super) struct Store {
    backend: Backend,
    url: String,
}

impl Store {
    pub(super) fn new(backend: Backend, url: &str) -> Self {
        Self { backend, url: url.to_owned() }
    }

    /// Deletes all jobs, and returns how many there were.
    pub(super) fn drop_jobs(&self) -> Result<u64> {
        match self.backend {
            Backend::Postgres => {
                let counted =
                    "with gone as (delete from antiphon.jobs returning 1) select count(*) from gone";
                Ok(self.sql(counted)?.trim().parse()?)
            }
            Backend::Redis => {
                let script = "local jobs = 0 \
                    for _, key in ipairs(redis.call('KEYS', ARGV[1])) do \
                        if string.sub(key, -4) == ':ids' then jobs = jobs + redis.call('HLEN', key) end \
                        redis.call('DEL', key) \
                    end \
                    return jobs";
                let said = self.redis(&["EVAL", script, "0", &format!("antiphon:v1:{{{SPACE}.q.*")])?;
                number(&said)
            }
            Backend::Nats => {
                let said = self.nats("$JS.API.STREAM.PURGE.antiphon_v1_jobs", b"")?;
                let said: Value = serde_json::from_str(&said)?;
                said["purged"].as_u64().with_context(|| format!("the jobs were not purged: {said}"))
            }
        }
    }

    /// Removes the entries of waiting jobs from Redis' streams with `XDEL`, and returns how many there were. Their ids
    /// stay.
    pub(super) fn delete_entries(&self) -> Result<u64> {
        let script = "local jobs = 0 \
            for _, key in ipairs(redis.call('KEYS', ARGV[1])) do \
                for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do \
                    jobs = jobs + redis.call('XDEL', key, entry[1]) \
                end \
            end \
            return jobs";
        number(&self.redis(&["EVAL", script, "0", &format!("antiphon:v1:{{{SPACE}.q.*:s")])?)
    }

    /// Marks all task records as written in `format`, and returns how many there are. Format 0 is today's.
    pub(super) fn set_format(&self, format: u8) -> Result<u64> {
        match self.backend {
            Backend::Postgres => {
                let marked = format!(
                    "with marked as (update antiphon.records set value = set_byte(value, {FORMAT_BYTE}, {format}) \
                     where key like 'tasks/%' returning 1) select count(*) from marked"
                );
                Ok(self.sql(&marked)?.trim().parse()?)
            }
            Backend::Redis => {
                let script = "local keys = redis.call('KEYS', ARGV[1]) \
                    for _, key in ipairs(keys) do \
                        local value, at = redis.call('HGET', key, 'v'), tonumber(ARGV[2]) \
                        value = string.sub(value, 1, at) .. string.char(ARGV[3]) .. string.sub(value, at + 2) \
                        redis.call('HSET', key, 'v', value) \
                    end \
                    return #keys";
                let keys = format!("antiphon:v1:{{{SPACE}.*}}:r:tasks/*");
                let words = ["EVAL", script, "0", &keys, &FORMAT_BYTE.to_string(), &format.to_string()];
                number(&self.redis(&words)?)
            }
            Backend::Nats => {
                let subjects = self.nats_tasks()?;
                for subject in &subjects {
                    let wanted = format!("{{\"last_by_subj\":\"{subject}\"}}");
                    let said = self.nats("$JS.API.STREAM.MSG.GET.antiphon_v1_records", wanted.as_bytes())?;
                    let said: Value = serde_json::from_str(&said)?;
                    let data = said["message"]["data"].as_str();
                    let mut value = STANDARD.decode(data.with_context(|| format!("no record: {said}"))?)?;
                    *value.get_mut(FORMAT_BYTE).context("a record has a format")? = format;
                    self.nats(subject, &value)?;
                }
                Ok(subjects.len() as u64)
            }
        }
    }

    /// Deletes all task records, and returns how many there were.
    pub(super) fn drop_tasks(&self) -> Result<u64> {
        match self.backend {
            Backend::Postgres => {
                let counted = "with gone as (delete from antiphon.records where key like 'tasks/%' returning 1) \
                    select count(*) from gone";
                Ok(self.sql(counted)?.trim().parse()?)
            }
            Backend::Redis => {
                let script = "local keys = redis.call('KEYS', ARGV[1]) \
                    for _, key in ipairs(keys) do redis.call('DEL', key) end \
                    return #keys";
                number(&self.redis(&[
                    "EVAL",
                    script,
                    "0",
                    &format!("antiphon:v1:{{{SPACE}.*}}:r:tasks/*"),
                ])?)
            }
            Backend::Nats => {
                let wanted = format!("{{\"filter\":\"antiphon.v1.records.{SPACE}.tasks.>\"}}");
                let said = self.nats("$JS.API.STREAM.PURGE.antiphon_v1_records", wanted.as_bytes())?;
                let said: Value = serde_json::from_str(&said)?;
                said["purged"].as_u64().with_context(|| format!("the records were not purged: {said}"))
            }
        }
    }

    /// The subjects of task records in NATS.
    fn nats_tasks(&self) -> Result<Vec<String>> {
        let wanted = format!("{{\"subjects_filter\":\"antiphon.v1.records.{SPACE}.tasks.>\"}}");
        let said = self.nats("$JS.API.STREAM.INFO.antiphon_v1_records", wanted.as_bytes())?;
        let said: Value = serde_json::from_str(&said)?;
        let subjects = said["state"]["subjects"].as_object();
        Ok(subjects.with_context(|| format!("there are no task records: {said}"))?.keys().cloned().collect())
    }

    /// Runs SQL and returns what it printed, without decoration.
    pub(super) fn sql(&self, query: &str) -> Result<String> {
        let mut command = Command::new(postgres_program("psql")?);
        command.args([
            "--no-psqlrc",
            "--tuples-only",
            "--no-align",
            "--set",
            "ON_ERROR_STOP=1",
            "--command",
            query,
        ]);
        project::read(command.arg(&self.url))
    }

    /// Sends one command and returns the answer, which is no array.
    fn redis(&self, words: &[&str]) -> Result<String> {
        let mut stream = BufReader::new(self.connect()?);
        let (user, password) = self.login()?;
        let mut bytes = Vec::new();
        for words in [&["AUTH", user, password][..], words] {
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
            }
        }
        stream.get_mut().write_all(&bytes)?;
        let mut answer = String::new();
        for _ in 0..2 {
            answer.clear();
            stream.read_line(&mut answer)?;
            ensure!(!answer.starts_with('-'), "Redis refused {}: {}", words[0], answer.trim());
        }
        Ok(answer.trim().to_owned())
    }

    /// Sends one request and returns the payload of the answer.
    fn nats(&self, subject: &str, payload: &[u8]) -> Result<String> {
        let mut stream = BufReader::new(self.connect()?);
        let (user, password) = self.login()?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let hello = format!("CONNECT {{\"user\":\"{user}\",\"pass\":\"{password}\",\"verbose\":false}}\r\n");
        let length = payload.len();
        let request = format!("{hello}SUB _INBOX.field 1\r\nPUB {subject} _INBOX.field {length}\r\n");
        stream.get_mut().write_all(&[request.as_bytes(), payload, b"\r\n"].concat())?;
        loop {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "NATS hung up");
            if let Some(rest) = line.strip_prefix("MSG ") {
                let length = rest.split_whitespace().last().context("a message has a length")?.parse()?;
                let mut payload = vec![0; length];
                stream.read_exact(&mut payload)?;
                return Ok(String::from_utf8(payload)?);
            }
            ensure!(!line.starts_with("-ERR"), "NATS refused {subject}: {}", line.trim());
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let place = self.url.rsplit('@').next().context("a URL names a server")?;
        let stream = TcpStream::connect(place)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(stream)
    }

    fn login(&self) -> Result<(&str, &str)> {
        let login = self.url.split("//").nth(1).and_then(|rest| rest.split('@').next());
        match login.and_then(|login| login.split_once(':')) {
            Some(login) => Ok(login),
            None => bail!("{} has no user and password", self.url),
        }
    }
}

fn number(answer: &str) -> Result<u64> {
    answer.trim_start_matches(':').parse().with_context(|| format!("Redis answered `{answer}`"))
}
