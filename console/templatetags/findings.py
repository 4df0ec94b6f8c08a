"""Sentences of findings, with their figures, spans and moments written as everywhere else."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.features.overview.finding_kinds import Finding, Text
from console.templatetags.escapement import figure, length, moment

register = template.Library()


@register.filter
def sentence(finding: Finding) -> SafeString:
    """What the finding says: its sentence, and the one that needs a span where it has one."""
    kind = finding.code.value
    texts = (kind.sentence, kind.with_span if finding.span_ms else "")
    return format_html_join(" ", "{}", ((_filled(text, finding),) for text in texts if text))


def _filled(text: Text, finding: Finding) -> SafeString:
    plural = text % {"value": finding.value or 0, "figure": "{figure}", "gap": "{gap}", "when": "{when}"}
    return format_html(plural, figure=figure(finding.value), gap=length(finding.span_ms), when=moment(finding.at_ms))
