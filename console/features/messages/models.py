"""The Protobuf types of topics' bodies: one of a topic of a cluster, by a compiled set of descriptors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from django.db import models

from console.features.messages.decoders import BodyType
from console.security.topic_scope import TopicScope
from console.site.chosen import chosen

#: topics whose types are looked up at once: a group reads few
MOST_LOOKED_UP = 32


class TopicDescriptor(models.Model):
    """The descriptor of a topic, as an operation wrote it."""

    #: the entry of the settings; "": the first one
    cluster = models.CharField(max_length=255, blank=True, default="")
    topic = models.CharField(max_length=255)
    #: full name of the message type
    type_name = models.CharField(max_length=500)
    #: a FileDescriptorSet
    files = models.BinaryField()
    #: of both: who read this one changes no other
    digest = models.CharField(max_length=32)
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("cluster", "topic"), name="one_descriptor_of_a_topic")]

    def __str__(self) -> str:
        return f"{self.topic}: {self.type_name}"


def digest_of(type_name: str, files: bytes) -> str:
    """Return what changes with the type or the set."""
    return hashlib.sha256(type_name.encode() + b"\0" + files).hexdigest()[:32]


def descriptor_of(topic: str) -> TopicDescriptor | None:
    """Return the descriptor of a topic of the cluster that is chosen."""
    return TopicDescriptor.objects.filter(cluster=chosen().entry, topic=topic).first()


def types_of(scope: TopicScope, topics: Iterable[str]) -> Mapping[str, BodyType]:
    """Return the types of the bodies of these topics, as far as they are seen and have one, by one query."""
    seen = [name for name in dict.fromkeys(topics) if scope.topic(name)][:MOST_LOOKED_UP]
    rows = TopicDescriptor.objects.filter(cluster=chosen().entry, topic__in=seen)
    found = rows.values_list("topic", "type_name", "files")
    return {topic: BodyType(topic, name, bytes(files)) for topic, name, files in found}
