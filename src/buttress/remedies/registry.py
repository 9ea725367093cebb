"""The catalogue of remedies: a plain dict of classes, filled by a decorator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args

from buttress.errors import UsageError

Kind = Literal["advantage", "token", "reward", "loss", "sampling"]

# These two yield advantages when called; the others plug in elsewhere.
ESTIMATOR_KINDS = ("advantage", "token")

_REGISTRY: dict[str, Any] = {}
_KINDS: dict[str, Kind] = {}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remedy:
    """One page of the catalogue, read off a registered class and its docstring.

    Attributes
    ----------
    name, kind
        What users type, and ``advantage``, ``token``, ``reward``, ``loss`` or ``sampling``.
    title
        One line.
    formula
        As in the docstring.
    paper
        The source, with its arXiv id.
    options
        Option names and their defaults.
    defaults, ties, cost, plugs_in, inferred
        Where the defaults come from, what becomes of tied groups, what it costs, where it goes,
        and which parts are our reading (empty where the source says everything).
    page
        The whole docstring.
    """

    name: str
    kind: Kind
    title: str
    formula: str
    paper: str
    options: dict[str, Any]
    defaults: str
    ties: str
    cost: str
    plugs_in: str
    inferred: str
    page: str


def remedy(name: str, kind: Kind) -> Callable[[T], T]:
    """Return a decorator that enters a class or function under `name`; a name is taken once."""
    if kind not in get_args(Kind):
        raise UsageError.unknown("kind of remedy", kind, get_args(Kind))

    def enter(thing: T) -> T:
        if name in _REGISTRY:
            raise UsageError(f"a remedy named {name!r} is registered already")
        _REGISTRY[name] = thing
        _KINDS[name] = kind
        return thing

    return enter


def lookup(name: str) -> Any:
    """Return the registered class or function; raises `UsageError` with the nearest name."""
    if not isinstance(name, str) or name not in _REGISTRY:
        raise UsageError.unknown("remedy", name, _REGISTRY)
    return _REGISTRY[name]


def kind_of(name: str) -> Kind:
    """Return the kind of a registered name; raises `UsageError` for others."""
    lookup(name)
    return _KINDS[name]


def names(*kinds: Kind) -> list[str]:
    """Return the registered names of these kinds (of all kinds by default), sorted."""
    return sorted(name for name, kind in _KINDS.items() if not kinds or kind in kinds)


def create(name: str, **options: Any) -> Any:
    """Return a registered class built with these options; unknown ones raise `UsageError`."""
    thing = lookup(name)
    known = _options(thing, every=True)
    for option in options:
        if option not in known:
            raise UsageError.unknown(f"option of {name}", option, known)
    return thing(**options)


def estimator(name: str, **options: Any) -> Any:
    """Return an estimator: ``est(groups)`` gives advantages, state is kept between the calls.

    Every name of the catalogue has one. A loss or a way of sampling stands for the advantages that
    its paper pairs it with; an internal reward stands for GRPO, with that reward in the groups.

    Parameters
    ----------
    name
        A name in `remedies()`.
    options
        Of the estimator, as its page lists them; `tolerance` (when rewards count as tied) too.

    Examples
    --------
    >>> from buttress import Groups
    >>> est = estimator("dr_grpo")
    >>> est(Groups.from_nested([[1, 0], [1, 1, 1]])).tolist()
    [0.5, -0.5, 0.0, 0.0, 0.0]
    >>> est.reading["acr"]
    0.5
    >>> type(estimator("mcpo_hinge_kl")).__name__
    'Mcpo'
    """
    thing = lookup(name)
    if _KINDS[name] not in ESTIMATOR_KINDS:
        name = getattr(thing, "advantage", "grpo")
    return create(name, **options)


def remedies(*kinds: Kind) -> list[Remedy]:
    """Return the pages of all remedies of these kinds (of all kinds by default), by name."""
    return [page(name) for name in names(*kinds)]


def page(name: str) -> Remedy:
    """Return the page of one remedy."""
    thing = lookup(name)
    doc = inspect.getdoc(thing) or ""
    formula = re.search(r"``(.+?)``", doc, re.DOTALL)
    return Remedy(
        name=name,
        kind=_KINDS[name],
        title=doc.partition("\n")[0],
        formula=" ".join(formula[1].split()) if formula else "",
        paper=_labelled(doc, "Source"),
        options=_options(thing),
        defaults=_labelled(doc, "Defaults"),
        ties=_labelled(doc, "Ties"),
        cost=_labelled(doc, "Cost"),
        plugs_in=_labelled(doc, "Plugs in"),
        inferred=_labelled(doc, "Our reading"),
        page=doc,
    )


def _labelled(doc: str, label: str) -> str:
    """Return the paragraph that starts with ``label:``, on one line."""
    found = re.search(
        rf"^{label}: (.+?)(?=\n\s*\n|\n[A-Z][\w ]*: |\Z)", doc, re.MULTILINE | re.DOTALL
    )
    return " ".join(found[1].split()) if found else ""


def _options(thing: Any, *, every: bool = False) -> dict[str, Any]:
    if is_dataclass(thing):
        return {
            field.name: field.default if field.default is not MISSING else None
            for field in fields(thing)
            if field.init and (every or not field.metadata.get("common"))
        }
    return {
        name: parameter.default
        for name, parameter in inspect.signature(thing).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
