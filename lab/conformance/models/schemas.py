"""Writes JSON Schemas of what providers' APIs take and give: python schemas.py FOLDER

They come from the types of the providers' own SDKs. A TypedDict leaves its schema open: a test that looks for
unknown keys closes the objects first.
"""

import json
import sys
from pathlib import Path

import ollama
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types as gemini
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

TYPES = {
    "anthropic_request": MessageCreateParamsNonStreaming,
    "anthropic_response": Message,
    "gemini_Content": gemini.Content,
    "gemini_GenerateContentConfig": gemini.GenerateContentConfig,
    "gemini_GenerateContentResponse": gemini.GenerateContentResponse,
    "gemini_Tool": gemini.Tool,
    "gemini_ToolConfig": gemini.ToolConfig,
    "ollama_chat_request": ollama._types.ChatRequest,
    "ollama_chat_response": ollama.ChatResponse,
    "openai_chat_request": CompletionCreateParamsNonStreaming,
    "openai_chat_response": ChatCompletion,
    "openai_responses_request": ResponseCreateParamsNonStreaming,
    "openai_responses_response": Response,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, provided in TYPES.items():
        schema = TypeAdapter(provided).json_schema()
        (folder / f"{name}.schema.json").write_text(json.dumps(schema, indent=1))


main(Path(sys.argv[1]))
