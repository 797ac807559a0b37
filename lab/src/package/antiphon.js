#!/usr/bin/env node
// Starts the `antiphon` CLI of this platform.
"use strict";

const { spawn } = require("node:child_process");

const name = `@antiphon-rs/cli-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "antiphon.exe" : "antiphon";

let program;
try {
  program = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(
    `error: the package ${name} is not installed: it does not exist for this platform, or npm left it out; ` +
      "install again without `--omit=optional`, or run `cargo install antiphon-cli`",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// Without a handler, Node would end first, and the CLI could not restore the terminal.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    // On Windows, the console sends Ctrl-C to both processes, and `kill` would end the CLI at once.
    if (process.platform !== "win32") child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`error: ${program} could not be started: ${error.message}; install the package again`);
  process.exit(1);
});

child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
