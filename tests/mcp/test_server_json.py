"""server.json, with which registries of MCP servers list the service, beside the server that it describes."""

import json
import re
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator

from resourceserver.mcp import protocol, route
from shared import VERSION

DOCUMENT: Final = json.loads((Path(__file__).parents[2] / "server.json").read_text())
TEXT: Final = {"type": "string", "minLength": 1}
SHAPE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "remotes"],
    "additionalProperties": False,
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
        },
        "name": {
            "type": "string",
            "maxLength": 200,
            "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
        },
        "title": TEXT | {"maxLength": 100},
        "description": TEXT | {"maxLength": 100},
        "version": TEXT | {"maxLength": 255},
        "remotes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "additionalProperties": False,
                "properties": {
                    "type": {"const": "streamable-http"},
                    "url": {"type": "string", "pattern": r"^https?://[^\s]+$"},
                    "variables": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "description": TEXT,
                                "isRequired": {"type": "boolean"},
                                "format": {"enum": ["string", "number", "boolean", "filepath"]},
                                "placeholder": TEXT,
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The members of the schema 2025-12-11 that the document uses, with their rules there."""


def test_the_document_has_the_shape_of_its_schema() -> None:
    assert [problem.message for problem in Draft7Validator(SHAPE).iter_errors(DOCUMENT)] == []


def test_the_document_describes_this_server() -> None:
    (remote,) = DOCUMENT["remotes"]

    assert DOCUMENT["version"] == VERSION
    assert DOCUMENT["title"] == protocol.SERVER["title"]
    assert remote["url"].endswith("}" + route.PATH)


def test_the_address_has_the_variables_that_are_described() -> None:
    (remote,) = DOCUMENT["remotes"]

    assert set(re.findall(r"\{(\w+)\}", remote["url"])) == remote["variables"].keys()
    assert all(each["isRequired"] for each in remote["variables"].values())
