"""Serves a GGUF with llama.cpp's own HTTP server: python serve.py MODEL [--name N] [--threads N] ...

Prints the server's address when it answers, and serves until standard input ends: whoever started it may die in
any way and leaves no server behind. What llama.cpp has to say goes to standard error.
"""

import argparse
import os
import sys
import urllib.request

# Also llama.cpp's threads write to descriptor 1; only the address may.
address_line = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

# Threads that wait for each other must not spin: beside a compiler an answer would take ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import xllamacpp  # noqa: E402


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--name", default="toy", help="the model's name in the API")
    parser.add_argument("--port", type=int, default=0, help="0, which is the default, takes a free one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1, help="how many requests are answered at a time")
    parser.add_argument("--context", type=int, default=8192, help="tokens a slot has for prompt and answer")
    return parser.parse_args()


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.name}
    params.port = options.port
    params.n_parallel = options.slots
    params.n_ctx = options.context * options.slots
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.use_jinja = True
    params.warmup = False
    # The same question gets the same answer, whatever was asked before.
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    params.cache_prompt = False
    params.cache_ram_mib = 0
    return params


def main() -> None:
    server = xllamacpp.Server(parameters(options()))
    # Proxies in the environment are not for loopback.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    direct.open(f"{server.listening_address}/health", timeout=30).close()
    print(server.listening_address, file=address_line, flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
    # Not `sys.exit`: the server's threads would be joined, and they wait for requests.
    os._exit(0)


main()
