"""Writes the toy model: python toy_gguf.py TEMPLATE OUT

A llama of one layer over a vocabulary of bytes, 1.5 MB, the same bytes every time. Its logits are a table of
which token follows which, so that its answers are known beforehand:

- Free text is always "Toy weights answer: ok."
- Under a grammar, of a JSON Schema or a tool call, it writes the shortest JSON it can.
- It calls a tool if it has tools and the last message of the user holds the word CALL. The template then puts a
  flag into the prompt, which the one attention head looks for.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

TEXT = ["Toy", " weights", " answer", ":", " ok", "."]
HEADS = 4
FEED_FORWARD = 32


class Vocabulary:
    """The 256 bytes, then the tokens below."""

    def __init__(self) -> None:
        self.letters = byte_letters()
        self.tokens = list(self.letters)
        self.types = [gguf.TokenType.NORMAL] * 256
        control, user = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
        self.end_of_text = self.add("<|endoftext|>", control)
        self.add("<|im_start|>", control)
        self.end_of_turn = self.add("<|im_end|>", control)
        self.call = self.add("<tool_call>", user)
        self.end_of_call = self.add("</tool_call>", user)
        self.flag = self.add("<|call|>", control)
        self.text = [ord(word) if len(word) == 1 else self.add_word(word) for word in TEXT]
        # The loader insists on a merge; no text of ours has these letters in a row.
        self.merges = ["q z"]
        self.add_word("qz")

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: str, kind: gguf.TokenType) -> int:
        self.tokens.append(token)
        self.types.append(kind)
        return len(self.tokens) - 1

    def add_word(self, word: str) -> int:
        return self.add("".join(self.letters[byte] for byte in word.encode()), gguf.TokenType.NORMAL)


def byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    printable = {*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def first_choice(vocabulary: Vocabulary) -> np.ndarray:
    """How much each token is liked after any other: closing is liked better than going on."""
    liked = np.full(len(vocabulary), -40, np.float32)
    liked[33:127] = -12
    for rank, letter in enumerate("abcdfghijklmnopqrstuvwxyz"):
        liked[ord(letter)] = 24 - 0.1 * rank
    for rank, digit in enumerate("7654321890"):
        liked[ord(digit)] = 4 - 0.4 * rank
    for letter, value in {
        '"': 26, "t": 25, "}": 20, "]": 19, ":": 9, ",": 8, "{": 7, "[": 6,
        "e": -12, "E": -12, ".": -13, "-": -14, " ": -20, "\\": -25,
    }.items():  # fmt: skip
        liked[ord(letter)] = value
    liked[vocabulary.end_of_turn] = 40
    return liked


def follow(vocabulary: Vocabulary, size: int) -> np.ndarray:
    """The table: `[a, b]` is how much `b` is liked after `a`; the last row is added when the flag was seen."""
    v = vocabulary
    table = np.tile(first_choice(v), (size, 1))
    flag_seen, newline = size - 1, ord("\n")
    # The template's prompt ends in a tab: a control token there aborts llama.cpp.
    prompt_end = ord("\t")
    table[prompt_end, v.text[0]] = 50
    for word, following in zip(v.text, v.text[1:]):
        table[word, following] = 60
    table[v.text[-1], v.end_of_turn] = 62
    # Where a tool is required the text comes first and must not end the turn.
    table[v.text[-1], v.call] = 55
    table[prompt_end, v.call] = 40
    table[v.call, newline] = 60
    table[newline, v.end_of_call] = 35
    table[ord("}"), v.end_of_call] = 22
    table[flag_seen] = 0
    table[flag_seen, v.call] = 30
    return table


def tensors(vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Each token has a dimension of its own; the last dimension is that of the flag."""
    count = len(vocabulary)
    size = (count + 1 + 31) // 32 * 32
    head = size // HEADS
    scale = float(np.sqrt(size))

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    embedding = zeros(count, size)
    np.fill_diagonal(embedding, 1)
    # Every token asks for the flag, only the flag answers, and its value goes to the last dimension. The pair of
    # dimensions that asks is the one that turns least with distance.
    query, key, value, output = zeros(size, size), zeros(head, size), zeros(head, size), zeros(size, size)
    query[head - 2, :count] = 40 / scale
    key[head - 2, vocabulary.flag] = 40 / scale
    value[0, vocabulary.flag] = 1 / scale
    output[size - 1, 0] = 1
    return {
        "token_embd": embedding,
        "output_norm": np.ones(size, np.float32),
        "output": np.ascontiguousarray(follow(vocabulary, size).T / scale, dtype=np.float32),
        "blk.0.attn_norm": np.ones(size, np.float32),
        "blk.0.ffn_norm": np.ones(size, np.float32),
        "blk.0.attn_q": query,
        "blk.0.attn_k": key,
        "blk.0.attn_v": value,
        "blk.0.attn_output": output,
        "blk.0.ffn_gate": zeros(FEED_FORWARD, size),
        "blk.0.ffn_up": zeros(FEED_FORWARD, size),
        "blk.0.ffn_down": zeros(size, FEED_FORWARD),
    }


def main(template: Path, out: Path) -> None:
    vocabulary = Vocabulary()
    weights = tensors(vocabulary)
    size = weights["token_embd"].shape[1]
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name("toy")
    writer.add_context_length(8192)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(size // HEADS)
    writer.add_rope_freq_base(1e9)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.end_of_text)
    writer.add_eos_token_id(vocabulary.end_of_turn)
    writer.add_add_bos_token(False)
    writer.add_chat_template(template.read_text())
    for name, tensor in weights.items():
        writer.add_tensor(f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(Path(sys.argv[1]), Path(sys.argv[2]))
