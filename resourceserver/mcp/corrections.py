"""Corrected arguments, with which the message about wrong ones ends.

They are a guess, so they are only suggested, and never used in place of the given ones. Each round corrects
the first mistake that the model reports, and the result is suggested only if the model accepts it.
"""

import calendar
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

_ROUNDS: Final = 12
_MOST_BYTES: Final = 1000
"""The longest suggestion; longer arguments are not repeated."""

_MEANT: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    **dict.fromkeys(("start", "start_date", "begin", "since", "after", "from_date"), (("from",),)),
    **dict.fromkeys(("end", "end_date", "until", "before", "to_date"), (("to",),)),
    **dict.fromkeys(("range", "timeframe", "time_range", "time", "days", "when"), (("period",),)),
    **dict.fromkeys(("timezone", "time_zone", "zone"), (("tz",),)),
    **dict.fromkeys(("day", "date"), (("date",), ("period",))),
    **dict.fromkeys(("count", "n", "max", "max_results", "size", "page_size"), (("limit",), ("top",))),
    **dict.fromkeys(("top", "limit"), (("limit",), ("top",))),
    **dict.fromkeys(("q", "text", "term", "title", "query"), (("query",), ("search",))),
    **dict.fromkeys(("by", "group", "groupby", "groupBy", "dimension"), (("group_by",),)),
    **dict.fromkeys(("metric", "type", "measure"), (("metrics",), ("kind",), ("with",))),
    **dict.fromkeys(("app", "apps", "application"), (("filter", "apps"),)),
    **dict.fromkeys(("category", "categories"), (("filter", "categories"),)),
    **dict.fromkeys(("project", "projects"), (("filter", "projects"),)),
    **dict.fromkeys(("language", "languages"), (("filter", "languages"),)),
    **dict.fromkeys(("repo", "repositories"), (("repository",),)),
    **dict.fromkeys(("place", "city", "location", "name"), (("search",),)),
    **dict.fromkeys(("latitude", "lat"), (("near", "latitude"),)),
    **dict.fromkeys(("longitude", "lon", "lng"), (("near", "longitude"),)),
    **dict.fromkeys(("period_a", "current"), (("a",),)),
    **dict.fromkeys(("period_b", "previous", "compare_to"), (("b",),)),
    **dict.fromkeys(("page", "page_token", "offset"), (("cursor",),)),
    **dict.fromkeys(("timestamp", "instant"), (("at",),)),
    **dict.fromkeys(("granularity", "interval"), (("resolution",), ("group_by",))),
}  # fmt: skip
"""What assistants call arguments of other servers, with the paths that they may mean here."""
_DISPENSABLE: Final = (
    ("period",),
    ("kind",),
    ("cursor",),
    ("resolution",),
    ("with",),
    ("from", "to"),
    ("at",),
    ("group_by",),
    ("filter",),
    ("metrics",),
    ("b",),
    ("a",),
)
"""Arguments to leave out of a contradiction, those first that say least."""
_WORDS: Final = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_SYNONYMS: Final = {
    **dict.fromkeys(("everything", "ever", "all_time", "always"), "all"),
    **{name: f"this_{name}" for name in ("week", "month", "quarter", "year")},
    **dict.fromkeys(("next_week", "coming_week", "tomorrow", "upcoming"), "next_7_days"),
    **dict.fromkeys(("meetings", "events", "appointments"), "calendar"),
}
"""Words for values that are spelled otherwise."""
_DAYS: Final = ("today", "yesterday", *(name.lower() for name in calendar.day_name))
_PREFIXES: Final = {"past_": "last_", "previous_": "last_", "current_": "this_"}
_ALIKE: Final = 0.45
"""How alike two names must be, for one to be suggested for the other."""

Arguments = dict[str, Any]


def suggestion(model: type[BaseModel], given: Mapping[str, Any]) -> str:
    """Return a line with corrected arguments, or nothing where there is no guess."""
    try:
        found = corrected(model, json.loads(json.dumps(given)))
    except (LookupError, TypeError, ValueError, RecursionError):
        # Arguments of any shape arrive here, and a suggestion is not worth an error.
        return ""
    written = "" if found is None else json.dumps(found, ensure_ascii=False)
    if not written or len(written.encode()) > _MOST_BYTES:
        return ""
    return f"\nFor example: {written if written.isprintable() else json.dumps(found)}"


def corrected(model: type[BaseModel], arguments: Arguments) -> Arguments | None:
    """Return arguments like the given ones that the model accepts; None without any."""
    for _ in range(_ROUNDS):
        problem = _problem(model, arguments)
        if problem is None:
            return arguments
        if not problem["loc"]:
            arguments = _without_contradiction(model, arguments, problem["msg"])
        elif problem["type"] == "extra_forbidden":
            _rename(model, arguments, problem["loc"])
        else:
            _replace(arguments, problem)
    return None


