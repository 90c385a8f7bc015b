"""Formulas of the pages as MathML, which browsers draw by themselves: no script, no network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer, node):
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
