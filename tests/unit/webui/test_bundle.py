"""The dashboard's modules as one script; that it runs is shown in a browser (tests/emulation/webui/test_dashboard.py)."""

from __future__ import annotations

import re

import pytest

from webui.http.bundle import _variable, bundle
from webui.http.pages import STATIC

MODULES = {
    "app.js": 'import { twice } from "./lib/sums.js";\nimport { word } from "./words.js";\ntwice(word);\n',
    "lib/sums.js": 'import { word } from "../words.js";\nexport function twice(x) {\n  return x + x + word;\n}\n',
    "words.js": 'export const word = "import";\nexport class Unused {}\n',
    "stray.js": "import whatever;\n",
}


def test_each_module_comes_once_and_after_those_it_imports_from() -> None:
    made = bundle(MODULES, "app.js")
    places = [made.index(f"const ${name}$js = ") for name in ("words", "lib$sums", "app")]
    assert places == sorted(places) and made.count("= (() => {") == 3
    assert "return { word, Unused };" in made and "const { twice } = $lib$sums$js;" in made


def test_no_import_or_export_is_left() -> None:
    found = {path.relative_to(STATIC).as_posix(): path.read_text() for path in STATIC.rglob("*.js")}
    made = bundle(found, "app.js")
    assert not re.search(r"^\s*(import|export)\b", made, re.MULTILINE)
    needed = {name for name in found if f"const {_variable(name)} = " in made}
    assert needed == set(found) - {"lib/early.js"}  # which runs before the first paint


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("lib/sums.js", 'export { word } from "../words.js";\nexport function twice() {}\n', "lib/sums.js: not understood"),
        ("lib/sums.js", 'import * as all from "../words.js";\nexport function twice() {}\n', "lib/sums.js: not understood"),
        ("lib/sums.js", "export function once() {}\n", "app.js: lib/sums.js does not export twice"),
        ("app.js", 'import { x } from "./gone.js";\n', "gone.js"),
        ("words.js", 'import { twice } from "./lib/sums.js";\nexport const word = 1;\n', "circle"),
    ],
)
def test_what_it_does_not_understand_is_an_error_that_names_the_module(name: str, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        bundle({**MODULES, name: text}, "app.js")
