"""The Protobuf descriptor of a topic: what it is, and the form that sets another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.mirror.models import Topic
from console.features.messages.descriptor_operations import (
    SHOWN_FIELDS,
    ChangeDescriptor,
    described_types,
    set_of_file,
)
from console.features.messages.models import TopicDescriptor, descriptor_of
from console.operations.errors import InvalidParameter
from console.operations.kind import Form
from console.operations.pages import drafted
from console.operations.reading import number_of
from console.security.topic_scope import TopicScope, authorised, current_scope
from console.site.clock import epoch_ms
from console.site.mirrored import cluster
from console.ui.addresses import form_of

#: of a file no more is read: what is larger is refused by then
_MOST_READ_BYTES = 512 * 1024
_LONGEST_TYPE = 500


@dataclass(frozen=True, slots=True)
class DescriptorPage:
    """The descriptor of a topic; `row` None: it has none."""

    topic: str
    row: TopicDescriptor | None
    types_count: int = 0
    #: number, name and type of each field
    fields: tuple[list[Any], ...] = ()
    fields_count: int = 0

    @property
    def at_ms(self) -> int | None:
        """The moment when it was set."""
        return None if self.row is None else epoch_ms(self.row.at)

    @property
    def bytes(self) -> int:
        """The size of the set."""
        return 0 if self.row is None else len(self.row.files)


@authorised
def read_descriptor(scope: TopicScope, topic: str) -> DescriptorPage:
    """Return the descriptor of a topic; raises Http404 for a topic that is not seen, or that there is not and that has
    none."""
    scope.require_topic(topic)
    row = descriptor_of(topic)
    if row is None:
        if not Topic.objects.filter(broker__in=cluster().names, name=topic).exists():
            raise Http404(_("There is no such topic."))
        return DescriptorPage(topic, None)
    count, fields = described_types(row)
    return DescriptorPage(topic, row, count, tuple(fields[:SHOWN_FIELDS]), len(fields))


@require_safe
def descriptor(request: HttpRequest, name: str) -> HttpResponse:
    """Show the descriptor of a topic, and the form for another one."""
    data = read_descriptor(name)
    context = {"data": data, "here": "topics", "topic": name, "type_name": data.row.type_name if data.row else ""}
    return render(request, "messages/descriptor.html", context)


@form_of("topic_descriptor", "name")
def draft(request: HttpRequest, name: str) -> HttpResponse:
    """Preview the descriptor that a form has as a file; raises Http404 for a topic that is not seen."""
    current_scope().require_topic(name)

    def parameters() -> dict[str, Any]:
        file = request.FILES.get("set")
        content = b"" if file is None else file.read(_MOST_READ_BYTES)
        if not content:
            # without a set it would be a removal
            raise InvalidParameter("set", _("Choose the file of the compiled descriptor set."))
        return {"topic": name, "set": set_of_file(content), "type": request.POST.get("type", "")[: _LONGEST_TYPE + 1]}

    def again(given: Any, _faults: Any) -> Form:
        return Form("messages/descriptor_form.html", {"topic": name, "type_name": given.get("type", "")})

    number = number_of(request.POST.get("operation", ""))
    return drafted(request, ChangeDescriptor.name, parameters, number, again)