def _problem(model: type[BaseModel], arguments: Arguments) -> Any:
    """Return the first mistake, names of arguments before values; None without any."""
    try:
        model.model_validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return min(found, key=lambda each: each["type"] != "extra_forbidden")
    return None


def _rename(model: type[BaseModel], arguments: Arguments, loc: tuple[int | str, ...]) -> None:
    """Move an unknown argument to the one that may be meant; without any, remove it."""
    holder = _holder(arguments, loc)
    value = holder.pop(loc[-1])
    known = members(holding(model, loc))
    name = str(loc[-1])
    paths = _MEANT.get(name, _MEANT.get(name.lower(), ())) if len(loc) == 1 else ()
    alike = nearest(name, known, at_least=0.4)
    for path in (*paths, *((each,) for each in alike)):
        inner = holder if len(path) == 1 else holder.get(path[0], {})
        if path[0] in known and path[-1] not in inner:
            inner[path[-1]] = value
            if inner is not holder:
                holder[path[0]] = inner
            return


def _replace(arguments: Arguments, problem: Mapping[str, Any]) -> None:
    """Replace a value by a better one; without any, remove it."""
    if _split(arguments, problem["loc"]):
        return
    holder, key = _holder(arguments, problem["loc"]), problem["loc"][-1]
    old, new = holder[key], None
    if key == "period" and isinstance(old, str) and (span := _span(old)) is not None:
        del holder[key]
        holder |= dict(zip(("from", "to"), span, strict=True))
        return
    with suppress(ValueError, OverflowError):
        new = _better(problem["type"], old, problem["msg"], problem.get("ctx", {}))
    if _is_same(old, new):
        new = _example(problem["msg"])
    if _is_same(old, new):
        del holder[key]
    else:
        holder[key] = new


def _is_same(old: Any, new: Any) -> bool:
    """Tell whether there is no better value: True is another one than 1."""
    return new is None or (type(new) is type(old) and new == old)


def _holder(arguments: Any, loc: tuple[int | str, ...]) -> Any:
    for part in loc[:-1]:
        arguments = arguments[part]
    return arguments


def _split(arguments: Arguments, loc: tuple[int | str, ...]) -> bool:
    """Make a list of several words in one text; tell whether there were any."""
    holder, key = _holder(arguments, loc[:-1]), loc[-2] if len(loc) > 1 else None
    words = holder[key].split(",") if key is not None and isinstance(holder[key], str) else []
    if len(words) > 1:
        holder[key] = [word.strip() for word in words]
    return len(words) > 1


def _better(kind: str, value: Any, message: str, context: Mapping[str, Any]) -> Any:
    """Return a value that the model may accept; None without any guess. Raises ValueError."""
    new: Any = None
    match kind, value:
        case (("greater_than_equal" | "less_than_equal"), _):
            new = context["ge" if kind[0] == "g" else "le"]
        case "too_long", list():
            new = value[: context["max_length"]]
        case "literal_error", str():
            new = _nearest(value, re.findall(r"'([^']+)'", context["expected"]), at_least=_ALIKE)
        case (("literal_error" | "text"), [str() as new, *_]):
            pass
        case (("int_type" | "int_from_float"), str() | float()):
            new = round(float(value))
        case "float_type", str():
            new = float(value)
        case "bool_type", str() | int() | float():
            new = _WORDS.get(str(value).casefold())
        case "list_type", str():
            new = [part.strip() for part in value.split(",")]
        case "object", str():
            new = json.loads(value)
        case _, int() | float() if message == "must be a string" and not isinstance(value, bool):
            new = f"{value}"
        case _, str():
            new = _from_message(value, message)
    return new


def _from_message(value: str, message: str) -> str | None:
    """Return the day that a text may mean, or the nearest of the values that a message lists."""
    if message == "must not end before it begins":
        return "/".join(reversed(value.split("/")))
    words = [word for word in _as_name(value).split("_") if word in _DAYS]
    if words and "weekday" in message:
        return words[-1]
    day = _day(value, with_time="day" not in message)
    listed = message.partition("must be one of ")[2]
    span = _span(value) if "two as" in message else None
    return day or "/".join(span or ()) or _nearest(value, re.findall(r"[a-z][a-z0-9_:]+", listed))


def _nearest(value: str, allowed: list[str], *, at_least: float = 0.0) -> str | None:
    name = _as_name(value)
    if found := re.fullmatch(r"last_(\d+)_days", name):
        # The next longer period has all of these days.
        lengths = {
            int(each[5:-5]): each for each in allowed if re.fullmatch(r"last_\d+_days", each)
        }
        longer = sorted(length for length in lengths if length >= int(found[1]))
        return lengths[longer[0]] if longer else "all" if "all" in allowed else None
    return next(iter(nearest(name, allowed, at_least=at_least)), None)


