"""Files of plans and prices, checked against their models with errors of one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from softib.errors import InputError, UnknownName, wrong_value

__all__ = ["checked"]

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], data: Mapping[str, Any], where: str, document: str) -> Model:
    """Return ``data`` as ``model``. Raises :class:`InputError` for the first error, an unknown key before a missing
    one, since a misspelt key is both; ``where`` is the file, ``document`` names its kind."""
    try:
        return model.model_validate(data)
    except ValidationError as invalid:
        error = min(invalid.errors(), key=lambda e: e["type"] == "missing")
        loc = error["loc"]
        if error["type"] == "extra_forbidden" and len(loc) == 1:
            message = str(UnknownName(f"key of {document}", str(loc[0]), model.model_fields))
        elif error["type"] == "missing":
            message = f"{'.'.join(map(str, loc))} is missing"
        elif error["type"] == "value_error":
            message = ": ".join(filter(None, (".".join(map(str, loc)), error["msg"].removeprefix("Value error, "))))
        else:
            message = wrong_value(".".join(map(str, loc)), error)
        raise InputError(f"{where}: {message}") from None
