use std::sync::LazyLock;

use redis::Cmd;

/// A Lua script and its digest.
pub(super) struct Script {
    code: &'static str,
    digest: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, digest: redis::Script::new(code).get_hash().to_owned() }
    }

    /// Returns the command that runs the script on the data at `key`, if the server has the script.
    pub(super) fn by_digest(&self, key: &str) -> Cmd {
        command("EVALSHA", &self.digest, key)
    }

    /// Returns the command that runs the script and stores it on the server.
    pub(super) fn by_code(&self, key: &str) -> Cmd {
        command("EVAL", self.code, key)
    }
}

fn command(name: &str, script: &str, key: &str) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script).arg(1).arg(key);
    cmd
}

macro_rules! scripts {
    ($($name:ident = $($part:expr),+;)+) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(concat!($($part),+)));)+
    };
}

scripts! {
    OPEN = include_str!("lua/open.lua");
    GET = include_str!("lua/get.lua");
    WRITE = include_str!("lua/write.lua");
    DELETE = include_str!("lua/delete.lua");
    LIST = include_str!("lua/list.lua");
    CLAIM = include_str!("lua/claim.lua");
    REMOVE = include_str!("lua/remove.lua");
    APPEND = include_str!("lua/append.lua");
    READ = include_str!("lua/read.lua");
    NOW = "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)";
    // If the memory is full, pushes are rejected, but existing jobs can still be finished.
    PUSH = "#!lua\n", include_str!("lua/queue.lua"), include_str!("lua/push.lua");
    LEASE = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/lease.lua");
    EXTEND = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/extend.lua");
    ACK = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/ack.lua");
    NACK = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/nack.lua");
    BURY = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/bury.lua");
    DEAD = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/dead.lua");
    SETTLE = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), include_str!("lua/settle.lua");
    DEPTH = "#!lua flags=no-writes\n", include_str!("lua/queue.lua"), include_str!("lua/depth.lua");
    REWAKE = "#!lua flags=allow-oom\n", include_str!("lua/queue.lua"), "wake_one()";
}