def _span(text: str) -> tuple[str, str] | None:
    """Return the first and the last day of a month, of a day, or of two days with a slash between them."""
    if month := re.fullmatch(r"(\d{4})-(\d\d)", text):
        last = calendar.monthrange(int(month[1]), int(month[2]))[1]
        return f"{text}-01", f"{text}-{last}"
    first, _, second = text.partition("/")
    days = _day(first, with_time=False), _day(second or first, with_time=False)
    return (
        None
        if days[0] is None or days[1] is None
        else (min(days[0], days[1]), max(days[0], days[1]))
    )


def _day(text: str, *, with_time: bool) -> str | None:
    """Return the day of a date in another form, with the time if it is wanted and given.

    A day that is too late in its month is the last one.
    """
    parts = re.match(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", text) or re.match(
        r"(\d{4})(\d\d)(\d\d)", text
    )
    reverse = re.match(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", text)
    if parts is not None:
        year, month, day = map(int, parts.groups())
    elif reverse is not None:
        day, month, year = map(int, reverse.groups())
    else:
        return None
    last = calendar.monthrange(year, month)[1]
    found = f"{date(year, month, min(max(day, 1), last))}"
    if not with_time:
        return found
    time = re.search(r"\d{1,2}:\d\d(:\d\d)?", text)
    return found if time is None else f"{found}T{time[0]:0>5}"


def _example(message: str) -> str | None:
    found = re.search(r"such as ([^\s,;]+)", message)
    return None if found is None else found[1]


def _without_contradiction(model: type[BaseModel], arguments: Arguments, message: str) -> Arguments:
    """Return the arguments without the contradiction that a message describes."""
    first, last = arguments.get("from"), arguments.get("to")
    metric = arguments.get("metric_a") or arguments.get("metric_b")
    match message:
        case "from and to are needed together":
            return arguments | {"from": first or last, "to": last or first}
        case "from must not be after to":
            return arguments | {"from": last, "to": first}
        case "from and to must both be days, or both instants":
            return arguments | {"from": str(first)[:10], "to": str(last)[:10]}
    if message.startswith("metric_a and metric_b are needed together"):
        return _without(arguments, "metric_a", "metric_b") | {"with": metric}
    if found := re.match(r"filter: (.+) can be asked of kind (\w+) alone", message):
        rest = _without(arguments["filter"], *found[1].split(" and "))
        return arguments | ({"filter": rest} if rest else {"kind": found[2]})
    return _without_part(model, arguments, message)


def _without_part(model: type[BaseModel], arguments: Arguments, message: str) -> Arguments:
    """Return the arguments without a part that contradicts the others."""
    keys = list(dict.fromkeys(arguments.get("group_by", ())))
    allowed = message.partition(" which has ")[2].split(", ")
    fewer = (keys, keys[:1], keys[1:], allowed[:1]) if message.startswith("group_by:") else ()
    candidates = (
        *({**arguments, "group_by": each} for each in fewer),
        *(_without(arguments, *names) for names in _DISPENSABLE),
    )
    return next(
        (each for each in candidates if each != arguments and _problem(model, each) is None),
        # Another mistake may hide that a part is left out rightly.
        _without(arguments, *_DISPENSABLE[0]),
    )


def _without(arguments: Arguments, *names: str) -> Arguments:
    return {name: value for name, value in arguments.items() if name not in names}


def members(model: type[BaseModel]) -> list[str]:
    """Return the names of the members of an object."""
    return [field.alias or name for name, field in model.model_fields.items()]


def holding(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the object that has the member at ``loc``."""
    for name in loc[:-1]:
        fields = model.model_fields.items()
        (annotation,) = [each.annotation for own, each in fields if (each.alias or own) == name]
        model = next(each for each in _parts(annotation) if isinstance(each, type))
    return model


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the parts of an annotation, such as the model of an optional object."""
    yield from (part for each in get_args(annotation) for part in _parts(each))
    yield annotation


def nearest(text: str, known: Iterable[str], *, at_least: float = 0.0) -> list[str]:
    """Return the names that share most pairs of letters with ``text`` (Dice's coefficient), most first."""
    own = _pairs(text)

    def likeness(other: str) -> float:
        pairs = _pairs(other)
        return 2 * len(own & pairs) / (len(own) + len(pairs))

    alike = (name for name in dict.fromkeys(known) if likeness(name) >= at_least)
    return sorted(alike, key=lambda name: (-likeness(name), name))


def _as_name(text: str) -> str:
    """Return words in the form of a name, and with the words that names have."""
    name = re.sub(r"[\s-]+", "_", text.strip().casefold())
    for prefix, other in _PREFIXES.items():
        name = other + name.removeprefix(prefix) if name.startswith(prefix) else name
    return _SYNONYMS.get(name, name)


def _pairs(text: str) -> set[str]:
    """Return the pairs of neighbouring letters, with the edges of the text among them.

    What the metrics of devices have in common does not make them alike.
    """
    padded = f" {text.casefold().removeprefix('health:')} "
    return {padded[n : n + 2] for n in range(len(padded) - 1)}
