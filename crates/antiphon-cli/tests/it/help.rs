//! What the command says of itself, and to whom it is used wrongly.

use insta::assert_snapshot;

use crate::ground::Folder;

/// Every command, with its subcommands: found in the help itself, so that none is forgotten.
async fn commands(folder: &Folder) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let help = folder.help(&path.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let listed = help.split_once("Commands:\n").map_or("", |(_, after)| after);
        for line in listed.lines().take_while(|line| line.starts_with(' ') || line.is_empty()) {
            let indented = line.len() - line.trim_start().len();
            let name = line.split_whitespace().next().unwrap_or("help");
            if indented == 2 && name != "help" {
                open.push([&path[..], &[name.to_owned()]].concat());
            }
        }
        if !path.is_empty() {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_says_what_it_does_and_gives_an_example() {
    let folder = Folder::new();
    let all = commands(&folder).await;
    assert!(all.len() >= 14, "{all:?}");
    for path in all {
        let help = folder.help(&path.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(!help.starts_with("Usage"), "`{path:?}` does not say what it does:\n{help}");
        let example = help.split_once("Example").map_or("", |(_, after)| after);
        assert!(example.contains("antiphon "), "`{path:?}` has no example:\n{help}");
    }
}

#[tokio::test]
async fn command_alone_lists_what_it_can_do() {
    let folder = Folder::new();
    let help = folder.help(&[]).await;
    assert_snapshot!(help, @r"
    Call the tools of MCP servers, answer their questions, and inspect results and runs

    Usage: antiphon [OPTIONS] <COMMAND>

    Commands:
      connect      Connect to a server, show its capabilities, and save it under a name. Without
                   arguments, list the saved servers
      tools        List a server's tools, or show one
      call         Call a tool and answer its questions
      prompts      List a server's prompts, or get one
      resources    List a server's resources, or read one
      tasks        List, show, follow and cancel tasks: calls that run in the background
      results      Show, sort, filter, query and export the rows behind a tool's answer
      doctor       Check servers: show their capabilities and report problems. No tool is called
      studio       Open a web page to call tools, answer their questions, and watch their runs
      runs         List, show, retry, cancel and delete the runs of a server
      seal         Inspect a sealed state (`requestState`) with its encryption key
      new          Create a project: a server, a test and a Dockerfile
      dev          Build a server when its sources change, and replace it behind an open connection
      pack         Create an MCP bundle (`.mcpb`) from the project in the working folder
      install      Add a server to the configuration of a host, or list the servers of the hosts
      uninstall    Remove a server from the configuration of a host
      serve        Serve an example. Without arguments, list the examples
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --json
              Print JSON instead of text

          --config <FOLDER>
              Set the folder of `config.toml` and `servers.json` [default: the platform's configuration
              folder]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show the log messages and the standard error output of servers

    Exit codes:
      0    done
      1    failed
      2    the command line is not valid
      3    the requested item does not exist, or there was nothing to do
      4    the tool returned an error
      5    a question was declined, or no user was present to answer it
      6    the server cannot be reached, or rejects the credentials
      130  interrupted
    ");
}

#[tokio::test]
async fn help_of_the_commands_is_as_it_should_be() {
    let folder = Folder::new();
    assert_snapshot!(folder.help(&["connect"]).await, @"
    Connect to a server, show its capabilities, and save it under a name. Without arguments, list the
    saved servers

    Usage: antiphon connect [OPTIONS] [NAME] [URL|COMMAND]...

    Arguments:
      [NAME]
              The name to save the server under

      [URL|COMMAND]...
              The server's URL, or a program with its arguments. Put `--` before a program that has
              flags

    Options:
          --dry-run
              Connect and show the server, but do not save it

          --replace
              Replace the server that already has this name

          --remove <NAME>
              Delete a saved server

          --env <NAME=VALUE>
              Set an environment variable of the program, as `NAME=value`. Can be given more than once

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --header <HEADER>
              Send this header, as `Name: value`. Can be given more than once

          --token <TOKEN>
              Send this bearer token instead of the configured `Authorization`. Prefer `ANTIPHON_TOKEN`,
              because other users can see the command line. The variable is not used for servers with a
              configured `Authorization` or from `.mcp.json`

          --sse
              Use HTTP+SSE of 2024-11-05, the predecessor of streamable HTTP

          --revision <REVISION>
              Use this protocol revision [default: the newest that both sides support]

              Possible values:
              - 2026-07-28: Without sessions: the server sends questions in its responses
              - 2025-11-25: With a session: the server sends questions during the call

    Everywhere:
          --json
              Print JSON instead of text

          --config <FOLDER>
              Set the folder of `config.toml` and `servers.json` [default: the platform's configuration
              folder]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show the log messages and the standard error output of servers

    Examples:
      antiphon connect weather https://weather.example.com/mcp --header 'Authorization: Bearer
      ${WEATHER_TOKEN}'
      antiphon connect everything -- npx -y @modelcontextprotocol/server-everything
      antiphon connect
      antiphon connect --remove weather
    ");
    assert_snapshot!(folder.help(&["results"]).await, @"
    Show, sort, filter, query and export the rows behind a tool's answer

    Usage: antiphon results [OPTIONS] <URL|FILE>
           antiphon results <COMMAND>

    Commands:
      export  Export all rows of a result set to a file
      query   Query a result set with SQL. The answer is a new result set
      open    Open a result set in the browser, with all rows, sorting, filters and charts
      stats   Show statistics of each column: minimum, maximum, missing values and distribution
      info    Show the metadata of a result set
      pin     Keep a result set until it is deleted
      unpin   Let a pinned result set expire again
      delete  Delete a result set. This cannot be undone
      help    Print this message or the help of the given subcommand(s)

    Arguments:
      <URL|FILE>  The `resource.url` of a tool's answer, or a file with the output of `antiphon call
                  --json`. `-` reads standard input

    Options:
          --offset <OFFSET>     Start at this row, counted from 0 [default: 0]
          --limit <LIMIT>       Show at most this number of rows [default: 20]
          --sort <COLUMN,…>     Sort by these columns, the first one first. `-name` or `name:desc` sorts
                                in descending order
          --filter <CONDITION>  Keep only rows that match: `amount>=100`, `name~college`, `state in (NJ,
                                NY)`, `closed is null`. Can be given more than once
          --columns <COLUMNS>   Show only these columns, in this order [default: all that fit]
      -h, --help                Print help

    Connection:
          --origin <URL>     Allow requests to this origin, for the rows of a file or for the redirect
                             of an export. The origin of a URL argument is always allowed
          --header <HEADER>  Send this header, as `Name: value`. Can be given more than once
          --token <TOKEN>    Send this bearer token. Prefer the environment variable, because other
                             users can see the command line [env: ANTIPHON_TOKEN]

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Examples:
      antiphon results http://127.0.0.1:3001/resources/abc123 --filter 'size>=1000' --sort=-size
      antiphon call reports search_institutions --json > answer.json
      antiphon results answer.json --origin http://127.0.0.1:3001
      antiphon results export http://127.0.0.1:3001/resources/abc123 --format csv --output all.csv
    ");
    assert_snapshot!(folder.help(&["results", "export"]).await, @"
    Export all rows of a result set to a file.

    If the connection breaks, the CLI reconnects and continues. An interrupted export stays as
    `FILE.part`, and `--resume` continues it.

    Usage: antiphon results export [OPTIONS] <URL|FILE>

    Arguments:
      <URL|FILE>
              The `resource.url` of a tool's answer, or a file with the output of `antiphon call
              --json`. `-` reads standard input

    Options:
          --format <FORMAT>
              Set the format of the rows [default: from the file's extension, or ndjson]

              Possible values:
              - csv:     CSV, for spreadsheets
              - ndjson:  One JSON object per line
              - json:    One JSON array of objects
              - arrow:   An Arrow IPC stream
              - parquet: Parquet. For all rows, this is the file that the server stores
              - xlsx:    An Excel workbook

      -o, --output <FILE>
              Write to this file. `-` is standard output [default: standard output]

          --force
              Overwrite an existing file

          --resume
              Continue an interrupted export. Otherwise start a new one

          --sort <COLUMN,…>
              Sort by these columns, the first one first. `-name` or `name:desc` sorts in descending
              order

          --filter <CONDITION>
              Keep only rows that match: `amount>=100`, `name~college`, `state in (NJ, NY)`, `closed is
              null`. Can be given more than once

          --columns <COLUMNS>
              Write only these columns, in this order [default: all]

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --origin <URL>
              Allow requests to this origin, for the rows of a file or for the redirect of an export.
              The origin of a URL argument is always allowed

          --header <HEADER>
              Send this header, as `Name: value`. Can be given more than once

          --token <TOKEN>
              Send this bearer token. Prefer the environment variable, because other users can see the
              command line
              
              [env: ANTIPHON_TOKEN]

    Everywhere:
          --json
              Print JSON instead of text

          --config <FOLDER>
              Set the folder of `config.toml` and `servers.json` [default: the platform's configuration
              folder]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show the log messages and the standard error output of servers

    Examples:
      antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet
      antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet --resume
      antiphon results export URL -o large.csv --filter 'amount>=100' --sort=-amount --columns id,amount
      antiphon results export answer.json --origin http://127.0.0.1:3001 | jq .name
    ");
    assert_snapshot!(folder.help(&["results", "query"]).await, @"
    Query a result set with SQL. The answer is a new result set

    Usage: antiphon results query [OPTIONS] <URL|FILE> <SQL>

    Arguments:
      <URL|FILE>  The `resource.url` of a tool's answer, or a file with the output of `antiphon call
                  --json`. `-` reads standard input
      <SQL>       The SQL query, which reads the set as the table `result`. `-` reads standard input

    Options:
          --table <NAME=SET>  Use another set on the same server as the table NAME. Can be given more
                              than once
          --name <NAME>       Set the name of the answer
      -h, --help              Print help

    Connection:
          --origin <URL>     Allow requests to this origin, for the rows of a file or for the redirect
                             of an export. The origin of a URL argument is always allowed
          --header <HEADER>  Send this header, as `Name: value`. Can be given more than once
          --token <TOKEN>    Send this bearer token. Prefer the environment variable, because other
                             users can see the command line [env: ANTIPHON_TOKEN]

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Examples:
      antiphon results query URL 'SELECT state, count(*) AS n FROM result GROUP BY state'
      antiphon results query URL 'SELECT * FROM result EXCEPT SELECT * FROM old' --table old=rs_xyz
      antiphon results query URL - < question.sql
    ");
    assert_snapshot!(folder.help(&["results", "open"]).await, @"
    Open a result set in the browser, with all rows, sorting, filters and charts.

    The URL contains a signed link. Anyone who has the link can read this one set. A new link expires
    after at most one hour.

    Usage: antiphon results open [OPTIONS] <URL|FILE>

    Arguments:
      <URL|FILE>
              The `resource.url` of a tool's answer, or a file with the output of `antiphon call
              --json`. `-` reads standard input

    Options:
          --print
              Print the URL, and do not open a browser

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --origin <URL>
              Allow requests to this origin, for the rows of a file or for the redirect of an export.
              The origin of a URL argument is always allowed

          --header <HEADER>
              Send this header, as `Name: value`. Can be given more than once

          --token <TOKEN>
              Send this bearer token. Prefer the environment variable, because other users can see the
              command line
              
              [env: ANTIPHON_TOKEN]

    Everywhere:
          --json
              Print JSON instead of text

          --config <FOLDER>
              Set the folder of `config.toml` and `servers.json` [default: the platform's configuration
              folder]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show the log messages and the standard error output of servers

    Examples:
      antiphon results open http://127.0.0.1:3001/resources/abc123
      antiphon results open http://127.0.0.1:3001/resources/abc123 --print
    ");
    assert_snapshot!(folder.help(&["doctor"]).await, @r#"
    Check servers: show their capabilities and report problems. No tool is called

    Usage: antiphon doctor [OPTIONS] <SERVER>...

    Arguments:
      <SERVER>...
              The servers: names from the configuration, URLs, or programs with their arguments, in
              quotes

    Options:
          --as <HOST>
              Describe the server as users of this host see it: claude-web, claude-desktop, claude-ios,
              chatgpt, vscode, cursor, zed, goose, gemini-cli, codex, declining, accepting-empty,
              hanging or generic

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --header <HEADER>
              Send this header, as `Name: value`. Can be given more than once

          --token <TOKEN>
              Send this bearer token instead of the configured `Authorization`. Prefer `ANTIPHON_TOKEN`,
              because other users can see the command line. The variable is not used for servers with a
              configured `Authorization` or from `.mcp.json`

          --sse
              Use HTTP+SSE of 2024-11-05, the predecessor of streamable HTTP

          --revision <REVISION>
              Use this protocol revision [default: the newest that both sides support]

              Possible values:
              - 2026-07-28: Without sessions: the server sends questions in its responses
              - 2025-11-25: With a session: the server sends questions during the call

    Everywhere:
          --json
              Print JSON instead of text

          --config <FOLDER>
              Set the folder of `config.toml` and `servers.json` [default: the platform's configuration
              folder]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show the log messages and the standard error output of servers

    Examples:
      antiphon doctor https://mcp.example.com/mcp
      antiphon doctor "npx -y @modelcontextprotocol/server-everything" weather
      antiphon doctor --as claude-web https://mcp.example.com/mcp

    The exit code is 0 if every server can be used, and 1 if not.
    "#);
    assert_snapshot!(folder.help(&["new"]).await, @r"
    Create a project: a server, a test and a Dockerfile

    Usage: antiphon new [OPTIONS] <NAME>

    Arguments:
      <NAME>  The folder to create. Its last part is the project's name

    Options:
          --http           Serve over HTTP [default: standard input and output]
          --owner <OWNER>  Set the GitHub account in the server's name for the MCP Registry [default:
                           OWNER, which you replace later]
          --path <FOLDER>  Build with the Antiphon source in this folder instead of crates.io
      -h, --help           Print help

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Examples:
      antiphon new hello --path ../antiphon && cd hello && cargo test
      antiphon new weather --path ../antiphon --http

    Antiphon is not on crates.io yet: until then, `--path` is needed.
    ");
    assert_snapshot!(folder.help(&["serve"]).await, @r#"
    Serve an example. Without arguments, list the examples

    Usage: antiphon serve [OPTIONS] [EXAMPLE]

    Arguments:
      [EXAMPLE]  The example to serve

    Options:
          --http <ADDRESS>  Serve over HTTP at this address [default: standard input and output]
          --store <URL>     Set the store that replicas share: memory:, or with the feature `backends`
                            postgres://…, redis://… or nats://… [default: memory:]
          --keys <KEYS>     Set the encryption keys that all processes with this store share: 1=<64 hex
                            digits>. Required for every store except memory: [env: ANTIPHON_KEYS]
          --database <URL>  Set the database of `institutions`: postgres://…
      -h, --help            Print help

    Model:
          --model <PROVIDER:NAME>  Answer sampling requests with this model. Providers: openai,
                                   anthropic, gemini, ollama, compatible
          --model-url <URL>        Set the provider's base URL, for example `http://127.0.0.1:8080/v1`
                                   [default: the provider's standard URL]
          --model-key-env <NAME>   Read the provider's API key from this environment variable [default:
                                   the provider's standard variable]

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Examples:
      antiphon serve
      antiphon serve hello --http 127.0.0.1:8000
      antiphon call "antiphon serve hello" greet
    "#);
    assert_snapshot!(folder.help(&["seal", "inspect"]).await, @r#"
    Decrypt a sealed state and show its contents

    Usage: antiphon seal inspect [OPTIONS] --server <SERVER> --tool <TOOL> <STATE>

    Arguments:
      <STATE>  The `requestState`. `-` reads standard input

    Options:
          --keys <KEYS>            Set the server's encryption keys, as `1=<64 hex digits>`, separated
                                   by commas. Prefer the environment variable [env: ANTIPHON_KEYS]
          --server <SERVER>        Set the server's name, or its `SealConfig::with_audience`
          --tool <TOOL>            Set the tool of the call. For a prompt, use its name. For a resource,
                                   use its URI
          --arguments <ARGUMENTS>  Set the arguments of the call, as JSON [default: {}]
          --principal <PRINCIPAL>  Set the principal of the call, if the server authenticates callers
          --method <METHOD>        Set the method of the call [default: tools/call]
          --values                 Show the values too. They can contain secrets of the caller
      -h, --help                   Print help

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Example:
      ANTIPHON_KEYS=1=<64 hex digits> antiphon seal inspect "$STATE" --server shop --tool checkout
      --arguments '{"item": "tea"}'

    The encrypted state is bound to its call. Pass the same values as in the original call.
    "#);
    assert_snapshot!(folder.help(&["completions"]).await, @"
    Print a completion script for a shell

    Usage: antiphon completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell to complete commands for [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help  Print help

    Everywhere:
          --json             Print JSON instead of text
          --config <FOLDER>  Set the folder of `config.toml` and `servers.json` [default: the platform's
                             configuration folder] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show the log messages and the standard error output of servers

    Example:
      antiphon completions bash > ~/.local/share/bash-completion/completions/antiphon
    ");
}

#[tokio::test]
async fn wrong_use_says_what_to_do() {
    let folder = Folder::new();
    assert_snapshot!(folder.run(&["cal"]).await.whole(), @"
    exit 2
    --- out
    --- err
    error: unrecognized subcommand 'cal'

      tip: some similar subcommands exist: 'seal', 'call'

    Usage: antiphon [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    let prompt = folder.run(&["prompts", "notes", "summarize", "--name", "fern"]).await;
    assert!(prompt.code == Some(2) && prompt.err.contains("as '--arg NAME=VALUE'"), "{prompt:?}");
    assert!(!prompt.err.contains("similar"), "{prompt:?}");
    let typo = folder.run(&["prompts", "notes", "summarize", "--revisin", "2025-11-25"]).await;
    assert!(typo.code == Some(2) && typo.err.contains("'--revision'"), "{typo:?}");
    assert!(!typo.err.contains("NAME=VALUE'"), "{typo:?}");
    let tasks = folder.run(&["tasks", "reports"]).await;
    assert!(tasks.code == Some(2) && tasks.err.contains("tip: 'antiphon tasks list SERVER'"), "{tasks:?}");
    assert_snapshot!(folder.run(&["doctor", "nine"]).await.whole(), @"
    exit 2
    --- out
    --- err
    error: there is no server `nine`, and no such program; no servers are configured yet: `antiphon connect NAME URL` adds one
    ");
    assert_snapshot!(folder.run(&["doctor", "ftp://example.com"]).await.whole(), @"
    exit 2
    --- out
    --- err
    error: `ftp` is not supported; use http, https, ws or wss
    ");
    assert_snapshot!(folder.run(&["connect", "x", "http://127.0.0.1:1/mcp"]).await.whole(), @"
    exit 6
    --- out
    --- err
    error: could not connect to http://127.0.0.1:1/mcp: Connection refused (os error 111)
    hint: no server listens at this address. Start it, or check the port
    ");
    assert_snapshot!(folder.run(&["connect", "--remove", "x"]).await.whole(), @"
    exit 3
    --- out
    --- err
    the server `x` does not exist
    ");
    assert_snapshot!(folder.run(&["doctor"]).await.whole(), @"
    exit 2
    --- out
    --- err
    error: the following required arguments were not provided:
      <SERVER>...

    Usage: antiphon doctor --config <FOLDER> <SERVER>...

    For more information, try '--help'.
    ");
    assert_snapshot!(folder.run(&["results"]).await.whole(), @"
    exit 2
    --- out
    --- err
    error: the following required arguments were not provided:
      <URL|FILE>

    Usage: antiphon results --config <FOLDER> <URL|FILE>

    For more information, try '--help'.
    ");
    assert_snapshot!(folder.run_with(&["results", "-"], &[], "{").await.whole(), @"
    exit 2
    --- out
    --- err
    error: `-` is not JSON: EOF while parsing an object at line 1 column 1
    ");
    folder.write("config.toml", "modle = 1\n");
    let here = folder.path().to_str().unwrap();
    assert_snapshot!(folder.run(&["connect", "--config", here]).await.whole(), @"
    exit 1
    --- out
    --- err
    error: [folder]/config.toml cannot be read: TOML parse error at line 1, column 1
      |
    1 | modle = 1
      | ^^^^^
    unknown field `modle`, expected `model` or `read`
    ");
    folder.write("config.toml", "");
    folder.write("servers.json", r#"{"mcpServers": {"a": {"url": 5}}}"#);
    assert_snapshot!(folder.run(&["connect", "--config", here]).await.whole(), @"
    exit 1
    --- out
    --- err
    error: the entry `a` in [folder]/servers.json is not a valid server: invalid type: integer `5`, expected a string
    ");
}

#[tokio::test]
async fn completions_know_the_commands() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.run(&["completions", shell]).await;
        assert!(script.code == Some(0) && script.out.contains("doctor"), "{shell}");
    }
}
