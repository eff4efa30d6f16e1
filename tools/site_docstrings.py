"""What the API reference makes of our sources: comments beside fields describe them, formulas become MathML.

MathML needs no script and no font from elsewhere: browsers draw it themselves.
"""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from typing import Any

import griffe
from latex2mathml.converter import convert


class SiteDocstrings(griffe.Extension):
    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring is not None and not re.search(r"(?m)^(Args|Attributes):$", cls.docstring.value):
            cls.docstring.value += fields_section(cls)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_formulas(with_examples(obj.docstring.value))


def fields_section(cls: griffe.Class) -> str:
    """The public fields of a dataclass that does not describe them itself, each with the comment beside it."""
    if not any(decorator.callable_path == "dataclasses.dataclass" for decorator in cls.decorators):
        return ""
    comments = {name: comment_beside(field) for name, field in cls.attributes.items() if not name.startswith("_")}
    lines = [f"    {name}: {comment}" for name, comment in comments.items() if comment]
    return "\n\nAttributes:\n" + "\n".join(lines) if lines else ""


def comment_beside(attr: griffe.Attribute) -> str:
    """The comment at the end of a field's line: `classifiers: np.ndarray  # N x E, float32`."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(inspect.cleandoc("\n".join(attr.lines))).readline))
    except (tokenize.TokenError, SyntaxError):
        return ""
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "" if not comments or comments[-1].startswith(("noqa", "type:", "fmt:")) else comments[-1]


def with_examples(text: str) -> str:
    """Doctests at the margin as code: Markdown would read `>>>` as a quotation. In a section, griffe knows them."""
    return re.sub(r"(?m)^>>> (?:.+\n?)+", lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


def with_formulas(text: str) -> str:
    """`:math:` in a line and `.. math::` as a paragraph, with its continuation lines, as MathML."""
    text = re.sub(r":math:`([^`]+)`", lambda found: convert(found[1]), text)
    block = r"(?m)^(?P<margin> *)\.\. math::(?P<first>.*)\n(?P<rest>(?:\s*\n)*(?:(?P=margin) +\S.*\n?)*)"
    return re.sub(block, lambda found: _block(found["margin"], found["first"] + " " + found["rest"]), text + "\n")


def _block(margin: str, formula: str) -> str:
    return f"{margin}\n{margin}{convert(' '.join(formula.split()), display='block')}\n\n"
