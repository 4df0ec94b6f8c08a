"""Bodies of messages on pages."""

from __future__ import annotations

from django import template

from console.features.messages.tree import TREE_LIMIT, tree_of

register = template.Library()


@register.inclusion_tag("messages/tree.html")
def json_tree(text: str) -> dict[str, object]:
    """A JSON object or list as a tree that folds without a script."""
    members, is_cut = tree_of(text)
    return {"members": members, "is_cut": is_cut, "limit": TREE_LIMIT}
