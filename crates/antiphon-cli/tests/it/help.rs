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
    assert_snapshot!(help, @"
    Talk to MCP servers: call their tools, answer what they ask, look at their results and runs

    Usage: antiphon [OPTIONS] <COMMAND>

    Commands:
      connect      Connect to a server, show what it is, and keep it under a name. Alone: list what is
                   kept
      tools        List a server's tools, or show one
      call         Call a tool, and answer what it asks
      prompts      List a server's prompts, or get one
      resources    List a server's resources, or read one
      tasks        List, follow and cancel tasks: calls that go on without us
      results      Look at the rows behind a tool's answer: page, sort, filter, ask, export
      doctor       Find out what a server declares and what will work with it. No tool is called
      studio       Open a page in the browser to call tools, answer what they ask, and watch their runs
      runs         Look at the runs of a server, try them again, cancel them, remove them
      seal         Look into a `requestState`, with its key
      new          Make a ready project: a server, a test, a Dockerfile
      serve        Serve one of the examples. Alone: list them
      completions  Print completions for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --json
              Print JSON, for programs to read

          --config <FOLDER>
              The folder with `config.toml` and `servers.json` [default: the platform's usual place]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show what servers write to their log and to standard error

    Exit codes:
      0    done
      1    failed
      2    misused: the error says how to use it
      3    there is no such thing, or there was nothing to do
      4    the tool answered with an error
      5    a question was declined, or nobody was there to answer it
      6    the server cannot be reached, or does not let you in
      130  interrupted
    ");
}

#[tokio::test]
async fn help_of_the_commands_is_as_it_should_be() {
    let folder = Folder::new();
    assert_snapshot!(folder.help(&["connect"]).await, @"
    Connect to a server, show what it is, and keep it under a name. Alone: list what is kept

    Usage: antiphon connect [OPTIONS] [NAME] [URL|COMMAND]...

    Arguments:
      [NAME]
              What to call it

      [URL|COMMAND]...
              Its URL, or its program with arguments. Put `--` before a program that has flags of its
              own

    Options:
          --dry-run
              Only look; keep nothing

          --replace
              Take the place of a server that has this name already

          --remove <NAME>
              No longer keep this one

          --env <NAME=VALUE>
              A variable for the program's environment, `NAME=value`. May be given several times

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --header <HEADER>
              A header to send along, `Name: value`. May be given several times

          --token <TOKEN>
              A bearer token, instead of the server's own `Authorization`. Better in `ANTIPHON_TOKEN`
              than on the command line, where others see it; from there it is taken for servers that
              have no `Authorization` of their own

          --sse
              The URL is one of the HTTP+SSE of 2024-11-05, which came before streamable HTTP

          --revision <REVISION>
              Which revision of MCP to speak [default: the newest both know]

              Possible values:
              - 2026-07-28: Without sessions: the server asks in its answers
              - 2025-11-25: With a session: the server asks while the call is under way

    Everywhere:
          --json
              Print JSON, for programs to read

          --config <FOLDER>
              The folder with `config.toml` and `servers.json` [default: the platform's usual place]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show what servers write to their log and to standard error

    Examples:
      antiphon connect weather https://weather.example.com/mcp --header 'Authorization: Bearer
      ${WEATHER_TOKEN}'
      antiphon connect everything -- npx -y @modelcontextprotocol/server-everything
      antiphon connect
      antiphon connect --remove weather
    ");
    assert_snapshot!(folder.help(&["results"]).await, @"
    Look at the rows behind a tool's answer: page, sort, filter, ask, export

    Usage: antiphon results [OPTIONS] <URL|FILE>
           antiphon results <COMMAND>

    Commands:
      export  Write all rows of a result set to a file
      query   Ask a question of a result set in SQL. The answer is a result set of its own
      open    Look at a result set in the browser: all rows, sorted, filtered, as a chart
      stats   What is in each column: least, greatest, missing, and how it is spread
      info    What the server knows of a result set
      pin     Keep a result set until it is deleted
      unpin   Let a pinned result set expire again
      delete  Delete a result set. It cannot be brought back
      help    Print this message or the help of the given subcommand(s)

    Arguments:
      <URL|FILE>  The `resource.url` of a tool's answer, or a file with the answer as `antiphon call
                  --json` prints it; `-` reads standard input

    Options:
          --offset <OFFSET>     The first row to show, counted from 0 [default: 0]
          --limit <LIMIT>       How many rows to show [default: 20]
          --sort <COLUMN,…>     The columns to sort by, the first first; `-name` or `name:desc` begins
                                with the greatest
          --filter <CONDITION>  Only rows of which this is true: `amount>=100`, `name~college`, `state
                                in (NJ, NY)`, `closed is null`. May be given several times
          --columns <COLUMNS>   Which columns to show, in this order [default: all that fit]
      -h, --help                Print help

    Connection:
          --origin <URL>     Where a file's rows may be fetched from, or where a server may send you for
                             an export. A URL that you typed needs no leave
          --header <HEADER>  A header to send along, `Name: value`. May be given several times
          --token <TOKEN>    A bearer token. Better in the environment than on the command line, where
                             others see it [env: ANTIPHON_TOKEN]

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

    Examples:
      antiphon results http://127.0.0.1:3001/resources/abc123 --filter 'size>=1000' --sort=-size
      antiphon call reports search_institutions --json > answer.json
      antiphon results answer.json --origin http://127.0.0.1:3001
      antiphon results export http://127.0.0.1:3001/resources/abc123 --format csv --output all.csv
    ");
    assert_snapshot!(folder.help(&["results", "export"]).await, @"
    Write all rows of a result set to a file.

    A connection that breaks is made again, and goes on where it was. What is interrupted stays as
    `FILE.part`, and `--resume` goes on with it.

    Usage: antiphon results export [OPTIONS] <URL|FILE>

    Arguments:
      <URL|FILE>
              The `resource.url` of a tool's answer, or a file with the answer as `antiphon call --json`
              prints it; `-` reads standard input

    Options:
          --format <FORMAT>
              How rows are written [default: as the file's name ends, or ndjson]

              Possible values:
              - csv:     A table for spreadsheets
              - ndjson:  An object a line
              - json:    One array of objects
              - arrow:   An Arrow IPC stream
              - parquet: Parquet: where all rows are wanted, the file as the server keeps it
              - xlsx:    A workbook

      -o, --output <FILE>
              The file; `-` is standard output [default: standard output]

          --force
              Write over a file that is there

          --resume
              Go on with an export that was interrupted. If there is none, begin

          --sort <COLUMN,…>
              The columns to sort by, the first first; `-name` or `name:desc` begins with the greatest

          --filter <CONDITION>
              Only rows of which this is true: `amount>=100`, `name~college`, `state in (NJ, NY)`,
              `closed is null`. May be given several times

          --columns <COLUMNS>
              Which columns to write, in this order [default: all]

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --origin <URL>
              Where a file's rows may be fetched from, or where a server may send you for an export. A
              URL that you typed needs no leave

          --header <HEADER>
              A header to send along, `Name: value`. May be given several times

          --token <TOKEN>
              A bearer token. Better in the environment than on the command line, where others see it
              
              [env: ANTIPHON_TOKEN]

    Everywhere:
          --json
              Print JSON, for programs to read

          --config <FOLDER>
              The folder with `config.toml` and `servers.json` [default: the platform's usual place]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show what servers write to their log and to standard error

    Examples:
      antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet
      antiphon results export http://127.0.0.1:3001/resources/abc123 --output all.parquet --resume
      antiphon results export URL -o large.csv --filter 'amount>=100' --sort=-amount --columns id,amount
      antiphon results export answer.json --origin http://127.0.0.1:3001 | jq .name
    ");
    assert_snapshot!(folder.help(&["results", "query"]).await, @"
    Ask a question of a result set in SQL. The answer is a result set of its own

    Usage: antiphon results query [OPTIONS] <URL|FILE> <SQL>

    Arguments:
      <URL|FILE>  The `resource.url` of a tool's answer, or a file with the answer as `antiphon call
                  --json` prints it; `-` reads standard input
      <SQL>       The question. The set is the table `result`; `-` reads standard input

    Options:
          --table <NAME=SET>  Another set of yours on the same server, by the name the question has for
                              it. May be given several times
          --name <NAME>       What the answer is called
      -h, --help              Print help

    Connection:
          --origin <URL>     Where a file's rows may be fetched from, or where a server may send you for
                             an export. A URL that you typed needs no leave
          --header <HEADER>  A header to send along, `Name: value`. May be given several times
          --token <TOKEN>    A bearer token. Better in the environment than on the command line, where
                             others see it [env: ANTIPHON_TOKEN]

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

    Examples:
      antiphon results query URL 'SELECT state, count(*) AS n FROM result GROUP BY state'
      antiphon results query URL 'SELECT * FROM result EXCEPT SELECT * FROM old' --table old=rs_xyz
      antiphon results query URL - < question.sql
    ");
    assert_snapshot!(folder.help(&["results", "open"]).await, @"
    Look at a result set in the browser: all rows, sorted, filtered, as a chart.

    The address that is opened has a signed link in it, which lets whoever has it see this one set, for
    an hour at most.

    Usage: antiphon results open [OPTIONS] <URL|FILE>

    Arguments:
      <URL|FILE>
              The `resource.url` of a tool's answer, or a file with the answer as `antiphon call --json`
              prints it; `-` reads standard input

    Options:
          --print
              Print the address, and do not open a browser

      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --origin <URL>
              Where a file's rows may be fetched from, or where a server may send you for an export. A
              URL that you typed needs no leave

          --header <HEADER>
              A header to send along, `Name: value`. May be given several times

          --token <TOKEN>
              A bearer token. Better in the environment than on the command line, where others see it
              
              [env: ANTIPHON_TOKEN]

    Everywhere:
          --json
              Print JSON, for programs to read

          --config <FOLDER>
              The folder with `config.toml` and `servers.json` [default: the platform's usual place]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show what servers write to their log and to standard error

    Examples:
      antiphon results open http://127.0.0.1:3001/resources/abc123
      antiphon results open http://127.0.0.1:3001/resources/abc123 --print
    ");
    assert_snapshot!(folder.help(&["doctor"]).await, @r#"
    Find out what a server declares and what will work with it. No tool is called

    Usage: antiphon doctor [OPTIONS] <SERVER>...

    Arguments:
      <SERVER>...
              The servers: names in the configuration, URLs, or programs with their arguments, in quotes

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Connection:
          --header <HEADER>
              A header to send along, `Name: value`. May be given several times

          --token <TOKEN>
              A bearer token, instead of the server's own `Authorization`. Better in `ANTIPHON_TOKEN`
              than on the command line, where others see it; from there it is taken for servers that
              have no `Authorization` of their own

          --sse
              The URL is one of the HTTP+SSE of 2024-11-05, which came before streamable HTTP

          --revision <REVISION>
              Which revision of MCP to speak [default: the newest both know]

              Possible values:
              - 2026-07-28: Without sessions: the server asks in its answers
              - 2025-11-25: With a session: the server asks while the call is under way

    Everywhere:
          --json
              Print JSON, for programs to read

          --config <FOLDER>
              The folder with `config.toml` and `servers.json` [default: the platform's usual place]
              
              [env: ANTIPHON_CONFIG_DIR]

      -v, --verbose
              Show what servers write to their log and to standard error

    Examples:
      antiphon doctor https://mcp.example.com/mcp
      antiphon doctor "npx -y @modelcontextprotocol/server-everything" weather

    It ends with 0 if every server can be used, and with 1 if not.
    "#);
    assert_snapshot!(folder.help(&["new"]).await, @"
    Make a ready project: a server, a test, a Dockerfile

    Usage: antiphon new [OPTIONS] <NAME>

    Arguments:
      <NAME>  The folder to make; its last part is the project's name

    Options:
          --http           Serve over HTTP [default: over standard input and output]
          --path <FOLDER>  Where Antiphon's own source is, to build from it instead of from crates.io
      -h, --help           Print help

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

    Examples:
      antiphon new hello --path ../antiphon && cd hello && cargo test
      antiphon new weather --path ../antiphon --http

    Antiphon is not on crates.io yet: until then, `--path` is needed.
    ");
    assert_snapshot!(folder.help(&["serve"]).await, @r#"
    Serve one of the examples. Alone: list them

    Usage: antiphon serve [OPTIONS] [EXAMPLE]

    Arguments:
      [EXAMPLE]  Which one

    Options:
          --http <ADDRESS>  Serve over HTTP, at this address [default: over standard input and output]
          --store <URL>     What replicas share: memory:, postgres://…, redis://… or nats://… [default:
                            memory:]
          --keys <KEYS>     The encryption keys that all processes with this store share: 1=<64 hex
                            digits>. Needed with every store but memory:
          --database <URL>  The database of `institutions`: postgres://…
      -h, --help            Print help

    Model:
          --model <PROVIDER:NAME>  The model that answers samples, `provider:name`: openai, anthropic,
                                   gemini, ollama or compatible
          --model-url <URL>        Where the provider is, for example `http://127.0.0.1:8080/v1`
                                   [default: its own address]
          --model-key-env <NAME>   The environment variable with the provider's key [default: the
                                   provider's usual one]

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

    Examples:
      antiphon serve
      antiphon serve play_ttt --http 127.0.0.1:8000
      antiphon call "antiphon serve checkout" checkout --item tea --price 300
    "#);
    assert_snapshot!(folder.help(&["seal", "inspect"]).await, @r#"
    Open a seal, and say what travels in it

    Usage: antiphon seal inspect [OPTIONS] --server <SERVER> --tool <TOOL> <STATE>

    Arguments:
      <STATE>  The `requestState`; `-` reads standard input

    Options:
          --keys <KEYS>            The server's keys, `1=<64 hex digits>`, several with commas. Better
                                   in the environment than on the command line [env: ANTIPHON_KEYS]
          --server <SERVER>        The server's name, or its `SealConfig::with_audience`
          --tool <TOOL>            The tool that was called; of a prompt its name, of a resource its URI
          --arguments <ARGUMENTS>  The arguments of the call, as JSON [default: {}]
          --principal <PRINCIPAL>  Who called, where the server tells callers apart
          --method <METHOD>        What was called [default: tools/call]
          --values                 Show the values, too. They may be secrets of the caller's
      -h, --help                   Print help

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

    Example:
      ANTIPHON_KEYS=1=<64 hex digits> antiphon seal inspect "$STATE" --server shop --tool checkout
      --arguments '{"item": "tea"}'

    A seal is bound to its call, so all of the call must be given as it was made.
    "#);
    assert_snapshot!(folder.help(&["completions"]).await, @"
    Print completions for a shell

    Usage: antiphon completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help  Print help

    Everywhere:
          --json             Print JSON, for programs to read
          --config <FOLDER>  The folder with `config.toml` and `servers.json` [default: the platform's
                             usual place] [env: ANTIPHON_CONFIG_DIR]
      -v, --verbose          Show what servers write to their log and to standard error

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
    error: `ftp` is not spoken; use http, https, ws or wss
    ");
    assert_snapshot!(folder.run(&["connect", "x", "http://127.0.0.1:1/mcp"]).await.whole(), @"
    exit 6
    --- out
    --- err
    error: could not connect to http://127.0.0.1:1/mcp: Client error: error sending request for url (http://127.0.0.1:1/mcp)
    hint: is the server running, and is this its address? `antiphon doctor` looks more closely
    ");
    assert_snapshot!(folder.run(&["connect", "--remove", "x"]).await.whole(), @"
    exit 3
    --- out
    --- err
    there is no server `x`
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
    error: `a` in [folder]/servers.json is no server: invalid type: integer `5`, expected a string
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
