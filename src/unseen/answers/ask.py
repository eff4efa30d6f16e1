"""`Ask`: everything that a user may say about the answers they want, once for Python, command line and API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from unseen.answers.choice import ListScorer
from unseen.answers.prior import COMMON, Prior
from unseen.answers.probability import CONFIDENCE
from unseen.answers.scores import Scorer
from unseen.naming.candidates import HELP, resolve_candidates
from unseen.util.errors import UnseenError
from unseen.util.settings import AT_LEAST_1, SHARE, check_settings

if TYPE_CHECKING:
    from unseen.bundle import Bundle


@dataclass(frozen=True)
class Ask:
    """What is asked about photos.

    Args:
        k: How many labels a photo gets.
        candidates: Which classes compete: CANDIDATES.
        among: Choose among these names only, between commas or in a file, one per line, with their looks behind a
            tab. Names that WordNet lacks become classes for this one call; 'crane (bird)' says which crane.
        confidence: How often the verdict must be right: 0.9 is 9 times in 10.
        prior: common (unseen classes with common names are more probable), uniform, or a file of weights:
            name,weight. By default the bundle's own, or common.
        seen_share: The share of your photos that show a class the network was trained on, if you know it. It counts
            where the bundle is calibrated, and not among the names of a list.
    """

    k: Annotated[int, AT_LEAST_1] = 5
    candidates: Any = "any"
    among: Any = None
    confidence: Annotated[float, SHARE] = CONFIDENCE
    prior: Any = None
    seen_share: Annotated[float, SHARE] = 0.5

    def __post_init__(self) -> None:
        check_settings("an answer", self)
        if self.among is not None and self.candidates != "any":
            raise UnseenError("among and candidates both say which classes compete: give one of them")


Ask.__doc__ = (Ask.__doc__ or "").replace("CANDIDATES", HELP)


def usual_prior(bundle: Bundle) -> Prior:
    """The prior where none is asked for. A list says by itself what is expected: there, common names count no more."""
    prior = COMMON if bundle.prior is None else Prior.from_json(bundle.prior)
    return replace(prior, common=False) if bundle.listed else prior


def make_scorer(bundle: Bundle, ask: Ask, with_seen: bool = False) -> Scorer:
    """The scorer of the candidates asked for; of a bundle for a list of names, by default that list's."""
    prior = usual_prior(bundle) if ask.prior is None else Prior.read(ask.prior, bundle.hierarchy)
    if bundle.listed and ask.candidates == "any":
        rows = resolve_candidates(bundle, [item.id for item in bundle.listed], with_seen)
        return ListScorer(bundle, rows, prior)
    return Scorer(bundle, resolve_candidates(bundle, ask.candidates, with_seen), prior, ask.seen_share)
