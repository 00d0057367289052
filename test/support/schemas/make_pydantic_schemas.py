"""Makes test/fixtures/pydantic-schemas.json: schemas of pydantic models whose fields have types drawn at random from those that people use.

Needs the PyPI package pydantic (2.14.4 was used; `.cache/newest-venv` has it). Run from the repository root.
"""

import enum
import json
import pathlib
import random
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

from pydantic import (
    AnyUrl,
    BaseModel,
    Field,
    FilePath,
    FutureDate,
    HttpUrl,
    IPvAnyAddress,
    Json,
    NegativeInt,
    NonNegativeFloat,
    PositiveInt,
    SecretStr,
    conint,
    conlist,
    conset,
    constr,
    create_model,
)

FILE = pathlib.Path("test/fixtures/pydantic-schemas.json")
COUNT = 200
RNG = random.Random(2026)


# as EmailStr says it, which needs another package
MAIL = Annotated[str, Field(json_schema_extra={"format": "email"})]


class Color(enum.Enum):
    red = "red"
    green = "green"


class Level(enum.IntEnum):
    low = 1
    high = 2


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float = Field(gt=0)


class Square(BaseModel):
    kind: Literal["square"]
    side: float = Field(gt=0)


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(max_length=40)
    zip: Annotated[str, Field(pattern=r"^\d{5}$")]
    country: Color | None = None


class Node(BaseModel):
    value: int
    children: list["Node"] = []


LEAVES: list[Any] = [
    *(str, int, float, bool, date, datetime, time, timedelta, UUID, Decimal, bytes, Any),
    *(HttpUrl, AnyUrl, MAIL, IPv4Address, IPvAnyAddress, SecretStr, pathlib.Path, FilePath, FutureDate, Json),
    *(PositiveInt, NegativeInt, NonNegativeFloat, conint(multiple_of=5), conint(ge=1, le=10), complex),
    *(constr(min_length=2, max_length=12), constr(pattern=r"^[A-Z]{3}-\d+$"), constr(to_lower=True, max_length=9)),
    *(Annotated[str, Field(pattern=r"^[a-z]+$", min_length=3, max_length=8)], Annotated[float, Field(gt=0, lt=1)]),
    *(Annotated[float, Field(multiple_of=0.25)], Annotated[Decimal, Field(max_digits=6, decimal_places=2)]),
    *(Color, Level, Literal["a", "b"], Literal[1, "x", None], Address, Node, Circle),
    Annotated[Union[Circle, Square], Field(discriminator="kind")],
    Union[Circle, Address],
]
HASHABLE: list[Any] = [str, int, date, UUID, Color, Literal["a", "b"], constr(max_length=5)]


def annotation(depth: int) -> Any:
    kind = RNG.choice(["leaf"] * 5 + ["optional", "list", "set", "dict", "tuple", "union", "model", "bounded"])
    if depth == 0 or kind == "leaf":
        return RNG.choice(LEAVES)
    inner = annotation(depth - 1)
    if kind == "optional":
        return Optional[inner]
    if kind == "list":
        return list[inner]
    if kind == "set":
        return RNG.choice([set, frozenset])[RNG.choice(HASHABLE)]
    if kind == "dict":
        return dict[RNG.choice([str, str, int, Color, constr(pattern=r"^[a-z]+$")]), inner]
    if kind == "tuple":
        return RNG.choice([tuple[inner, int], tuple[inner, ...]])
    if kind == "union":
        return Union[inner, RNG.choice([int, str, None])]
    if kind == "model":
        return model(depth - 1)
    return RNG.choice([conlist(inner, min_length=1, max_length=3), conset(RNG.choice(HASHABLE), min_length=1)])


def model(depth: int) -> Any:
    fields: dict[str, Any] = {}
    for name in RNG.sample(["id", "name", "tags", "when", "address", "total", "notes", "x_1", "größe"], RNG.randint(1, 5)):
        described = {"description": "What it is."} if RNG.random() < 0.3 else {}
        extra = RNG.choice([{}, {}, {"title": "T"}, {"examples": ["a"]}, {"alias": f"{name}Alias"}])
        is_optional = RNG.random() < 0.3
        fields[name] = (annotation(depth), Field(default=None, **described, **extra) if is_optional else Field(**described, **extra))
    config = RNG.choice([{}, {}, {"extra": "forbid"}, {"extra": "allow"}])
    return create_model(f"Model{RNG.randrange(10**6)}", __config__=config, **fields)


def main() -> None:
    schemas: list[Any] = []
    while len(schemas) < COUNT:
        made = model(2)
        try:
            schemas.append(made.model_json_schema())
        except Exception:  # a default that a type cannot say
            continue
    FILE.write_text("[\n" + ",\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas) + "\n]\n")
    print(len(schemas), FILE.stat().st_size)


main()
