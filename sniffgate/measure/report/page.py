"""The report as one HTML page that needs nothing else: tables, figures inside it, no script, made for paper too."""

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from .markup import table_html, text_html
from .table import Table

STYLE = Path(__file__).with_name("page.css")


@attrs.frozen
class Chapter:
    """A heading and what stands below it. `figures` are pairs of SVG text and caption."""

    title: str
    tables: Sequence[Table] = ()
    figures: Sequence[tuple[str, str]] = ()

    @property
    def anchor(self) -> str:
        """Where the contents lead."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def page(title: str, about: Iterable[tuple[str, str]], chapters: Sequence[Chapter]) -> str:
    """The whole page. `about` are pairs of word and value: what the figures depend on."""
    contents = "".join(f'<a href="#{chapter.anchor}">{html.escape(chapter.title)}</a>\n' for chapter in chapters)
    facts = "".join(f"<dt>{html.escape(word)}</dt><dd>{text_html(value)}</dd>\n" for word, value in about)
    body = "".join(_chapter(chapter) for chapter in chapters)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE.read_text()}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n<dl>\n{facts}</dl>\n<nav>\n{contents}</nav>\n{body}</body>\n</html>\n"
    )


def _chapter(chapter: Chapter) -> str:
    lines = [f'<h2 id="{chapter.anchor}">{html.escape(chapter.title)}</h2>']
    lines += [
        f'<figure role="img" aria-label="{html.escape(caption)}">\n{inline(svg, f"{chapter.anchor}-{place}-")}'
        f"<figcaption>{text_html(caption)}</figcaption></figure>"
        for place, (svg, caption) in enumerate(chapter.figures)
    ]
    lines += [table_html(table) for table in chapter.tables]
    return "".join(f"{line}\n" for line in lines)


def inline(svg: str, prefix: str) -> str:
    """An SVG document as part of a page: without its head, and with ids that no other picture has."""
    picture = svg[svg.index("<svg") :]
    picture = re.sub(r"<metadata>.*?</metadata>\s*", "", picture, flags=re.DOTALL)
    picture = re.sub(r'\bid="', f'id="{prefix}', picture)
    picture = re.sub(r'((?:xlink:)?href)="#', rf'\1="#{prefix}', picture)
    return re.sub(r"url\(#", f"url(#{prefix}", picture)
