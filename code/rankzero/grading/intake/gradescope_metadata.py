"""Gradescope's submission_metadata.yml: the students and the time of each submission in an export."""

from collections.abc import Mapping
from typing import Any

import yaml

from rankzero.errors import UserError
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.untrusted_files import MIB, Entry, RefusedError

METADATA = "submission_metadata.yml"
METADATA_BYTES = 64 * MIB
MAX_NESTING = 100


def read_metadata(entry: Entry) -> Mapping[Any, Any]:
    """Returns the metadata by submission folder, all values as strings. UserError if the file cannot be read."""
    try:
        values = _load_strings(entry.read(METADATA_BYTES))
    except RefusedError as error:
        problem = str(error)
    except (yaml.YAMLError, ValueError) as error:
        problem = f"is not valid YAML: {printable(' '.join(str(error).split()))}"
    else:
        return values if isinstance(values, dict) else {}
    raise UserError(f"{METADATA} {problem}: export the submissions from Gradescope again.")


def metadata_value(values: Any, key: str) -> Any:
    """Returns the value of `key`, which Gradescope writes as a Ruby symbol, `:key`; None if there is none."""
    return (values.get(f":{key}") or values.get(key)) if isinstance(values, dict) else None


def _load_strings(data: bytes, depth: int = 5) -> Any:
    """Loads YAML down to `depth`, without tags and with all scalars as strings, since the id 0123 is no number.

    It reads the parser's events, because PyYAML's own loader ends the process on a file that is nested deeply enough.
    """
    top: list[Any] = []
    stack: list[Any] = [top]  # open collections; a mapping is a list of keys and values in turn
    for event in yaml.parse(data, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append([])
            if len(stack) > MAX_NESTING:
                raise ValueError(f"nested more than {MAX_NESTING} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            collection: Any = stack.pop()
            if isinstance(event, yaml.MappingEndEvent):
                pairs = zip(collection[::2], collection[1::2], strict=True)
                collection = {key: value for key, value in pairs if isinstance(key, str)}
            if len(stack) <= depth:
                stack[-1].append(collection)
        elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) and len(stack) <= depth:
            stack[-1].append(getattr(event, "value", None))
    return top[0] if top else None
