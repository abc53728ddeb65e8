"""The pages' templates: every text is escaped, and a name that is not there is an error."""

from pathlib import Path

import jinja2
from markupsafe import Markup


def environment(*packages: str) -> jinja2.Environment:
    """Of the templates of these packages and of hpml.course, with its style sheet as `style`."""
    loaders = [jinja2.PackageLoader(package) for package in (*packages, "hpml.course")]
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Path(__file__).with_name("templates") / "style.css"
    made.globals["style"] = Markup(style.read_text(encoding="utf-8"))
    return made
